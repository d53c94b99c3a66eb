"""Records operators below autograd and torch.func where these act.

Autograd saves tensors that operators make inside of others: the mean of a layer norm, the factors of a cosine
similarity. The derivative is a graph of the recorded operators only if all of these are recorded. So each operator
whose result is differentiated, and each operator that computes a derivative, is recorded after autograd, ``grad``,
``jvp`` and ``vmap`` have replaced it by the operators on plain tensors that compute its value and its derivative.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch

from opbridge.capture.operators import operator_of
from opbridge.capture.patching import patch
from opbridge.capture.source import line_of_frame
from opbridge.errors import Error, UnsupportedError
from opbridge.operators import lacks_gradient
from opbridge.torch_compat import (
    DETACH,
    DETERMINANTS,
    ZEROS_OF_LAYOUT,
    OpOverload,
    TorchDispatchMode,
    backward_is_running,
    dual_numbers_exist,
    is_traceable_wrapper_subclass,
    is_traceable_wrapper_subclass_type,
    pytree,
    transforms_are_active,
)
from opbridge.torch_compat.patch_points import TEXT_OF_TENSOR

_META = torch.device("meta")
_ATEN: Any = torch.ops.aten
_OF_NUMBERS = {
    form.Tensor: form.Scalar
    for form in (_ATEN.add, _ATEN.sub, _ATEN.mul, _ATEN.div, _ATEN.add_, _ATEN.sub_, _ATEN.mul_, _ATEN.div_)
}
Call = Callable[[OpOverload, Any, dict[str, Any]], Any]


def record_below(record: Call, call: Callable[[], Any]) -> Any:
    """Returns ``call()``; ``record`` is called with the operators that reach the kernels."""
    mode = _Below(record)
    with mode:
        result = call()
    if mode.refusal is not None:
        raise mode.refusal
    return result


@contextlib.contextmanager
def show_dual_numbers() -> Iterator[None]:
    """Shows tensors in forward mode by their sizes. torch shows the arguments of a call that fits another overload than
    the first one that it tries. In a kernel, it fails to show dual numbers, and leaves the calling thread without
    derivatives for as long as the traceback exists."""
    show = TEXT_OF_TENSOR.original

    def text(tensor: torch.Tensor, **options: Any) -> str:
        if dual_numbers_exist():
            return f"tensor(..., size={tuple(tensor.shape)}, dtype={tensor.dtype})"
        shown: str = show(tensor, **options)
        return shown

    with patch(TEXT_OF_TENSOR, text):
        yield


def with_numbers(function: OpOverload, args: Any, derive: Callable[[Callable[[], Any]], Any]) -> tuple[OpOverload, Any]:
    """The overload that takes a Python number as second argument, if it has first-order derivatives, and the arguments.
    If the number were a tensor, torch would make a zero derivative with constant sizes, and after a transform of
    torch.func would fail to show it to a mode. A symbol, of which that overload would need the number, is a tensor."""
    if len(args) < 2 or function not in _OF_NUMBERS:
        return function, args
    if type(args[1]) in (bool, int, float, complex) and (dual_numbers_exist() or transforms_are_active()):
        return _OF_NUMBERS[function], args
    if type(args[1]) in (torch.SymInt, torch.SymFloat) and transforms_are_active():
        first, number, *others = args
        dtype = torch.result_type(first, number)
        return function, (first, derive(lambda: _ATEN.scalar_tensor.default(number, dtype=dtype)), *others)
    return function, args


class _Below(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self, record: Call) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._record = record
        self.refusal: Error | None = None

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(map(is_traceable_wrapper_subclass_type, types)):
            return NotImplemented  # the class itself computes with the tensors that it holds
        if operator_of(func).is_property:
            return func(*args, **(kwargs or {}))
        if _computes_sizes(args, kwargs or {}):
            return func(*args, **(kwargs or {}))
        if func is ZEROS_OF_LAYOUT:
            return self._zeros(*args, **(kwargs or {}))
        if func in DETERMINANTS:
            return self._determinant(func, args[0])
        if func is not DETACH:
            return self._record(func, args, kwargs or {})
        try:
            return self._record(func, args, kwargs or {})
        except Error as error:  # autograd detaches what it saves in code that must not throw
            self.refusal = error
            return func(*args)

    def _zeros(self, like: torch.Tensor, primal: torch.Tensor, *, self_num_batch_dims: int = 0) -> torch.Tensor:
        """Records the zeros to which a derivative is copied that has another layout than its tensor. torch's kernel
        makes them in that layout by their strides, for which it makes sizes numbers."""
        zeros: torch.Tensor
        if self_num_batch_dims == 0:
            options = {"dtype": like.dtype, "memory_format": torch.preserve_format}
            zeros = self._record(_ATEN.zeros_like.default, (primal,), options)
        else:
            shape = [*like.shape[:self_num_batch_dims], *primal.shape]
            zeros = self._record(_ATEN.new_zeros.default, (like, shape), {})
        return zeros

    def _determinant(self, func: OpOverload, matrices: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Records the factors that the derivative uses. Depending on the layout, which a mapping does not know, torch
        factorizes the transposed matrices; then these factors are recorded."""
        *values, _, _ = self._record(func, (matrices,), {})
        factored = matrices
        if matrices.is_contiguous() and not matrices.is_complex():
            factored = self._record(_ATEN.transpose.int, (matrices, -2, -1), {})
        lu, pivots, _ = self._record(_ATEN.linalg_lu_factor_ex.default, (factored,), {})
        return *values, lu, pivots


def _computes_sizes(args: Any, kwargs: dict[str, Any]) -> bool:
    """Whether the operator only determines the sizes of a zero derivative, which torch does on the meta device."""
    return kwargs.get("device") == _META or any(map(_is_on_meta, args))


def _is_on_meta(argument: Any) -> bool:
    return isinstance(argument, torch.Tensor) and argument.device == _META


def refuse_missing_gradient(function: OpOverload, result: Any) -> None:
    """Refuses a derivative that goes through an operator of opbridge without a gradient. Such an operator may replace
    one of PyTorch's that has a gradient; a derivative without this part would be wrong."""
    name = operator_of(function).key

    def refuse(_: torch.Tensor) -> None:
        raise UnsupportedError(f"the model computes a derivative through {name}, which has no gradient", line)

    if lacks_gradient(name):
        line = line_of_frame(sys._getframe(1))
        for leaf in pytree.tree_leaves(result):
            if isinstance(leaf, torch.Tensor) and leaf.requires_grad:
                leaf.register_hook(refuse)  # type: ignore[no-untyped-call]


def have_wrappers(args: Any, kwargs: dict[str, Any]) -> bool:
    """Whether an argument is a tensor subclass around other tensors, as the weights of quantized models are."""
    return any(map(is_traceable_wrapper_subclass, (*args, *kwargs.values())))


def have_derivatives(args: Any, kwargs: dict[str, Any]) -> bool:
    """Whether a call with these arguments is transformed, or belongs to a derivative."""
    return backward_is_running() or are_differentiated((*args, *kwargs.values()))


def are_differentiated(args: Any) -> bool:
    """Whether a derivative of the result may be asked for."""
    if transforms_are_active() or dual_numbers_exist():
        return True
    return torch.is_grad_enabled() and any(map(_requires_grad, args))


def _requires_grad(argument: Any) -> bool:
    if isinstance(argument, torch.Tensor):
        return argument.requires_grad
    return isinstance(argument, (list, tuple)) and any(map(_requires_grad, argument))
