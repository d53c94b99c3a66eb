"""Records the calls of operators while a model runs."""

from __future__ import annotations

import sys
import weakref
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.multiprocessing import reductions

from opbridge import _core
from opbridge.capture.autograd_function.calls import key_in_graph
from opbridge.capture.operators import Operator, custom_sizes_depend_on_data, operator_of
from opbridge.capture.program import (
    NUMBER,
    NUMBER_DTYPES,
    Result,
    Sizes,
    add_weight,
    argument_names,
    describe,
    layout_of_strided,
    note_layout,
    own_generator_refusal,
    refuse_sparse_input,
    returned,
    without_nested_lists,
    without_own_device,
)
from opbridge.capture.run_warnings import location_of_run, warn_of_run
from opbridge.capture.source import Scopes, line_of_frame
from opbridge.capture.state.attributes import named_tensors
from opbridge.capture.state.overwritten_tensors import Originals, written_tensors
from opbridge.capture.state.real_tensors import is_written_in_run, refuse_write_to_array
from opbridge.capture.symbolic_sizes.asking import NeedsNumberOfData
from opbridge.capture.symbolic_sizes.numbers import number
from opbridge.capture.symbolic_sizes.size_checks import is_check
from opbridge.capture.symbolic_sizes.squeeze import check_squeeze, is_squeeze
from opbridge.capture.traced.bodies import NotRecorded, WithBodies
from opbridge.capture.traced.unrecorded_writes import FreshTensors
from opbridge.errors import UnsupportedError
from opbridge.operator_names import stem
from opbridge.torch_compat import (
    DisablePythonDispatcher,
    DisableTorchFunction,
    OpOverload,
    has_memory,
    is_fake,
    is_traceable_wrapper_subclass,
    is_transformed,
    storage_id,
    unset_fake_temporarily,
    unwrap_if_dead,
)
from opbridge.torch_compat.fake_tensors import forget_value, note_write

_StorageWeakRef: Any = reductions.StorageWeakRef
_OF_TYPES_AND_SIZES = frozenset({"dense_dim", "is_same_size", "result_type", "sparse_dim"})  # read no elements
_PLAIN = frozenset({int, float, bool, str, complex, type(None), torch.dtype, torch.device})


class SizesDependOnData(BaseException):
    """A run on real tensors has reached an operator like nonzero, whose output sizes must be symbols.

    Not an Exception, which the model might catch."""


class NumberDependsOnData(BaseException):
    """A run on real tensors reads an integer or a floating-point number from a tensor that depends on the inputs: a
    symbol might stand for it. Not an Exception either."""


class Recorder(WithBodies):
    """``call`` runs an operator, on real or fake tensors, and adds a node for it.

    Tensors are identified by object identity while they live. A tensor that no recorded operator has made is a
    constant; it gets the name of the parameter, buffer or attribute that holds it.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        sizes: Sizes,
        for_real: bool,
        take_numbers: bool = True,
        with_bodies: bool = False,
    ) -> None:
        super().__init__(with_bodies)
        self.originals = Originals()
        self.changed: list[str] = []  # parameters
        self._for_real = for_real
        self._take_numbers = take_numbers  # whether numbers read from real tensors become constants, with a warning
        self._module = module
        # Memory to which values that depend on the inputs were written; or any, where a fake tensor does not carry what
        # was written to the real one.
        self._written: dict[int, Any] = {}
        self._sizes = sizes
        sizes.compute_with(self._emit_number)
        self._scopes = Scopes(module)
        self._builder = _core.ProgramBuilder()
        # id of a tensor → the tensor, its value, and whether that depends on the inputs or on random numbers.
        self._known: dict[int, tuple[weakref.ref[torch.Tensor], _core.ProgramValue, bool]] = {}
        # Memory → the tensors in it that are fake or depend on the inputs, their values, and whether these vary. Dead
        # tensors are kept too, since their memory may outlive them, in x.data or saved by autograd.
        self._by_memory: dict[int, list[tuple[Any, tuple[Any, ...], _core.ProgramValue, bool]]] = {}
        self._varies = False
        self._inside = False  # whether an operator is running
        self._fresh = FreshTensors()
        self._names: set[str] = set()
        self._counts: Counter[str] = Counter()
        self._module_names = _names_in(module)

    def add_input(self, name: str, tensor: torch.Tensor) -> None:
        refuse_sparse_input(name, tensor)
        value = self._builder.input(self._unique(name), tensor.dtype, self._sizes.shape(tensor.shape))
        note_layout(self._builder, value, tensor, self._sizes)
        self._bind(tensor, value, True)
        self.originals.watch(tensor)

    def call(self, function: OpOverload, args: Any, kwargs: dict[str, Any]) -> Any:
        operator = operator_of(function)
        if _core.is_assertion(operator.key) or self._pausing or operator.stem in _OF_TYPES_AND_SIZES:
            return self._run(function, args, kwargs)
        if self._body or self._perhaps_shared:
            self._check_writes(operator, args, kwargs)
        self._varies = torch.Tag.nondeterministic_seeded in function.tags
        if self._varies and any(isinstance(given, torch.Generator) for given in (*args, *kwargs.values())):
            raise own_generator_refusal(operator.key, line_of_frame(sys._getframe(1)))
        try:
            arguments: Sequence[Any] = [self._resolve(arg) for arg in args]
            named = {name: self._resolve(arg) for name, arg in kwargs.items()} if kwargs else kwargs
            if args and (layout := layout_of_strided(operator.key, args[0], self._sizes)):
                named = named | layout
            named = without_nested_lists(operator.key, named)
            key = key_in_graph(operator, args)
            if args:
                key, arguments, named = without_own_device(key, operator.names, args[0], arguments, named)
            varies = self._varies
            if self._for_real and _sizes_depend_on_data(function, operator, varies, args, kwargs):
                raise self.interrupt(SizesDependOnData())
            if operator.written:
                self.originals.keep(operator, args, kwargs)
                for tensor in written_tensors(operator, args, kwargs):
                    refuse_write_to_array(tensor)
            if not self._for_real and is_squeeze(operator):
                check_squeeze(operator, args, kwargs, self._sizes, location_of_run())
            viewed = self._fresh.before(operator, function.is_view, args, kwargs)
            value = self._run(function, args, kwargs)
            if operator.written and not self._for_real:
                for tensor in filter(has_memory, written_tensors(operator, args, kwargs)):
                    self._note_write(tensor)
            if isinstance(value, (bool, int, float, complex)):
                if self._body and varies:
                    raise self.interrupt(NotRecorded())
                if varies and not (isinstance(value, bool) and is_check(sys._getframe(1))):
                    if not self._take_numbers and type(value) in (int, float):
                        raise self.interrupt(NumberDependsOnData())
                    warn_of_run(f"a tensor that depends on the inputs was read as the number {value}")
                return value
            self._fresh.after(operator, value, viewed)
            results: list[Result] = []
            describe(self._unique(operator.stem), value, self._sizes, results)
            frame = sys._getframe(1)
            scope, line = self._scopes.of_frame(frame), line_of_frame(frame)
            outputs = self._builder.call(key, operator.names, arguments, named, results, scope, line)
        except UnsupportedError as error:
            kind = NeedsNumberOfData if isinstance(error, NeedsNumberOfData) else UnsupportedError
            raise kind(error.message, error.where or line_of_frame(sys._getframe(1))) from error
        if varies:
            for tensor in written_tensors(operator, args, kwargs):
                if has_memory(tensor):
                    self._mark_written(tensor)
        self._bind_all(value, iter(outputs), varies, written=bool(operator.written))
        return value

    def _run(self, function: OpOverload, args: Any, kwargs: Any) -> Any:
        self._inside = True
        try:
            return self.run(function, args, kwargs)
        finally:
            self._inside = False

    def run(self, function: OpOverload, args: Any, kwargs: Any) -> Any:
        if not self._for_real:
            return function(*args, **kwargs)
        with DisablePythonDispatcher():
            return function(*args, **kwargs)

    def read(self, tensor: torch.Tensor) -> None:
        """Warns that ``tensor`` is converted to Python or NumPy values, as by numpy() or tolist()."""
        if not self._for_real and not is_fake(tensor) and has_memory(tensor):
            self._note_write(tensor)  # through the array of numpy()
        varies = self._is_written(tensor) or (self._is_known(tensor) and self._known[id(tensor)][2])
        if not self._inside and varies:
            warn_of_run("a tensor that depends on the inputs was read into Python")

    def note_truth(self, value: Any) -> None:
        """Warns if the result of an operator, below which operators were recorded, is the truth of a fake tensor that
        carries data: torch has read it from a symbol, the result of the last of them."""
        if isinstance(value, bool) and self._varies and not self._for_real and not is_check(sys._getframe(1)):
            warn_of_run(f"a tensor that depends on the inputs was read as the number {value}")

    def assign_data(self, tensor: torch.Tensor, other: torch.Tensor) -> None:
        """Records ``tensor.data = other``. In the graph, a parameter then simply has another value: after the run, the
        assignment matters only for the next run."""
        line = line_of_frame(sys._getframe(1))
        self._varies = False
        before, after = self._value_of(tensor), self._value_of(other)
        if isinstance(tensor, torch.nn.Parameter):
            if tensor.shape != other.shape or tensor.dtype != other.dtype:
                raise UnsupportedError("the model gives a parameter data of another shape or element type", line)
            self._bind(tensor, after, self._varies)
            self.changed.append(f"{self._module_names.get(id(tensor), 'a parameter')}.data")
        else:
            shape = self._sizes.shape(tensor.shape)
            made = [(self._unique("data"), tensor.dtype, shape)]
            scope = self._scopes.of_frame(sys._getframe(1))
            old = self._builder.call("aten::detach", ("self",), (before,), {}, made, scope, line)[0]
            for entries in self._by_memory.values():
                entries[:] = [
                    (memory, layout, old if value is before else value, varies)
                    for memory, layout, value, varies in entries
                ]
            names = ("self", "new_data")
            self._builder.call("aten::set_data", names, (before, after), {}, [], scope, line)
            self._known[id(tensor)] = (weakref.ref(tensor), before, self._varies)
        if not self._for_real:
            forget_value(tensor)
        if is_fake(tensor) or not is_fake(other):
            self._inside = True
            try:
                with DisableTorchFunction(), DisablePythonDispatcher():
                    tensor.data = other
            finally:
                self._inside = False
        if not self._for_real:
            self._mark_written(tensor)

    def is_weight(self, tensor: torch.Tensor) -> bool:
        return id(tensor) in self._module_names or not (self._for_real or is_fake(tensor))

    def finish(self, outputs: list[Any]) -> _core.Graph:
        for i, output in enumerate(outputs):
            if isinstance(output, torch.Tensor):
                self._fresh.check(output)
            if output is not None:
                value = returned(self._builder, output, self._resolve(output), self._unique(f"number_{i}"))
                self._builder.output(value, "")
        return self._builder.finish()

    @property
    def names(self) -> tuple[set[str], Counter[str]]:
        """The names of values so far. Those that are made next follow from them."""
        return set(self._names), Counter(self._counts)

    @names.setter
    def names(self, names: tuple[set[str], Counter[str]]) -> None:
        self._names, self._counts = names

    def text_of(self, number: torch.SymInt) -> str:
        """The expression of a dynamic size, with the user's names."""
        return self._sizes.text_of(number.node.expr)

    def records_branch_on(self, tensor: torch.Tensor) -> bool:
        """Whether a branch or a loop that the tensor decides can become a part of the graph."""
        self._varies = False
        self._value_of(tensor)
        if not self._varies:
            return False
        if self._for_real and not self._take_numbers:
            raise NumberDependsOnData
        return self._with_bodies

    def _resolve(self, argument: Any) -> Any:
        kind = type(argument)
        if kind in _PLAIN:
            return argument
        if kind is list or kind is tuple:
            return [self._resolve(item) for item in argument]
        if isinstance(argument, torch.Tensor):
            return self._value_of(argument)
        if kind is torch.SymInt:
            self._varies = True
            return self._sizes.dim(argument)
        if kind is torch.SymFloat or kind is torch.SymBool:
            self._varies = True
            return number(argument.node.expr, argument.node.shape_env, self._emit_number, self._sizes)
        if isinstance(argument, (list, tuple)):
            return [self._resolve(item) for item in argument]
        return argument

    def _emit_number(
        self, key: str, arguments: tuple[Any, ...], dtype: torch.dtype, size: _core.Dim = NUMBER
    ) -> _core.ProgramValue:
        name = self._unique(stem(key))
        names = argument_names(arguments)
        if self._body is not None and size is not NUMBER:
            raise NotRecorded  # the number would be known outside of the body too
        result = (name, dtype, size)
        frame = sys._getframe(1)
        scope, line = self._scopes.of_frame(frame), line_of_frame(frame)
        return self._builder.call(key, names, arguments, {}, [result], scope, line)[0]

    def _bind(self, tensor: torch.Tensor, value: _core.ProgramValue, varies: bool) -> None:
        _check_untransformed(tensor)
        self._known[id(tensor)] = (weakref.ref(tensor), value, varies)
        if has_memory(tensor):
            entries = self._by_memory.setdefault(_memory_of(tensor), [])
            if entries and entries[-1][0].expired():
                entries.clear()
            entries.append((_StorageWeakRef(tensor.untyped_storage()), _layout_of(tensor), value, varies))

    def _bind_all(self, made: Any, outputs: Iterator[_core.ProgramValue], varies: bool, written: bool) -> None:
        if isinstance(made, torch.Tensor):
            value = next(outputs)
            # An operator may return an argument itself, as broadcast_tensors does where a size stays. Constants get the
            # value that lift_fresh makes of them, which a model may write to.
            if written or not (self._is_known(made) and self._known[id(made)][2]):
                self._bind(made, value, varies)
        elif isinstance(made, (list, tuple)):
            for element in made:
                self._bind_all(element, outputs, varies, written)
        elif made is not None:
            value = next(outputs)
            if isinstance(made, (torch.SymFloat, torch.SymBool)):
                self._bind_number(made, value, varies)

    def _bind_number(self, number: torch.SymFloat | torch.SymBool, value: _core.ProgramValue, varies: bool) -> None:
        """Binds a tensor that stands for the number, so that bodies take it for an operand as they do tensors."""
        with self.pause():
            tensor = torch.empty((), dtype=NUMBER_DTYPES[type(number)])
        self._bind(tensor, value, varies)
        self._sizes.read[number.node.expr] = lambda: self._value_of(tensor)

    def _is_known(self, tensor: torch.Tensor) -> bool:
        known = self._known.get(id(tensor))
        return known is not None and known[0]() is tensor

    def _value_of(self, tensor: torch.Tensor) -> _core.ProgramValue:
        if not self._is_known(tensor):
            if is_transformed(tensor) and (inner := unwrap_if_dead(tensor)) is not tensor:
                return self._value_of(inner)  # the transform has ended
            _check_untransformed(tensor)
            if self._body is not None:
                value, varies = self.lift(self._body, tensor)
            else:
                value, varies = self._hidden_alias(tensor) or (self._constant(tensor), False)
                self._bind(tensor, value, varies)
        else:
            _, value, varies = self._known[id(tensor)]
        self._varies |= varies or self._is_written(tensor)
        return value

    def _note_write(self, tensor: torch.Tensor) -> None:
        """Notes a write to a tensor in a capture on fake tensors."""
        fake = note_write(tensor)
        if not is_fake(tensor):
            self._mark_written(tensor)
            self._mark_written(fake)

    def _mark_written(self, tensor: torch.Tensor) -> None:
        self._written[storage_id(tensor)] = _StorageWeakRef(tensor.untyped_storage())

    def _is_written(self, tensor: torch.Tensor) -> bool:
        """Whether an operator has written a value that depends on the inputs to the tensor's memory."""
        if is_written_in_run(tensor):
            return True
        if not self._written or not has_memory(tensor):
            return False
        storage = self._written.get(storage_id(tensor))
        return storage is not None and not storage.expired()

    def _constant(self, tensor: torch.Tensor) -> _core.ProgramValue:
        if self._with_bodies and is_fake(tensor) and id(tensor) not in self._module_names:
            raise UnsupportedError(
                "a tensor that a branch or a step of a loop has made is used outside of it, such as one that an object "
                "keeps; return it, or keep it in a variable",
                line_of_frame(sys._getframe(1)),
            )
        name = self._module_names.get(id(tensor)) or self._unique("constant")
        with unset_fake_temporarily():
            value = add_weight(self._builder, name, tensor)
        self.originals.watch(tensor)
        return value

    def _hidden_alias(self, tensor: torch.Tensor) -> tuple[_core.ProgramValue, bool] | None:
        """The value of the live or dead tensor whose memory this one shares through ``.data``, autograd or numpy, and
        whether that depends on the inputs."""
        if id(tensor) in self._module_names or not has_memory(tensor):
            return None
        entries = [entry for entry in self._by_memory.get(_memory_of(tensor), []) if not entry[0].expired()]
        for _, layout, value, varies in reversed(entries):
            if layout == _layout_of(tensor):
                return value, varies
        if entries and (is_fake(tensor) or any(varies for *_, varies in entries)):
            raise UnsupportedError(
                "a tensor of the model shares the memory of another one without an operator that says so, as with "
                "torch.from_numpy(x.numpy()); use operators of torch instead",
                line_of_frame(sys._getframe(1)),
            )
        return None

    def _unique(self, stem: str) -> str:
        name = stem
        while name in self._names:
            self._counts[stem] += 1
            name = f"{stem}_{self._counts[stem]}"
        self._names.add(name)
        return name


def _names_in(model: torch.nn.Module) -> dict[int, str]:
    """Names of the parameters, buffers and other tensors of the modules; the first of several names."""
    names: dict[int, str] = {}
    for name, tensor in named_tensors(model):
        _add_names(names, name, tensor)
    return names


def _add_names(names: dict[int, str], name: str, tensor: torch.Tensor) -> None:
    """The name of the tensor, and of those that a tensor subclass holds."""
    names.setdefault(id(tensor), name)
    is_wrapper: bool = is_traceable_wrapper_subclass(tensor)
    if is_wrapper:
        wrapper: Any = tensor
        for attribute in wrapper.__tensor_flatten__()[0]:
            _add_names(names, f"{name}.{attribute}", getattr(tensor, attribute))


def _sizes_depend_on_data(
    function: OpOverload, operator: Operator, varies: bool, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> bool:
    """Whether the sizes of the results must be symbols. If the arguments do not vary, this run's sizes hold."""
    if operator.sizes_depend_on_data and (operator.stem != "index" or _has_mask(args[1])):
        return varies or function.namespace != "aten"
    return custom_sizes_depend_on_data(function, args, kwargs)


def _has_mask(indices: Any) -> bool:
    return any(index is not None and index.dtype in (torch.bool, torch.uint8) for index in indices)


def _check_untransformed(tensor: torch.Tensor) -> None:
    if is_transformed(tensor):
        raise UnsupportedError(
            "a tensor of a transform of torch.func (vmap, grad, …) is used outside of it; return it from the "
            "transformed function",
            line_of_frame(sys._getframe(1)),
        )


def _memory_of(tensor: torch.Tensor) -> int:
    """A key that is equal for tensors that share memory."""
    return storage_id(tensor) if is_fake(tensor) else tensor.untyped_storage().data_ptr() or storage_id(tensor)


def _layout_of(tensor: torch.Tensor) -> tuple[Any, ...]:
    """How the tensor views its memory: sizes, strides and offset, and how it reads the elements there."""
    reading = tensor.dtype, tensor.is_conj(), tensor.is_neg()
    return tensor.shape, tensor.stride(), tensor.storage_offset(), *reading
