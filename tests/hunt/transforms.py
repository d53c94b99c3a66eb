"""Transforms of a whole program: derivatives, vectorization, checkpoints, mixed precision.

Each takes the program as a function of its tensors, and the tensors. The program is given copies, so that it may write
to them.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils.checkpoint import checkpoint as checkpoint_of

from hunt.tensors import TensorSpec

SHARE = 0.15
MOST_OF_HESSIAN = 12  # elements

Function = Callable[..., Any]


def gradient(program: Function, *tensors: torch.Tensor) -> Any:
    """The gradients of the sum of all results, by autograd, and the results."""
    with torch.enable_grad():
        given = [_leaf(tensor) for tensor in tensors]
        results = _cloned(program, given)
        wanted = [tensor for tensor in given if tensor.requires_grad]
        return torch.autograd.grad(_total(results), wanted, allow_unused=True), _detached(results)


def second_gradient(program: Function, *tensors: torch.Tensor) -> Any:
    """The gradient of the sum of squares of the first gradient."""
    with torch.enable_grad():
        given = [_leaf(tensor) for tensor in tensors]
        wanted = [tensor for tensor in given if tensor.requires_grad]
        total = _total(_cloned(program, given))
        firsts = torch.autograd.grad(total, wanted, create_graph=True, allow_unused=True)
        squares = [first.square() for first in firsts if first is not None and first.requires_grad]
        return torch.autograd.grad(_total(squares), wanted, allow_unused=True)


def function_gradient(program: Function, *tensors: torch.Tensor) -> Any:
    """The same as :func:`gradient` by torch.func."""
    return torch.func.grad(lambda *given: _total(_cloned(program, given)), _floating(tensors))(*tensors)


def hessian(program: Function, *tensors: torch.Tensor) -> Any:
    return torch.func.hessian(lambda *given: _total(_cloned(program, given)), _floating(tensors)[0])(*tensors)


def forward_derivative(program: Function, *tensors: torch.Tensor) -> Any:
    """The results and their derivatives in the direction of ones, by torch.func.jvp."""
    places = _floating(tensors)

    def of_floating(*given: torch.Tensor) -> Any:
        every = list(tensors)
        for place, tensor in zip(places, given, strict=True):
            every[place] = tensor
        return tuple(v for v in pytree.tree_leaves(_cloned(program, every)) if _is_floating(v))

    primals = tuple(tensors[place] for place in places)
    return torch.func.jvp(of_floating, primals, tuple(map(torch.ones_like, primals)))


def vectorized(program: Function, *tensors: torch.Tensor) -> Any:
    """Two sets of tensors at once."""
    return torch.vmap(lambda *given: _cloned(program, given))(*_with_reversed(tensors))


def vectorized_rows(program: Function, *tensors: torch.Tensor) -> Any:
    """Each row of the first tensor with all of the others."""
    dims = (0, *(None for _ in tensors[1:]))
    return torch.vmap(lambda *given: _cloned(program, given), dims)(*tensors)


def vectorized_gradients(program: Function, *tensors: torch.Tensor) -> Any:
    """The gradients of both sets of tensors."""
    of_one = torch.func.grad(lambda *given: _total(_cloned(program, given)), _floating(tensors))
    return torch.vmap(of_one)(*_with_reversed(tensors))


def checkpointed(program: Function, *tensors: torch.Tensor) -> Any:
    return gradient(lambda *given: checkpoint_of(program, *given, use_reentrant=False), *tensors)


def narrow(program: Function, *tensors: torch.Tensor) -> Any:
    with torch.autocast("cpu", torch.bfloat16):
        return program(*tensors)


TRANSFORMS: tuple[Function, ...] = (
    gradient,
    gradient,
    second_gradient,
    function_gradient,
    hessian,
    forward_derivative,
    forward_derivative,
    vectorized,
    vectorized_rows,
    vectorized_gradients,
    checkpointed,
    narrow,
)


# PyTorch does not say which of equal elements they return, to which a derivative goes.
_OF_TIES = re.compile(r"\b(sort|argsort|topk|kthvalue|median|nanmedian|mode|nanquantile|quantile|msort)\b")


def draw_transform(seed: int, inputs: Sequence[TensorSpec], text: str) -> str:
    """The name of a transform for a program with this text; empty for none."""
    rng = random.Random(f"transform:{seed}")
    if rng.random() >= SHARE or not any(spec.dtype.is_floating_point for spec in inputs) or _OF_TIES.search(text):
        return ""
    chosen = rng.choice(TRANSFORMS)
    if chosen is hessian and max(math.prod(spec.size) for spec in inputs) > MOST_OF_HESSIAN:
        chosen = function_gradient
    if chosen in (vectorized, vectorized_rows, vectorized_gradients) and not all(spec.size for spec in inputs):
        chosen = gradient
    return chosen.__name__


def _leaf(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().clone().requires_grad_(tensor.is_floating_point())


def _floating(tensors: Sequence[torch.Tensor]) -> tuple[int, ...]:
    return tuple(i for i, tensor in enumerate(tensors) if tensor.is_floating_point())


def _is_floating(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def _with_reversed(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """A second set of tensors beside the first, along a new axis."""
    return [torch.stack([each, each.flip(0)]) for each in tensors]


def _cloned(program: Function, tensors: Sequence[torch.Tensor]) -> Any:
    return program(*[tensor.clone() for tensor in tensors])


def _total(results: Any) -> torch.Tensor:
    """The sum of all floating-point numbers."""
    sums = [value.sum() for value in pytree.tree_leaves(results) if _is_floating(value)]
    return torch.stack([each.to(torch.get_default_dtype()) for each in sums]).sum()


def _detached(results: Any) -> Any:
    return pytree.tree_map_only(torch.Tensor, torch.Tensor.detach, results)
