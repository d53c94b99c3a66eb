"""torch's own branches and loops (torch.cond, while_loop, scan, …), unrolled as one run executes them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch

from opbridge.capture.patching import patch
from opbridge.torch_compat import EAGER_KERNEL, TRANSFORMS, kernels_of, name_of, pytree, transforms_are_active
from opbridge.torch_compat.patch_points import BRANCH_COMPILATION, CALL_OF_HIGHER_ORDER_OPERATOR

Function = Callable[..., Any]
_CUSTOM_FUNCTION = "custom_function_call"


@contextlib.contextmanager
def patch_control_flow(others: Mapping[str, Function] = MappingProxyType({})) -> Iterator[None]:
    """Replaces torch.cond by the branch that this run takes, and loops and scans by the steps that it executes, unless
    the function that ``others`` have for the operator's name returns something else than NotImplemented. Passes calls
    of an autograd.Function on to the transforms of torch.func."""
    dispatch = CALL_OF_HIGHER_ORDER_OPERATOR.original

    def in_eager(operator: Any, /, *args: Any, **kwargs: Any) -> Any:
        if name_of(operator) == _CUSTOM_FUNCTION and transforms_are_active():
            # torch would first look for a kernel for the mode of the capture, which the operator does not have.
            return operator.dispatch(TRANSFORMS, *args, **kwargs)
        if (other := others.get(name_of(operator))) and (result := other(*args, **kwargs)) is not NotImplemented:
            return result
        eager = kernels_of(operator).get(EAGER_KERNEL)
        follow = _FOLLOWED.get(name_of(operator), eager)
        return follow(*args, **kwargs) if follow else dispatch(operator, *args, **kwargs)

    with patch(CALL_OF_HIGHER_ORDER_OPERATOR, in_eager), patch(BRANCH_COMPILATION, _call_with_flat_operands):
        yield


def _call_with_flat_operands(operator: Function, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> Any:
    """Calls an operator, which torch would compile. Compilation flattens its operands, the last argument."""
    *others, operands = args
    if isinstance(operands, (list, tuple)) and not all(isinstance(each, torch.Tensor) for each in operands):
        operands, structure = pytree.tree_flatten(operands)

        def flat(body: Any) -> Any:
            return (lambda *given: body(*pytree.tree_unflatten(given, structure))) if callable(body) else body

        others = pytree.tree_map(flat, others)
    return operator(*others, operands, **(kwargs or {}))


def _cond(pred: Any, true_fn: Function, false_fn: Function, operands: Sequence[Any]) -> Any:
    return (true_fn if pred else false_fn)(*operands)


def _switch(index: Any, branches: Sequence[Function], operands: Sequence[Any]) -> Any:
    if not isinstance(index, torch.SymInt):
        return branches[int(index)](*operands)
    for i, branch in enumerate(branches[:-1]):  # each question is a branch by a size, which goes both ways
        if index == i:
            return branch(*operands)
    return branches[-1](*operands)


def _while_loop(cond_fn: Function, body_fn: Function, carried: Sequence[Any], additional: Sequence[Any]) -> Any:
    carried = tuple(carried)
    if not cond_fn(*carried, *additional):  # eager mode copies what it then returns
        return tuple(each.clone() if isinstance(each, torch.Tensor) else each for each in carried)
    while True:
        carried = tuple(body_fn(*carried, *additional))
        if not cond_fn(*carried, *additional):
            return carried


def _scan(combine_fn: Function, init: Sequence[Any], xs: Sequence[torch.Tensor], additional: Sequence[Any]) -> Any:
    """The step may return its carry and results nested or flat; the scan returns them in the same form."""
    carry, results = list(init), []
    if xs[0].shape[0] == 0:  # the step is called for its shapes, as in eager mode
        zeros = (x.new_zeros(x.shape[1:]) for x in xs)
        step, structure = pytree.tree_flatten(combine_fn(*carry, *zeros, *additional))
        empty = (each.new_empty((0, *each.shape)) for each in step[len(carry) :])
        return pytree.tree_unflatten([*carry, *empty], structure)
    for i in range(xs[0].shape[0]):
        step, structure = pytree.tree_flatten(combine_fn(*carry, *(x[i] for x in xs), *additional))
        carry = step[: len(carry)]
        results.append(step[len(carry) :])
    return pytree.tree_unflatten([*carry, *(torch.stack(each) for each in zip(*results, strict=True))], structure)


# Operators whose kernels refuse to run while a mode, such as that of fake tensors, is active.
_FOLLOWED: dict[str, Function] = {"cond": _cond, "switch": _switch, "while_loop": _while_loop, "scan": _scan}
