"""What torch says in English, where opbridge goes by it. ``tests/python/test_torch_compat.py`` provokes each."""

from __future__ import annotations

import re

from opbridge.torch_compat.symbols import GuardOnDataDependentSymNode

# torch.export's words for a dynamic axis, or a Dim, that the model makes a constant: input, axis, Dim and size.
_FIXED_SIZE = re.compile(
    r"You marked (?:L\['(\w+)'\]\S*\.size\(\)\[(\d+)\]|(\S+)) as dynamic but your code specialized it to be a "
    r"constant \((\d+)\)"
)
# Where torch's advice on its own logs and functions begins.
_ADVICE = re.compile(r"^(?:For more |The error above )", flags=re.MULTILINE)


def fixed_size(error: BaseException) -> tuple[str | None, str | None, str | None, str] | None:
    """Of an error that says so: the input and the axis, or the Dim, and the size that the model fixes it to."""
    found = _FIXED_SIZE.search(str(error))
    return None if found is None else (found[1], found[2], found[3], found[4])


def without_advice(text: str) -> str:
    return _ADVICE.split(text, maxsplit=1)[0].strip()


def is_branch_on_data(error: BaseException) -> bool:
    """Whether a number that only data tell is asked for; TorchScript wraps such an error in one of its own."""
    return GuardOnDataDependentSymNode.__name__ in f"{type(error).__name__} {error}"


def is_of_assigned_attributes(warning: str) -> bool:
    """torch.export warns of attributes that hold other tensors after the run."""
    return "assigned during export" in warning
