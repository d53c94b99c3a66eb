"""Replaces TorchScript's own interpreter by the one of this package, in this thread."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from opbridge.capture.inputs import signature_of
from opbridge.capture.patching import patch
from opbridge.capture.torchscript.branches import Truth
from opbridge.capture.torchscript.interpreter import Interpreter, Unknown
from opbridge.capture.torchscript.sizes import with_tensors
from opbridge.capture.torchscript.structures import Part, copied
from opbridge.capture.traced.recorder import Recorder
from opbridge.torch_compat import pytree
from opbridge.torch_compat.patch_points import IS_EXPORTING
from opbridge.torch_compat.torchscript import (
    CALL_OF_FUNCTION,
    CALL_OF_METHOD,
    PYTHON_FUNCTION,
    ScriptFunction,
    ScriptMethod,
)


def _without_python(called: Any) -> contextlib.AbstractContextManager[None]:
    """Lets a function that was compiled because another one calls it run in TorchScript's interpreter: during
    an export, torch would look for the Python function that it was made of."""
    has_python = not isinstance(called, ScriptFunction) or hasattr(called, PYTHON_FUNCTION)
    return contextlib.nullcontext() if has_python else patch(IS_EXPORTING, False)


@contextlib.contextmanager
def patch_torchscript(recorder: Recorder) -> Iterator[None]:
    """Runs compiled functions and methods in Python, unless they have unknown nodes."""
    of_method, of_function = CALL_OF_METHOD.original, CALL_OF_FUNCTION.original

    def run_compiled(called: Any, arguments: Sequence[Any]) -> Any:
        original = of_method if isinstance(called, ScriptMethod) else of_function
        return interruptible(original, called, *with_tensors(list(arguments)))

    def interruptible(original: Any, called: Any, *args: Any, **kwargs: Any) -> Any:
        recorder.interruption = None
        try:
            with _without_python(called):
                return original(called, *args, **kwargs)
        except RuntimeError:
            if recorder.interruption is None:
                raise
        raise recorder.interruption

    interpreter = Interpreter(run_compiled, recorder)

    def call(called: Any, *args: Any, **kwargs: Any) -> Any:
        is_method = isinstance(called, ScriptMethod)
        original = of_method if is_method else of_function
        try:
            program = interpreter.program_of(called)
            bound = signature_of(called).bind(*args, **kwargs)
        except (Unknown, TypeError):
            return interruptible(original, called, *args, **kwargs)
        bound.apply_defaults()
        declared = called.schema.arguments[is_method:]
        given = [copied(value, each.type) for value, each in zip(bound.arguments.values(), declared, strict=True)]
        owner = [Part(called.owner, "")] if is_method else []
        returned = interpreter.run_part(program, [*owner, *given], "")
        return pytree.tree_map(lambda leaf: bool(leaf) if type(leaf) is Truth else leaf, with_tensors(returned))

    with patch(CALL_OF_METHOD, call), patch(CALL_OF_FUNCTION, call):
        yield
