"""The transforms of torch.func, and the rules by which torch.vmap calls operators on batches."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch._ops import OpOverload

from opbridge.torch_compat.kernels import replace_kernel
from opbridge.torch_compat.lookup import look_up
from opbridge.torch_compat.zero_tensors import in_memory

with look_up():
    from torch import _C
    from torch._decomp import decomposition_table
    from torch._functorch import pyfunctorch
    from torch._functorch.vmap import unwrap_batched
    from torch.utils import _pytree as pytree

    without_transforms: Callable[[], AbstractContextManager[Any]] = pyfunctorch.temporarily_clear_interpreter_stack
    _current_interpreter: Callable[[], Any] = pyfunctorch.retrieve_current_functorch_interpreter
    _add_batch_dim: Callable[[torch.Tensor, int, int], torch.Tensor] = _C._functorch._add_batch_dim
    _exclude: Callable[[Any], Any] = _C._ExcludeDispatchKeyGuard
    _KEY = "FuncTorchBatched"
    _COMPOSITE: Any = _C.DispatchKey.CompositeImplicitAutograd
    _KEYS: Any = _C.DispatchKeySet(_C.DispatchKey.FuncTorchBatched)

# Takes the size of the batch, the batch axis of each argument, or None, and the arguments of a call of an operator.
# Returns the results, each with the batch as axis 0, or NotImplemented.
BatchRule = Callable[..., Any]


def add_batch_rule(library: torch.library.Library, operator: OpOverload, rule: BatchRule) -> None:
    """Makes torch.vmap call ``operator`` by ``rule``, and by torch's rule if that returns NotImplemented."""
    of_torch = _rule_of_torch(operator)

    def call(*args: Any, **kwargs: Any) -> Any:
        interpreter = _current_interpreter()
        level = interpreter.level()
        values, axes = unwrap_batched(args, level)
        options, axes_of_options = unwrap_batched(kwargs, level)
        result: Any = NotImplemented
        if not _is_batched(axes_of_options):
            with _exclude(_KEYS):
                if not _is_batched(axes):
                    return operator(*args, **kwargs)
                result = rule(interpreter.batch_size(), axes, *pytree.tree_map(in_memory, values), **options)
        if result is NotImplemented:
            return of_torch.call_boxed(_KEYS, *args, **kwargs)
        return pytree.tree_map_only(torch.Tensor, lambda tensor: _add_batch_dim(tensor, 0, level), result)

    replace_kernel(library, operator, call, _KEY)


def decompose_batches(library: torch.library.Library, operator: OpOverload) -> None:
    """Makes torch.vmap call ``operator`` by the operators that it consists of, each of which has a rule of its own."""
    of_its_own = operator.has_kernel_for_dispatch_key(_COMPOSITE)
    replace_kernel(library, operator, operator.decompose if of_its_own else decomposition_table[operator], _KEY)


def write_batches(library: torch.library.Library, operator: OpOverload, pure: Callable[..., Any]) -> None:
    """Makes torch.vmap call ``operator``, which works in place, by its form that does not."""
    replace_kernel(
        library, operator, lambda written, *args, **kwargs: written.copy_(pure(written, *args, **kwargs)), _KEY
    )


@functools.cache  # as it was before another thread, which may end earlier, replaced it
def _rule_of_torch(operator: OpOverload) -> Any:
    return torch.library.get_kernel(operator, _KEY)


def _is_batched(axes: Any) -> bool:
    return any(isinstance(axis, int) for axis in pytree.tree_leaves(axes))
