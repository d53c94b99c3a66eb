"""Masks that a model computes twice, as in ``z[x > 0] * w[x > 0]``, find the same number of elements."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from opbridge.capture.rewrites.replaced_functions import Function, Replacements
from opbridge.torch_compat import FakeTensor, pytree, version_of
from opbridge.torch_compat.fake_tensors import share_found_count
from opbridge.torch_compat.symbols import expression_of


class _State(NamedTuple):
    """A tensor with the values that it has until something is written to it."""

    tensor: torch.Tensor
    writes: int

    def is_current(self) -> bool:
        return version_of(self.tensor) == self.writes


class EqualMasks:
    """Gives masks that the same functions make of the same tensors one symbol for the number of elements that they
    find. torch makes a symbol for each mask, and two symbols may be a broadcast."""

    def __init__(self) -> None:
        self.functions = _USING | _MAKING
        self._results: dict[Any, tuple[_State, Any]] = {}  # with the arguments, whose identities are in the keys
        self._repeated: dict[int, tuple[_State, _State]] = {}  # tensors that have been computed before

    def before(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        for mask in self._repeated_in(args, kwargs):
            share_found_count(self._first(mask), mask)

    def after(self, function: Function, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        for mask in self._repeated_in(args, kwargs):
            share_found_count(mask, self._first(mask))
        if function in _MAKING and isinstance(result, FakeTensor):
            self._note(function, args, kwargs, result)

    def _repeated_in(self, args: Any, kwargs: Any) -> list[torch.Tensor]:
        leaves = pytree.tree_leaves((args, kwargs)) if self._repeated else ()
        return [each for each in leaves if id(each) in self._repeated]

    def _first(self, tensor: torch.Tensor) -> torch.Tensor:
        """The first tensor that was computed like this one."""
        states = self._repeated.get(id(tensor))
        if states is None or not all(state.is_current() for state in states):
            return tensor
        return states[1].tensor

    def _note(self, function: Function, args: Any, kwargs: dict[str, Any], result: torch.Tensor) -> None:
        if not all(map(_counts_writes, pytree.tree_leaves((args, kwargs, result)))):
            return
        try:
            key = self._key((function, *args, *sorted(kwargs.items())))
        except TypeError:  # an argument that cannot be hashed
            return
        state = _State(result, version_of(result))
        first, _ = self._results.setdefault(key, (state, (args, kwargs)))
        if not first.is_current():
            self._results[key] = state, (args, kwargs)
        elif first.tensor is not result:
            self._repeated[id(result)] = state, first
            share_found_count(first.tensor, result)

    def _key(self, argument: Any) -> Any:
        if isinstance(argument, torch.Tensor):
            first = self._first(argument)
            return id(first), version_of(first)
        if isinstance(argument, (tuple, list)):
            return tuple(map(self._key, argument))
        if isinstance(argument, slice):
            return slice, self._key((argument.start, argument.stop, argument.step))
        if isinstance(argument, (torch.SymInt, torch.SymFloat)):
            return str(argument.node.expr)
        hash(argument)
        return type(argument), argument


def _counts_writes(value: Any) -> bool:
    """Whether ``value`` is no tensor of inference mode, and no stand-in for a sparse or a quantized tensor."""
    if not isinstance(value, torch.Tensor):
        return True
    return (isinstance(value, FakeTensor) or type(value) in _KINDS) and not value.is_inference()


def _functions(*names: str) -> frozenset[Any]:
    owners = (torch, torch.Tensor)
    return frozenset(getattr(owner, name) for owner in owners for name in names if hasattr(owner, name))


_KINDS = (torch.Tensor, torch.nn.Parameter)
_USING = _functions(
    *("__getitem__", "__setitem__", "masked_select", "nonzero", "where", "argwhere", "index_put", "index_put_")
)
# Functions of which masks are made. None of them writes, or draws a random number.
_MAKING = _functions(
    *("__getitem__", "__eq__", "__and__", "__or__", "__xor__", "__invert__", "eq", "ne", "lt", "le", "gt", "ge"),
    *("logical_and", "logical_or", "logical_xor", "logical_not", "isnan", "isinf", "isfinite", "isin"),
    *("abs", "neg", "all", "any", "argmax", "sum", "bool", "long", "float", "to"),
    *("select", "squeeze", "unsqueeze", "flatten", "view", "reshape", "detach"),
)


def _masked_select(function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """By an index, which finds as many elements as any other use of the mask: torch's rule for masked_select makes a
    symbol for each call, and no derivatives of dynamic sizes."""
    return NotImplemented if kwargs.get("out") is not None else _by_index(*args, **kwargs)


def _by_index(input: torch.Tensor, mask: torch.Tensor, *, out: None = None) -> Any:
    has_mask_of_its_shape = [*map(expression_of, input.shape)] == [*map(expression_of, mask.shape)]
    return input[mask] if mask.dtype == torch.bool and has_mask_of_its_shape else NotImplemented


SELECTIONS: Replacements = {torch.masked_select: _masked_select, torch.Tensor.masked_select: _masked_select}
