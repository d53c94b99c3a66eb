"""Calls of a torch.autograd.Function that has ``symbolic`` become single nodes of the captured program.

While a model is captured, ``forward`` of each such class makes one call of ``opbridge::autograd_function``.
In the graph that is a node ``autograd_function::MyAdd``. Its argument ``call`` is an index in ``Program.calls``,
which holds the class and its arguments.

``apply`` may have been bound before (``my_add = MyAdd.apply``), but it looks up ``forward`` in the class. The lookup
itself is replaced, which also covers classes that the model defines while it runs.

If the model itself takes the gradient of a class, as with ``torch.autograd.grad``, the call cannot be a single node,
since ``backward`` computes from what ``forward`` saved. The model is then captured again, with the operators of that
class.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any

import torch

from opbridge import _core
from opbridge.capture.autograd_function.constants import constant_of, keep_constants
from opbridge.capture.autograd_function.output_shapes import probe_outputs
from opbridge.capture.operators import AUTOGRAD_FUNCTION, Operator
from opbridge.capture.patching import patch
from opbridge.capture.program import Program
from opbridge.capture.source import line_of_frame
from opbridge.errors import UnsupportedError
from opbridge.torch_compat import storage_id, transforms_are_active
from opbridge.torch_compat.patch_points import LOOKUP_IN_AUTOGRAD_FUNCTION


@dataclasses.dataclass(frozen=True)
class TensorArgument:
    """Replaces a tensor: its index in the node's attribute ``tensors``."""

    index: int


@dataclasses.dataclass(frozen=True)
class SizeArgument:
    """Replaces a number that depends on dynamic sizes: its index in the node's attribute ``sizes``."""

    index: int


@dataclasses.dataclass
class FunctionCall:
    """``arguments`` are those of ``apply``, with slots instead of tensors and sizes; ``constants`` are the values of
    the tensors that do not depend on the model's inputs.

    ``returns_tuple`` says whether ``forward`` returns a tuple; it is set when ``forward`` has run. ``made_up`` holds
    pairs of an output's index and an axis whose size is constant in ``forward`` but depends on data in ``symbolic``;
    the conversion fills it.
    """

    function: type[torch.autograd.Function]
    arguments: list[Any]
    constants: list[torch.Tensor | None]
    returns_tuple: bool = False
    made_up: set[tuple[int, int]] = dataclasses.field(default_factory=set)

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
        outputs = _own(self.function, "forward")(*context, *arguments)
        self.returns_tuple = isinstance(outputs, (tuple, list))
        outputs = list(outputs) if self.returns_tuple else [outputs]
        for output in outputs:
            if not isinstance(output, torch.Tensor):
                raise UnsupportedError(
                    f"{self.function.__qualname__}.forward returns a {type(output).__name__}; "
                    "a function with `symbolic` returns a tensor or a tuple of tensors"
                )
        return outputs

    def run_on_constants(self, tensors: list[torch.Tensor], sizes: list[Any]) -> list[torch.Tensor]:
        """Calls ``run_apart`` with the values of constants instead of made-up values."""
        known = zip(tensors, self.constants, strict=True)
        return self.run_apart([each if value is None else value.clone() for each, value in known], sizes)

    def run_apart(self, tensors: list[torch.Tensor], sizes: list[Any]) -> list[torch.Tensor]:
        """Runs ``forward``, and copies outputs that share memory with the inputs."""
        shared = {storage_id(tensor) for tensor in tensors}
        outputs = self.run(tensors, sizes)
        return [out.clone() if storage_id(out) in shared else out for out in outputs]


class _Context:
    """The ``ctx`` of ``forward``; it stores nothing, since backward never runs."""

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


_new_library: Any = torch.library.Library  # torch leaves it untyped
_libraries: list[Any] = []  # keeps the libraries, since an operator lives only as long as its Library
_calls: list[FunctionCall] = []


class _Transformed(BaseException):
    """The model differentiates ``function`` or applies vmap to it. Not an Exception, which the model might catch."""

    def __init__(self, function: type[torch.autograd.Function]) -> None:
        super().__init__(f"{function.__qualname__} is transformed")
        self.function = function


# For each function's name, the axes whose sizes depend on data, although forward makes them up.
_found: ContextVar[Mapping[str, set[tuple[int, int]]]] = ContextVar("_found", default={})  # noqa: B039 - never changed


@contextlib.contextmanager
def make_sizes_symbolic(program: Program) -> Iterator[None]:
    """Captures sizes that are made-up constants in ``program``, an earlier capture, as symbols."""
    axes: dict[str, set[tuple[int, int]]] = {}
    for call in program.calls:
        axes.setdefault(call.function.__qualname__, set()).update(call.made_up)
    token = _found.set(axes)
    try:
        yield
    finally:
        _found.reset(token)


def capture_with_functions(
    model: torch.nn.Module, capture: Callable[[], _core.Graph], earlier: Sequence[FunctionCall] = ()
) -> Program:
    """Returns the program that ``capture()`` makes; calls of functions with ``symbolic`` are single nodes. Its calls
    follow the ``earlier`` ones."""
    transformed: set[type[torch.autograd.Function]] = set()
    while True:
        try:
            with keep_constants(model), _keep_functions_whole(transformed, earlier) as calls:
                return Program(capture(), calls)
        except _Transformed as found:
            transformed.add(found.function)


@contextlib.contextmanager
def _keep_functions_whole(
    others: Collection[type[torch.autograd.Function]], earlier: Sequence[FunctionCall]
) -> Iterator[list[FunctionCall]]:
    """Yields a list that collects the calls while a model runs, after the ``earlier`` ones. The classes ``others`` run
    unchanged."""
    _operator()
    global _calls
    calls = _calls = [*earlier]
    inherited = LOOKUP_IN_AUTOGRAD_FUNCTION.original

    def attribute(cls: Any, name: str) -> Any:
        if name in _REPLACEMENTS and cls not in others and hasattr(cls, "symbolic"):
            return _REPLACEMENTS[name](cls)
        return inherited(cls, name)

    try:
        with patch(LOOKUP_IN_AUTOGRAD_FUNCTION, attribute):
            yield calls
    finally:
        _calls = []


@contextlib.contextmanager
def use_calls(calls: list[FunctionCall]) -> Iterator[None]:
    """Runs the operators of a captured program with ``calls`` as the list that their call indices refer to."""
    global _calls
    before, _calls = _calls, calls
    try:
        yield
    finally:
        _calls = before


def key_in_graph(operator: Operator, args: tuple[Any, ...]) -> str:
    """The name of a node that calls ``operator``."""
    return _calls[args[2]].key if operator.key == AUTOGRAD_FUNCTION else operator.key


def _own(cls: type[torch.autograd.Function], name: str) -> Any:
    return type.__getattribute__(cls, name)


def _has_setup_context(cls: type[torch.autograd.Function]) -> bool:
    return _own(cls, "setup_context") is not _own(torch.autograd.Function, "setup_context")


def _forward(cls: type[torch.autograd.Function]) -> Any:
    takes_context = not _has_setup_context(cls)

    def forward(*arguments: Any) -> Any:
        if transforms_are_active():
            raise _Transformed(cls)
        tensors: list[torch.Tensor] = []
        sizes: list[Any] = []
        template = [_slot(argument, tensors, sizes) for argument in arguments[takes_context:]]
        call = FunctionCall(cls, template, [constant_of(tensor) for tensor in tensors])
        _calls.append(call)
        outputs = _operator()(tensors, sizes, len(_calls) - 1)
        return tuple(outputs) if call.returns_tuple else outputs[0]

    return forward


def _setup_context(cls: type[torch.autograd.Function]) -> Any:
    own = _own(cls, "setup_context")
    return (lambda ctx, inputs, output: None) if _has_setup_context(cls) else own


def _derivative(cls: type[torch.autograd.Function]) -> Any:
    def derivative(*_: Any) -> Any:
        raise _Transformed(cls)

    return derivative


# Replacements for attributes of a class whose calls become nodes. ``vjp`` is another name for ``backward``.
_REPLACEMENTS: dict[str, Callable[[type[torch.autograd.Function]], Any]] = {
    "forward": _forward,
    "setup_context": _setup_context,
    "backward": _derivative,
    "jvp": _derivative,
    "vjp": lambda cls: _own(torch.autograd.Function, "vjp"),
}


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
    """The operator ``opbridge::autograd_function``, defined once per process."""
    library = _new_library("opbridge", "FRAGMENT")
    library.define("autograd_function(Tensor[] tensors, SymInt[] sizes, int call) -> Tensor[]")
    library.impl("autograd_function", _run_for_real, "CompositeExplicitAutograd")
    torch.library.register_fake(AUTOGRAD_FUNCTION, _run_on_fakes, lib=library)
    _libraries.append(library)
    return torch.ops.opbridge.autograd_function.default


def _run_for_real(tensors: list[torch.Tensor], sizes: list[int], call: int) -> list[torch.Tensor]:
    return _calls[call].run_apart(tensors, sizes)


def _run_on_fakes(tensors: list[torch.Tensor], sizes: list[Any], call: int) -> list[torch.Tensor]:
    called = _calls[call]
    name = called.function.__qualname__
    try:
        return probe_outputs(name, called.run_on_constants, tensors, sizes, _found.get().get(name, ()))
    except UnsupportedError as error:
        raise UnsupportedError(error.message, line_of_frame(sys._getframe(1))) from error
