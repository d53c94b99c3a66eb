"""Calls of a torch.autograd.Function that has ``symbolic``, kept whole in the captured program.

While a model is captured, ``forward`` of each such class makes one call of ``opbridge::autograd_function``.
In the graph that is a node ``autograd_function::MyAdd``, whose argument ``call`` counts the entries of
``Program.calls``, which hold the class and its arguments. The patch sits on ``forward`` for ``apply`` may have
been bound long before: ``my_add = MyAdd.apply``.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Iterator
from typing import Any

import torch

from opbridge.capture.operators import Operator
from opbridge.capture.probe import probe_outputs
from opbridge.capture.replaced import replaced
from opbridge.errors import UnsupportedError


@dataclasses.dataclass(frozen=True)
class TensorArgument:
    """In the place of a tensor: its index in the node's attribute ``tensors``."""

    index: int


@dataclasses.dataclass(frozen=True)
class SizeArgument:
    """In the place of a number made of dynamic sizes: its index in the node's attribute ``sizes``."""

    index: int


@dataclasses.dataclass
class FunctionCall:
    """``arguments`` as ``apply`` took them, with slots in the places of tensors and sizes.

    ``returns_tuple`` says whether ``forward`` returns a tuple, known once it has run.
    """

    function: type[torch.autograd.Function]
    arguments: list[Any]
    returns_tuple: bool = False

    @property
    def key(self) -> str:
        """The operator's name in the graph."""
        return f"autograd_function::{self.function.__name__}"

    def filled(self, tensors: list[Any], sizes: list[Any]) -> list[Any]:
        """``arguments`` with ``tensors`` and ``sizes`` in the slots."""
        return list(_filled(self.arguments, tensors, sizes))

    def run(self, tensors: list[torch.Tensor], sizes: list[Any]) -> list[torch.Tensor]:
        """Runs the class's own ``forward``."""
        arguments = self.filled(tensors, sizes)
        context = () if _has_setup_context(self.function) else (_Context(self.function, len(arguments)),)
        outputs = _original_forward(self.function)(*context, *arguments)
        self.returns_tuple = isinstance(outputs, (tuple, list))
        outputs = list(outputs) if self.returns_tuple else [outputs]
        for output in outputs:
            if not isinstance(output, torch.Tensor):
                raise UnsupportedError(
                    f"{self.function.__qualname__}.forward returns a {type(output).__name__}; "
                    "a function with `symbolic` returns a tensor or a tuple of tensors"
                )
        return outputs

    def run_apart(self, tensors: list[torch.Tensor], sizes: list[Any]) -> list[torch.Tensor]:
        """The same, with outputs that share no memory with the inputs."""
        shared = {tensor.untyped_storage()._cdata for tensor in tensors}
        outputs = self.run(tensors, sizes)
        return [out.clone() if out.untyped_storage()._cdata in shared else out for out in outputs]


class _Context:
    """What ``forward`` gets as ``ctx``; nothing of it is kept, for there is no backward."""

    def __init__(self, function: type[torch.autograd.Function], argument_count: int) -> None:
        self._function = function
        self.needs_input_grad = (False,) * argument_count

    def save_for_backward(self, *tensors: Any) -> None: ...

    def save_for_forward(self, *tensors: Any) -> None: ...

    def mark_non_differentiable(self, *tensors: Any) -> None: ...

    def set_materialize_grads(self, value: bool) -> None: ...

    def mark_dirty(self, *tensors: Any) -> None:
        raise UnsupportedError(
            f"{self._function.__qualname__} changes its inputs in place (ctx.mark_dirty); "
            "return a new tensor to export it by its `symbolic`"
        )


OPERATOR = "opbridge::autograd_function"
_new_library: Any = torch.library.Library  # torch leaves it untyped
_libraries: list[Any] = []  # an operator lives as long as its Library
_originals: dict[type, Any] = {}
_calls: list[FunctionCall] = []


@contextlib.contextmanager
def functions_kept_whole() -> Iterator[list[FunctionCall]]:
    """Yields the list of the calls, which fills up while a model runs."""
    _operator()
    patched = [cls for cls in _subclasses(torch.autograd.Function) if hasattr(cls, "symbolic")]
    global _calls
    calls = _calls = []
    _originals.update({cls: cls.forward for cls in patched})
    try:
        with contextlib.ExitStack() as until_the_end:
            for cls in patched:
                until_the_end.enter_context(replaced(cls, forward=staticmethod(_replacement(cls))))
                if _has_setup_context(cls):
                    nothing = staticmethod(lambda ctx, inputs, output: None)
                    until_the_end.enter_context(replaced(cls, setup_context=nothing))
            yield calls
    finally:
        _originals.clear()
        _calls = []


def key_in_graph(operator: Operator, args: tuple[Any, ...]) -> str:
    """The name of a node that calls ``operator``."""
    return _calls[args[2]].key if operator.key == OPERATOR else operator.key


def _subclasses(cls: type[Any]) -> Iterator[type[Any]]:
    subclasses: list[type[Any]] = cls.__subclasses__()
    for subclass in subclasses:
        yield subclass
        yield from _subclasses(subclass)


def _has_setup_context(cls: type[torch.autograd.Function]) -> bool:
    return cls.setup_context is not torch.autograd.Function.setup_context


def _original_forward(cls: type[torch.autograd.Function]) -> Any:
    return _originals[cls]


def _replacement(cls: type[torch.autograd.Function]) -> Any:
    takes_context = not _has_setup_context(cls)

    def forward(*arguments: Any) -> Any:
        tensors: list[torch.Tensor] = []
        sizes: list[Any] = []
        template = [_slot(argument, tensors, sizes) for argument in arguments[takes_context:]]
        call = FunctionCall(cls, template)
        _calls.append(call)
        outputs = _operator()(tensors, sizes, len(_calls) - 1)
        return tuple(outputs) if call.returns_tuple else outputs[0]

    return forward


def _slot(argument: Any, tensors: list[torch.Tensor], sizes: list[Any]) -> Any:
    if isinstance(argument, torch.Tensor):
        tensors.append(argument)
        return TensorArgument(len(tensors) - 1)
    if isinstance(argument, torch.SymInt):
        sizes.append(argument)
        return SizeArgument(len(sizes) - 1)
    if type(argument) in (list, tuple):
        return type(argument)(_slot(item, tensors, sizes) for item in argument)
    return argument


def _filled(template: Any, tensors: list[torch.Tensor], sizes: list[Any]) -> Any:
    if isinstance(template, TensorArgument):
        return tensors[template.index]
    if isinstance(template, SizeArgument):
        return sizes[template.index]
    if type(template) in (list, tuple):
        return type(template)(_filled(item, tensors, sizes) for item in template)
    return template


@functools.cache
def _operator() -> Any:
    """``opbridge::autograd_function``, defined once in the process."""
    library = _new_library("opbridge", "FRAGMENT")
    library.define("autograd_function(Tensor[] tensors, SymInt[] sizes, int call) -> Tensor[]")
    library.impl("autograd_function", _run_for_real, "CompositeExplicitAutograd")
    torch.library.register_fake(OPERATOR, _run_on_fakes, lib=library)
    _libraries.append(library)
    return torch.ops.opbridge.autograd_function.default


def _run_for_real(tensors: list[torch.Tensor], sizes: list[int], call: int) -> list[torch.Tensor]:
    return _calls[call].run_apart(tensors, sizes)


def _run_on_fakes(tensors: list[torch.Tensor], sizes: list[Any], call: int) -> list[torch.Tensor]:
    name = _calls[call].function.__qualname__
    return probe_outputs(name, _calls[call].run_apart, tensors, sizes)
