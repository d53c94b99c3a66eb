"""Branches that data decide, as nodes with two bodies."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch

from opbridge.capture.symbolic_sizes.bounds import are_equal_if
from opbridge.capture.torchscript.sizes import with_tensors
from opbridge.capture.traced.bodies import Body, NotRecorded
from opbridge.capture.traced.recorder import Recorder
from opbridge.errors import UnsupportedError
from opbridge.torch_compat import check, pytree
from opbridge.torch_compat.symbols import FLOATS, INTEGERS, expression_of, forget_facts, free_unbacked_symbols

_PLAIN = (bool, int, float, str, type(None), torch.device, torch.dtype)


def _arithmetic(operation: Callable[[Any, Any], Any]) -> tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]:
    """The operator of a Truth and another value, and that of another value and a Truth."""

    def compute(self: Any, other: Any) -> Any:
        return operation(self.in_arithmetic_with(other), other.number() if type(other) is Truth else other)

    return compute, lambda self, other: operation(other, self.in_arithmetic_with(other))


class Truth:
    """A bool that the data of a tensor decide; if these are sizes, they are ``asked`` for it."""

    __slots__ = ("asked", "tensor")
    __class__ = property(lambda self: bool)  # for isinstance

    __add__, __radd__ = _arithmetic(operator.add)
    __sub__, __rsub__ = _arithmetic(operator.sub)
    __mul__, __rmul__ = _arithmetic(operator.mul)
    __truediv__, __rtruediv__ = _arithmetic(operator.truediv)
    __floordiv__, __rfloordiv__ = _arithmetic(operator.floordiv)
    __mod__, __rmod__ = _arithmetic(operator.mod)
    __pow__, __rpow__ = _arithmetic(operator.pow)
    __lt__, __gt__ = _arithmetic(operator.lt)
    __le__, __ge__ = _arithmetic(operator.le)

    def __init__(self, tensor: torch.Tensor, asked: Any = None) -> None:
        self.tensor = tensor
        self.asked = asked

    def __str__(self) -> str:
        raise UnsupportedError("the model makes a text of a bool that data decide")

    def __eq__(self, other: object) -> Any:
        return self._compared(torch.eq, other)

    def __ne__(self, other: object) -> Any:
        return self._compared(torch.ne, other)

    def _compared(self, compare: Callable[[Any, Any], torch.Tensor], other: object) -> Any:
        if isinstance(other, torch.Tensor):
            return compare(other, self.scalar)
        return Truth(compare(self.tensor, _tensor_of(other)))

    @classmethod
    def __torch_function__(cls, function: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
        """An operator of a tensor and a bool computes as with a tensor without axes, which has no part in the type of
        the result."""
        given = pytree.tree_map(lambda each: each.scalar if type(each) is Truth else each, (args, kwargs or {}))
        return function(*given[0], **given[1])

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        return bool(self.tensor)

    def __int__(self) -> int:
        return int(self.number())

    __index__ = __int__

    def __float__(self) -> float:
        return float(self.number())

    @property
    def scalar(self) -> torch.Tensor:
        """The bool as a tensor without axes."""
        return self.tensor.reshape(()) if self.tensor.dim() else self.tensor

    def number(self) -> Any:
        """0 or 1."""
        return self.scalar.to(torch.int64).item()

    def in_arithmetic_with(self, other: object) -> Any:
        """What computes with ``other`` as the bool does: of a tensor, the result has the element type."""
        return self.scalar if isinstance(other, torch.Tensor) else self.number()


def _tensor_of(value: Any) -> Any:
    return value.tensor if type(value) is Truth else value


class Uninitialized:
    """The value of a variable on a path that never reads it."""


UNINITIALIZED = Uninitialized()


def as_truth(value: Any) -> Any:
    """Makes a Truth of a symbol that depends on data. For other symbols, which depend on sizes, the program takes the
    branch of the example."""
    if type(value) is torch.SymBool and free_unbacked_symbols(value.node.expr):
        return Truth(torch.scalar_tensor(value, dtype=torch.bool), value.node.expr)
    return value


def logically(name: str, arguments: Sequence[Any]) -> Any:
    """The result of an operator of bools if one of them is a Truth; NotImplemented for other operators."""
    if name == "aten::__not__":
        return Truth(torch.logical_not(arguments[0].tensor))
    if name not in ("aten::__and__", "aten::__or__"):
        return NotImplemented
    left, right = sorted(map(as_truth, arguments), key=lambda each: type(each) is Truth)
    if type(left) is torch.SymBool:
        return NotImplemented
    if type(left) is not Truth:
        decides = not left if name == "aten::__and__" else left
        return left if decides else right
    combine = torch.logical_and if name == "aten::__and__" else torch.logical_or
    return Truth(combine(left.tensor.reshape(()), right.tensor.reshape(())))


def record_branch(
    recorder: Recorder, condition: Truth, ways: Sequence[Callable[[], list[Any]]], with_numbers: bool = False
) -> list[Any]:
    """Returns the results of a node with both blocks, which ``ways`` run. Raises NotRecorded if the branch cannot be a
    node, also if numbers differ unless ``with_numbers``: then they become symbols."""
    bodies = [Body(), Body()]
    fake: Any = condition.tensor
    known = symbols_before(condition.tensor)
    made: list[list[Any]] = []
    for body, way in zip(bodies, ways, strict=True):
        with recorder.enter(body), forget_facts(fake.fake_mode.shape_env):
            for tensor, _ in bodies[0].operands if body is bodies[1] else ():
                recorder.lift(body, tensor)
            made.append([with_tensors(value) for value in way()])
            for leaf in pytree.tree_leaves(made[-1]):  # they become operands before the other way adds its own
                if isinstance(leaf, (torch.Tensor, torch.SymFloat, Truth)):
                    recorder.value_of(_tensor_of(leaf))
    merge = _Merge(recorder, bodies, condition, known, with_numbers)
    results = [merge.values(*pair) for pair in zip(*made, strict=True)]
    with recorder.pause():
        stand_ins = [_standing_for(pair, known, condition) for pair in merge.pairs]
    for body, index in zip(bodies, (0, 1), strict=True):
        with recorder.enter(body):
            for pair in merge.pairs:
                recorder.give(pair[index])
    with recorder.enter(bodies[0]):  # the same operands as the other
        for tensor, _ in bodies[1].operands[len(bodies[0].operands) :]:
            recorder.lift(bodies[0], tensor)
    operands = bodies[1].operands
    if any(a is not b for (a, _), (b, _) in zip(bodies[0].operands, operands, strict=True)):
        raise NotRecorded
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor, _ in operands):
        raise UnsupportedError("a branch by data has no gradients; compute both ways and choose with torch.where(…)")
    for of_way in zip(*merge.pairs, strict=True):
        recorder.note_shared(bodies[1], zip(of_way, stand_ins, strict=True))
    graphs = [body.builder.finish() for body in bodies]
    arguments = (recorder.value_of(condition.tensor), *graphs, [value for _, value in operands])
    recorder.call_bodies("cond", arguments, stand_ins)
    return [merge.finished(result, stand_ins) for result in results]


@dataclasses.dataclass(frozen=True)
class _Result:
    """The index of a tensor or an integer among the node's results, and what makes it the value that it stands for."""

    index: int
    finished: Callable[[Any], Any]


def _itself(value: Any) -> Any:
    return value


class _Merge:
    """Pairs the values that both ways make."""

    def __init__(
        self,
        recorder: Recorder,
        bodies: Sequence[Body],
        condition: Truth,
        known: frozenset[Any],
        with_numbers: bool,
    ) -> None:
        self.pairs: list[tuple[Any, Any]] = []  # of tensors or integers
        self._recorder = recorder
        self._bodies = bodies
        self._condition = condition
        self._known = known
        self._with_numbers = with_numbers

    def values(self, a: Any, b: Any) -> Any:
        if a is UNINITIALIZED:
            a = pytree.tree_map(lambda _: UNINITIALIZED, b)
        if b is UNINITIALIZED:
            b = pytree.tree_map(lambda _: UNINITIALIZED, a)
        leaves_a, structure = pytree.tree_flatten(a)
        leaves_b, other = pytree.tree_flatten(b)
        if structure != other:
            raise NotRecorded
        return pytree.tree_unflatten([self._leaf(*pair) for pair in zip(leaves_a, leaves_b, strict=True)], structure)

    def _leaf(self, a: Any, b: Any) -> Any:
        if a is b:  # from outside
            return a
        if isinstance(a, torch.Tensor) or isinstance(b, torch.Tensor):
            a, b = self._like(0, a, b), self._like(1, b, a)
            return self._tensor(self._filled(0, a, b), self._filled(1, b, a))
        if a is UNINITIALIZED or b is UNINITIALIZED:
            return b if a is UNINITIALIZED else a
        if type(a) is bool and type(b) is bool and a != b:
            return self._condition if a else Truth(torch.logical_not(self._condition.tensor))
        if Truth in (type(a), type(b)):
            return self._tensor(self._decided(0, a), self._decided(1, b), Truth)
        if type(a) is type(b) and isinstance(a, _PLAIN) and a == b:
            return a
        if type(a) in INTEGERS and type(b) in INTEGERS:
            is_same = type(a) is type(b) is torch.SymInt and a.node.expr == b.node.expr
            return a if is_same else self._integer(a, b)
        if self._with_numbers and type(a) in FLOATS and type(b) in FLOATS:
            return self._tensor(self._float(0, a), self._float(1, b), torch.Tensor.item)
        raise NotRecorded

    def _integer(self, a: Any, b: Any) -> _Result:
        if not self._with_numbers:
            raise NotRecorded
        self.pairs.append((a, b))
        return _Result(len(self.pairs) - 1, _itself)

    def _tensor(self, a: Any, b: Any, finished: Callable[[Any], Any] = _itself) -> _Result:
        if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
            raise NotRecorded
        if a.dtype != b.dtype or a.dim() != b.dim() or a.layout != b.layout:
            raise NotRecorded
        self.pairs.append((a, b))
        return _Result(len(self.pairs) - 1, finished)

    def _like(self, index: int, value: Any, other: Any) -> Any:
        """A tensor without axes for a Python number, for which it can stand, where the other way has such a tensor."""
        if isinstance(value, torch.Tensor) or not self._with_numbers or other is UNINITIALIZED or other.dim():
            return value
        is_alike = other.dtype == (torch.get_default_dtype() if type(value) in FLOATS else torch.int64)
        if not is_alike or type(value) not in (*FLOATS, *INTEGERS):
            return value
        with self._recorder.enter(self._bodies[index]):
            return torch.scalar_tensor(value, dtype=other.dtype)

    def _filled(self, index: int, value: Any, other: Any) -> Any:
        """A tensor like the other way's, for a value that this way leaves uninitialized."""
        if value is not UNINITIALIZED:
            return value
        with self._recorder.enter(self._bodies[index]):
            sizes = [size if is_known(size, self._known) else 1 for size in other.shape]
            return torch.zeros(sizes, dtype=other.dtype, device=other.device)

    def _decided(self, index: int, value: Any) -> Any:
        with self._recorder.enter(self._bodies[index]):
            if type(value) is Truth:
                return value.tensor.to(torch.bool).reshape(())
            return torch.full((), value, dtype=torch.bool) if type(value) is bool else value

    def _float(self, index: int, value: Any) -> torch.Tensor:
        with self._recorder.enter(self._bodies[index]):
            return torch.scalar_tensor(value, dtype=torch.float64)

    def finished(self, value: Any, made: Sequence[Any]) -> Any:
        def leaf(each: Any) -> Any:
            return each.finished(made[each.index]) if type(each) is _Result else each

        return pytree.tree_map(leaf, value)


def symbols_before(tensor: Any) -> frozenset[Any]:
    """The symbols that are known outside of the bodies."""
    return frozenset(tensor.fake_mode.shape_env.var_to_range)


def _standing_for(pair: tuple[Any, Any], known: frozenset[Any], condition: Truth) -> Any:
    """A tensor of the sizes of both; a size in which they differ depends on data, as an integer does."""
    fake: Any = condition.tensor
    env: Any = fake.fake_mode.shape_env
    if not isinstance(pair[0], torch.Tensor):
        number = env.create_unbacked_symint()
        if type(pair[0]) is type(pair[1]) is int:
            check(number >= min(pair))
            check(number <= max(pair))
        return number
    sizes = [_common(a, b, known, condition.asked, env) for a, b in zip(pair[0].shape, pair[1].shape, strict=True)]
    return torch.empty(sizes, dtype=pair[0].dtype, device=pair[0].device)


def is_known(size: Any, known: frozenset[Any]) -> bool:
    return type(size) is int or size.node.expr.free_symbols <= known


def _common(a: Any, b: Any, known: frozenset[Any], asked: Any, env: Any) -> Any:
    """The size that is ``a`` if what is ``asked`` holds, and otherwise ``b``."""
    one, other = map(expression_of, (a, b))
    for size, answer in ((a, False), (b, True)):
        if is_known(size, known) and (
            one == other or (asked is not None and are_equal_if(one, other, asked, answer, env))
        ):
            return size
    return size_of_data(env)


def size_of_data(env: Any) -> torch.SymInt:
    """A new symbol that is not negative."""
    size: torch.SymInt = env.create_unbacked_symint()
    check(size >= 0)
    return size


def size_in(tensor: torch.Tensor) -> Any:
    """The size that a tensor, [] of integers, holds."""
    size = tensor.item()
    check(size >= 0)
    return size
