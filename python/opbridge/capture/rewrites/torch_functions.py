"""Replacements for functions of torch that read data, fix sizes, or use operators for training.

A capture cannot read data: torch.export refuses ``torch.equal``, which returns a Python bool, and both captures refuse
functions that check the values of their arguments. Some functions turn dynamic sizes into the numbers of the example.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from opbridge.capture.failures import T, otherwise
from opbridge.capture.loops.lists import UnreadList, tensor_of_numbers
from opbridge.capture.patching import patch
from opbridge.capture.rewrites import made_by_size, matrix_norms, rows
from opbridge.capture.rewrites.batch_rules import keep_batches_symbolic
from opbridge.capture.rewrites.equality import equal
from opbridge.capture.rewrites.inverse_stft import istft
from opbridge.capture.rewrites.literals import LITERALS
from opbridge.capture.rewrites.scalar_masks import ScalarMasks
from opbridge.capture.rewrites.second_derivatives import differentiate_again
from opbridge.capture.symbolic_sizes.dynamic_axes import RangesDoNotHold
from opbridge.errors import UnsupportedError
from opbridge.operators import load_operators
from opbridge.torch_compat import (
    RESHAPE_FROM_TENSOR,
    SHAPE_AS_TENSOR,
    check,
    pytree,
    transforms_are_active,
)
from opbridge.torch_compat.lookup import PatchPoint
from opbridge.torch_compat.symbols import (
    AS_ARRAY,
    AS_TENSOR,
    BROADCAST_SHAPE,
    LINSPACE,
    NEW_TENSOR,
    PAD,
    SPLIT,
    SPLIT_METHOD,
)

Function = Callable[..., Any]


def retry_with_substitutes(capture: Callable[[], T]) -> T:
    """Calls ``capture()``. If it refuses the model, calls it again with these functions replaced, unless it has run the
    whole model without a call that this would change."""
    substitution = _Substitution()

    def first() -> T:
        with substitution:
            return capture()

    def substituted() -> T:
        substitution.is_active = True
        with substitution, keep_batches_symbolic(), differentiate_again():
            return capture()

    def changes_nothing(refusal: UnsupportedError) -> bool:
        return isinstance(refusal, RangesDoNotHold) and not substitution.is_useful

    return otherwise(first, substituted, unless=changes_nothing)


class _Substitution(TorchFunctionMode):
    """Replaces the functions if it is active. ``is_useful`` is whether that changes what the model asks of sizes."""

    def __init__(self) -> None:
        super().__init__()
        self._indexing = ScalarMasks().substitutes()
        self._substitutes = _SUBSTITUTES | LITERALS | self._indexing
        self.is_active = self.is_useful = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = kwargs or {}
        chosen = func if given.get("out") is not None else self._substitutes.get(func, func)
        if self.is_active:
            return chosen(*args, **given)
        if not self.is_useful:
            self.is_useful = transforms_are_active() or (chosen is not func and not self._is_plain(func, args))
        return func(*args, **given)

    def _is_plain(self, func: Any, args: Any) -> bool:
        """Whether it does not matter to sizes whether the function is replaced."""
        if func in self._indexing:
            index = pytree.tree_leaves(args[1])
            return not any(isinstance(each, (torch.SymInt, torch.Tensor, UnreadList)) for each in index)
        return func in LITERALS


def _allclose(
    input: torch.Tensor, other: torch.Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> Any:
    return torch.isclose(input, other, rtol=rtol, atol=atol, equal_nan=equal_nan).all()


def _one_hot(input: torch.Tensor, num_classes: Any = -1) -> torch.Tensor:
    if isinstance(num_classes, torch.SymInt):
        return made_by_size.one_hot(input, num_classes)
    if isinstance(num_classes, int) and num_classes < 0 and input.numel() > 0:
        classes = input.max().item() + 1
        check(classes >= 1)
        return made_by_size.one_hot(input, classes)
    return F.one_hot(input, num_classes)


def _cdist(
    x1: torch.Tensor, x2: torch.Tensor, p: float = 2.0, compute_mode: str = "use_mm_for_euclid_dist_if_necessary"
) -> torch.Tensor:
    """``torch.cdist``, which by default computes in another way for more than 25 rows, without that branch on sizes."""
    if compute_mode == "use_mm_for_euclid_dist_if_necessary":
        compute_mode = "donot_use_mm_for_euclid_dist"
    return torch.cdist(x1, x2, p, compute_mode)


def _narrow(input: torch.Tensor, dim: int, start: Any, length: Any) -> torch.Tensor:
    if not isinstance(start, torch.Tensor):
        return torch.narrow(input, dim, start, length)
    indices = start + torch.arange(length, device=input.device)
    return input.index_select(dim, torch.where(indices < 0, indices + input.shape[dim], indices))


def _has_symbols(arguments: Any) -> bool:
    return any(isinstance(leaf, (torch.SymInt, torch.SymFloat, UnreadList)) for leaf in pytree.tree_leaves(arguments))


def _as_tensor(data: Any, dtype: torch.dtype | None = None, device: Any = None) -> torch.Tensor:
    """``torch.as_tensor`` that also takes symbolic sizes, as torch.tensor does in a capture."""
    make = tensor_of_numbers if _has_symbols(data) else torch.as_tensor
    return make(data, dtype=dtype, device=device)


def _as_array(obj: Any, *, dtype: torch.dtype | None = None, device: Any = None, **_: Any) -> torch.Tensor:
    return tensor_of_numbers(obj, dtype=dtype, device=device)


def _shape_as_tensor(x: torch.Tensor) -> torch.Tensor:
    return _as_tensor(list(x.shape))


def _reshape_from_tensor(x: torch.Tensor, shape: torch.Tensor) -> torch.Tensor:
    return x.reshape(shape.tolist())


def _new_tensor(self: torch.Tensor, data: Any, *, dtype: torch.dtype | None = None, **options: Any) -> torch.Tensor:
    return _as_tensor(data, dtype=dtype or self.dtype, device=options.get("device", self.device))


def linspace(start: Any, end: Any, steps: Any, *, dtype: torch.dtype | None = None, **options: Any) -> torch.Tensor:
    """``torch.linspace`` for symbolic ends or steps; as in torch, each half is computed from its own end."""
    dtype = dtype or torch.get_default_dtype()
    indices = torch.arange(steps, device=options.get("device")).to(dtype if dtype.is_floating_point else torch.float64)
    step = (end - start) / torch.sym_max(steps - 1, 1)
    from_end = end - (steps - 1 - indices) * step
    return torch.where(indices < torch.sym_max(steps // 2, 1), start + indices * step, from_end).to(dtype)


def _pad(original: Function) -> Function:
    """``F.pad`` that calls the operator whose value may be symbolic."""

    @functools.wraps(original)
    def pad(input: torch.Tensor, pad: Sequence[int], mode: str = "constant", value: Any = None) -> torch.Tensor:
        if mode == "constant" and _has_symbols(value):
            return torch.constant_pad_nd(input, pad, value)
        result: torch.Tensor = original(input, pad, mode, value)
        return result

    return pad


def _tensor_split(original: Function) -> Function:
    """``torch.tensor_split`` into a number of parts along an axis whose size may be symbolic."""

    @functools.wraps(original)
    def split(input: torch.Tensor, *args: Any, **options: Any) -> Any:
        sections = args[0] if args else options.get("sections")
        dim = args[1] if len(args) > 1 else options.get("dim", 0)
        if not isinstance(sections, int) or sections <= 0 or not isinstance(input.shape[dim], torch.SymInt):
            return original(input, *args, **options)
        each, larger = input.shape[dim] // sections, input.shape[dim] % sections
        starts = [each * i + torch.sym_min(larger, i) for i in range(sections + 1)]
        return tuple(input.narrow(dim, start, end - start) for start, end in itertools.pairwise(starts))

    return split


# Functions that would replace symbolic sizes by the example's numbers, or, if the ends of the range are known only at
# run time, call an operator that the mappings cannot compute.
_FOR_SYMBOLS: tuple[tuple[PatchPoint, Function], ...] = (
    (LINSPACE, linspace),
    (AS_TENSOR, _as_tensor),
    (AS_ARRAY, _as_array),
    (NEW_TENSOR, _new_tensor),
    (BROADCAST_SHAPE, torch.broadcast_shapes),
)


@contextlib.contextmanager
def keep_sizes_in_tensors() -> Iterator[None]:
    """Keeps sizes symbolic when a model makes tensors of them, or the shape of a broadcast."""

    def chosen(original: Function, symbolic: Function) -> Function:
        def call(*args: Any, **kwargs: Any) -> Any:
            return (symbolic if _has_symbols((args, kwargs)) else original)(*args, **kwargs)

        return call

    with contextlib.ExitStack() as until_the_end:
        for point, symbolic in _FOR_SYMBOLS:
            until_the_end.enter_context(patch(point, chosen(point.original, symbolic)))
        for point, around in ((PAD, _pad), (SPLIT, _tensor_split), (SPLIT_METHOD, _tensor_split)):
            until_the_end.enter_context(patch(point, around(point.original)))
        yield


def _cov(
    input: torch.Tensor,
    *,
    correction: int = 1,
    fweights: torch.Tensor | None = None,
    aweights: torch.Tensor | None = None,
) -> torch.Tensor:
    """``torch.cov`` without the checks of the weights."""
    rows = input.view(1, -1) if input.dim() < 2 else input
    weights = fweights if aweights is None else aweights if fweights is None else fweights * aweights
    total = rows.shape[1] if weights is None else weights.sum()
    centered = rows - ((rows if weights is None else rows * weights).sum(1) / total).unsqueeze(1)
    counted: Any = total - correction
    if weights is not None and aweights is not None and correction != 0:
        counted = total - correction * (weights * aweights).sum() / total
    products = centered @ (centered if weights is None else centered * weights).t().conj()
    return (products / torch.clamp(_as_tensor(counted), min=0)).squeeze()


def _corrcoef(input: torch.Tensor) -> torch.Tensor:
    c = _cov(input)
    if c.dim() == 0:
        return c / c
    deviations = c.diag().sqrt()
    c = c / deviations.unsqueeze(1) / deviations.unsqueeze(0)
    return torch.complex(c.real.clip(-1, 1), c.imag.clip(-1, 1)) if c.is_complex() else c.clip(-1, 1)


class _CtcLosses(torch.autograd.Function):
    """opbridge's operator with its gradient, for the transforms of torch.func, which ignore gradients that are
    registered with torch."""

    @staticmethod
    def forward(*args: Any) -> torch.Tensor:
        losses: torch.Tensor = torch.ops.opbridge.ctc_loss(*args)
        return losses

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        *tensors, ctx.blank = inputs
        ctx.save_for_backward(*tensors)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[Any, ...]:
        made: Any = _CtcGradient
        return made.apply(*grads, *ctx.saved_tensors, ctx.blank), None, None, None, None


class _CtcGradient(torch.autograd.Function):
    @staticmethod
    def forward(*args: Any) -> torch.Tensor:
        gradient: torch.Tensor = torch.ops.opbridge.ctc_loss_backward(*args, [True])
        return gradient

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None: ...

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        raise UnsupportedError(
            "the model computes a second derivative of F.ctc_loss, which PyTorch does not support either"
        )


def _ctc_loss(
    log_probs: torch.Tensor,
    targets: torch.Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> torch.Tensor:
    """Calls opbridge's operator, whose result shape does not depend on data."""
    load_operators()
    single = log_probs.dim() == 2
    if single:
        log_probs, targets = log_probs.unsqueeze(1), targets.unsqueeze(0)
    lengths = [
        torch.as_tensor(length, dtype=torch.int64).reshape(log_probs.shape[1])
        for length in (input_lengths, target_lengths)
    ]
    run: Any = _CtcLosses.apply if transforms_are_active() else torch.ops.opbridge.ctc_loss
    losses: torch.Tensor = run(log_probs, targets.to(torch.int64), *lengths, blank)
    if zero_infinity:
        losses = torch.where(losses == math.inf, torch.zeros_like(losses), losses)
    if reduction == "mean":
        return (losses / lengths[1].clamp(min=1)).mean()
    if reduction == "sum":
        return losses.sum()
    return losses.squeeze(0) if single else losses


def _lstsq(A: torch.Tensor, B: torch.Tensor, rcond: float | None = None, *, driver: str | None = None) -> Any:
    """Uses the QR decomposition for ``driver="gels"``, which assumes full rank; otherwise the pseudoinverse."""
    rows, columns = A.shape[-2:]
    by_singular_values = driver in ("gelss", "gelsd")
    if by_singular_values and rows > columns:  # whether it returns residuals depends on the rank
        return torch.linalg.lstsq(A, B, rcond, driver=driver)
    vector = B.dim() == 1 or (B.dim() == A.dim() - 1 and A.shape[:-1] == B.shape)
    right = B.unsqueeze(-1) if vector else B
    residuals = singular_values = A.real.new_empty(0)
    if driver == "gels":
        rank = torch.empty(0, dtype=torch.int64)
        q, r = torch.linalg.qr(A if rows >= columns else A.mH)
        if rows >= columns:
            solution = torch.linalg.solve_triangular(r, q.mH @ right, upper=True)
        else:
            solution = q @ torch.linalg.solve_triangular(r.mH, right, upper=False)
        if rows > columns:
            residuals = (A @ solution - right).abs().square().sum(-2)
    else:
        rank = torch.linalg.matrix_rank(A, rtol=rcond)  # whose default is that of rcond
        solution = torch.linalg.pinv(A, rtol=rcond) @ right
        if by_singular_values:
            singular_values = torch.linalg.svdvals(A)
    return torch.return_types.linalg_lstsq(  # type: ignore[attr-defined]
        (solution.squeeze(-1) if vector else solution, residuals, rank, singular_values)
    )


def _combinations(input: torch.Tensor, r: int = 2, with_replacement: bool = False) -> torch.Tensor:
    """Uses index tensors. torch 2.13 selects by a mask, so the number of results is unknown in a capture."""
    size: Any = input.shape[0]
    if r == 0:
        return input.new_empty([0])
    if r == 1:
        return input.unsqueeze(1)
    if isinstance(size, torch.SymInt):
        tuples = _ascending_tuples(torch.arange(size, device=input.device), r, with_replacement)
    else:
        chosen = itertools.combinations_with_replacement if with_replacement else itertools.combinations
        tuples = torch.tensor(list(chosen(range(size), r)), dtype=torch.int64, device=input.device)
    return input.index_select(0, tuples.reshape(-1)).reshape(-1, r)


def _ascending_tuples(places: torch.Tensor, r: int, with_replacement: bool) -> torch.Tensor:
    """All ascending tuples of ``r`` indices, in lexicographic order."""
    axes = [places.reshape([-1 if axis == i else 1 for axis in range(r)]) for i in range(r)]
    ascend = [a <= b if with_replacement else a < b for a, b in itertools.pairwise(axes)]
    return functools.reduce(torch.logical_and, ascend).nonzero()


def _kron(input: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    rank = max(input.dim(), other.dim())
    a, b = (t.reshape((1,) * (rank - t.dim()) + tuple(t.shape)) for t in (input, other))
    apart = a.reshape([size for n in a.shape for size in (n, 1)]) * b.reshape(
        [size for n in b.shape for size in (1, n)]
    )
    return apart.reshape([n * m for n, m in zip(a.shape, b.shape, strict=True)])


def _take_along_dim(input: torch.Tensor, indices: torch.Tensor, dim: int | None = None) -> torch.Tensor:
    if dim is None:
        return input.reshape(-1).gather(0, indices.reshape(-1))
    dim %= input.dim()
    others = torch.broadcast_shapes(  # type: ignore[no-untyped-call]
        *((*t.shape[:dim], 1, *t.shape[dim + 1 :]) for t in (input, indices))
    )
    a, selected = (t.expand((*others[:dim], t.shape[dim], *others[dim + 1 :])) for t in (input, indices))
    return a.gather(dim, selected)


def _gradient(
    input: torch.Tensor, *, spacing: Any = None, dim: int | Sequence[int] | None = None, edge_order: int = 1
) -> tuple[torch.Tensor, ...]:
    """``torch.gradient`` for even spacing."""
    dims = range(input.dim()) if dim is None else [dim] if isinstance(dim, int) else dim
    step = 1 if spacing is None else spacing
    steps = [step] * len(dims) if isinstance(step, (int, float)) else list(step)
    if not all(isinstance(step, (int, float)) for step in steps):
        return torch.gradient(input, spacing=spacing, dim=dim, edge_order=edge_order)  # type: ignore[arg-type]
    x = input if input.is_floating_point() or input.is_complex() else input.to(torch.get_default_dtype())
    return tuple(_slope(x, axis, step, edge_order) for axis, step in zip(dims, steps, strict=True))


def _slope(x: torch.Tensor, dim: int, step: float, edge_order: int) -> torch.Tensor:
    def at(index: int) -> torch.Tensor:
        return x.select(dim, index).unsqueeze(dim)

    if edge_order == 1:
        first, last = (at(1) - at(0)) / step, (at(-1) - at(-2)) / step
    else:
        first = (-3 * at(0) + 4 * at(1) - at(2)) / (2 * step)
        last = (3 * at(-1) - 4 * at(-2) + at(-3)) / (2 * step)
    inside = x.shape[dim] - 2
    middle = (x.narrow(dim, 2, inside) - x.narrow(dim, 0, inside)) / (2 * step)
    return torch.cat([first, middle, last], dim)


def _fill_diagonal_(self: torch.Tensor, fill_value: Any, wrap: bool = False) -> torch.Tensor:
    """Writes to a view; torch's own operator would make the sizes numbers."""
    if self.dim() != 2 or wrap:
        return self.fill_diagonal_(fill_value, wrap)
    self.diagonal().fill_(fill_value)
    return self


def _instance_norm(
    input: torch.Tensor,
    running_mean: torch.Tensor | None = None,
    running_var: torch.Tensor | None = None,
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-05,
) -> torch.Tensor:
    """The same by F.group_norm under a transform of torch.func, where torch's own operator reads the sizes."""
    if running_mean is not None or not use_input_stats or not transforms_are_active():
        return F.instance_norm(input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)
    return F.group_norm(input, input.shape[1], weight, bias, eps)


_SUBSTITUTES: dict[Any, Function] = {
    torch.equal: equal,
    torch.Tensor.equal: equal,
    torch.allclose: _allclose,
    torch.Tensor.allclose: _allclose,
    F.one_hot: _one_hot,
    F.instance_norm: _instance_norm,
    F.ctc_loss: _ctc_loss,
    torch.cdist: _cdist,
    torch.unbind: rows.unbind,
    torch.Tensor.unbind: rows.unbind,
    SHAPE_AS_TENSOR: _shape_as_tensor,
    RESHAPE_FROM_TENSOR: _reshape_from_tensor,
    torch.narrow: _narrow,
    torch.Tensor.narrow: _narrow,
    torch.as_tensor: _as_tensor,
    torch.Tensor.new_tensor: _new_tensor,
    torch.cov: _cov,
    torch.Tensor.cov: _cov,
    torch.corrcoef: _corrcoef,
    torch.Tensor.corrcoef: _corrcoef,
    torch.linalg.lstsq: _lstsq,
    torch.combinations: _combinations,
    torch.kron: _kron,
    torch.Tensor.kron: _kron,
    torch.gradient: _gradient,
    torch.istft: istft,
    torch.Tensor.istft: istft,
    torch.Tensor.fill_diagonal_: _fill_diagonal_,
    **made_by_size.SUBSTITUTES,
    **matrix_norms.SUBSTITUTES,
    torch.take_along_dim: _take_along_dim,
    torch.Tensor.take_along_dim: _take_along_dim,
}
