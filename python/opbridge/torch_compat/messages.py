"""The texts of torch's messages that opbridge reads. ``tests/python/test_torch_texts.py`` provokes each message."""

from __future__ import annotations

import re

import numpy

from opbridge.torch_compat.symbols import GuardOnDataDependentSymNode

# torch.export's message for a dynamic axis or a Dim that the model fixes: input, axis, Dim and size.
_FIXED_SIZE = re.compile(
    r"You marked (?:L\['(\w+)'\]\S*\.size\(\)\[(\d+)\]|(\S+)) as dynamic but your code specialized it to be a "
    r"constant \((\d+)\)"
)
# torch.export's message for the condition of a branch, or of an operator, that not all sizes of a declared range meet.
_GUARD = re.compile(r"in the specified range satisfy the generated guard (.*?)\.?$", flags=re.MULTILINE)
# torch's and NumPy's messages for an array that has a symbolic size as an object.
_SIZE_IN_NUMPY = re.compile(
    r"can't convert np.ndarray of type numpy.object_|loop of ufunc does not support .* type Sym"
)
# NumPy computes a function of an object by the method of its name.
_METHOD_FOR_NUMPY = re.compile(r"'(?:Sym)?(?:int|float)' object has no attribute '(\w+)'", flags=re.IGNORECASE)
# The end of torch's message for numpy() of a fake tensor, as also numpy.asarray calls it.
_VALUES_IN_NUMPY = ".numpy() is not supported for tensor subclasses."
# The beginnings of torch's advice on its own logs and functions, of a stack of C++ frames, and of a frame, which is
# often torch's own and whose path torch cuts.
_ADVICE = re.compile(r"^(?:For more |The error above |Exception raised from |Caused by: )", flags=re.MULTILINE)
# The expression of sizes in the error about a number that depends on data.
_ASKED = re.compile(r"data-dependent expression .* \(unhinted: (.*)\)\.")
# Autograd's messages about a tensor without a graph.
_WITHOUT_GRADIENTS = (
    "does not require grad and does not have a grad_fn",
    "cannot register a hook on a tensor that doesn't require gradient",
    "can't retain_grad on Tensor that has requires_grad=False",
)
# A frame in torch.fx's stack trace of a node.
_FRAME = re.compile(r'  File "(.*)", line (\d+), in (.*)\n?')


def frames_of(stack_trace: str) -> list[tuple[str, int, str]]:
    """File, line and function of each frame, the innermost last."""
    found = _FRAME.findall("  " + stack_trace.lstrip())
    return [(file, int(line), function) for file, line, function in found]


def fixed_size(error: BaseException) -> tuple[str | None, str | None, str | None, str] | None:
    """For an error about a fixed dynamic size: the input and the axis, or the Dim, and the size. None for others."""
    found = _FIXED_SIZE.search(str(error))
    return None if found is None else (found[1], found[2], found[3], found[4])


def guards_beyond_ranges(error: BaseException) -> list[str]:
    """The conditions that sizes of the declared ranges do not meet, for torch.export's error about them."""
    return _GUARD.findall(str(error))


def without_advice(text: str) -> str:
    return _ADVICE.split(text, maxsplit=1)[0].strip()


def is_branch_on_data(error: BaseException) -> bool:
    """Whether a number that depends on data is needed; TorchScript wraps such an error in one of its own."""
    return GuardOnDataDependentSymNode.__name__ in f"{type(error).__name__} {error}"


def asked_of_data(error: BaseException) -> str:
    """The condition or the number that depends on data and is needed, with torch's symbols; empty if it isn't told."""
    found = _ASKED.search(str(error))
    return found[1] if found is not None else ""


def lacks_gradients(error: BaseException | None) -> bool:
    """Whether the error, or one that caused it, is autograd's complaint about a tensor without a graph."""
    seen: set[int] = set()  # errors may be each other's contexts
    while error is not None and id(error) not in seen:
        if any(text in str(error) for text in _WITHOUT_GRADIENTS):
            return True
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return False


def is_of_sizes_in_numpy(error: BaseException) -> bool:
    """Whether NumPy cannot compute with symbolic sizes, which it treats as objects, or torch cannot make a tensor of
    these."""
    method = _METHOD_FOR_NUMPY.search(str(error))
    is_function = method is not None and isinstance(getattr(numpy, method[1], None), numpy.ufunc)
    return is_function or _SIZE_IN_NUMPY.search(str(error)) is not None


def is_of_different_sizes(error: BaseException) -> bool:
    """Whether two sizes do not broadcast."""
    return "must match the size of tensor" in str(error)


def is_of_values_in_numpy(error: BaseException) -> bool:
    """Whether the model converts a tensor to a NumPy array, whose values a fake tensor does not have."""
    return str(error).endswith(_VALUES_IN_NUMPY)


def is_of_write_to_array(error: BaseException) -> bool:
    """Whether NumPy cannot write to an array because it is read-only."""
    return isinstance(error, ValueError) and "read-only" in str(error)


def is_of_swapped_weights(error: BaseException) -> bool:
    """Whether a module cannot be converted, as by ``module.double()``, because its weights are fake tensors."""
    return "Couldn't swap" in str(error)


def is_of_assigned_attributes(warning: str) -> bool:
    """Whether it is torch.export's warning about attributes that hold other tensors after the run."""
    return "assigned during export" in warning


def is_of_sizes_as_texts(error: BaseException) -> bool:
    """Whether a type of TorchScript was given sizes that are not numbers, which only opbridge's types accept."""
    return str(error).startswith("with_sizes(): incompatible function arguments")
