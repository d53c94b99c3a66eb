"""Products and factors of matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from hunt.tensors import spec_of
from hunt.unchecked.drawing import Arguments, Draw


def _grouped_mm(d: Draw) -> Arguments:
    """Rows of matrices are multiples of 16 bytes."""
    d.dtype = d.choice(torch.float32, torch.bfloat16, torch.float16)
    groups, inner, columns = d.size(), 8 * d.size(1, 2), 8 * d.size(1, 2)
    sizes = d.sizes(groups, 0)
    by_rows = d.choice(True, True, False)
    ends = torch.tensor(sizes).cumsum(0).to(torch.int32)
    return {
        "self": d.tensor(sum(sizes), inner) if by_rows else d.tensor(groups, d.size(), inner),
        "mat2": d.tensor(groups, inner, columns),
        "offs": spec_of(ends) if by_rows else None,
    }


def _scaled_mm(d: Draw) -> Arguments:
    rows, inner, columns = d.size(), 16 * d.size(1, 2), 16 * d.size(1, 2)
    by_row = d.choice(True, False)
    d.dtype = torch.float32
    return {
        "self": spec_of(d.tensor(rows, inner).make().to(d.choice(torch.float8_e4m3fn, torch.float8_e5m2))),
        "mat2": spec_of(d.tensor(columns, inner).make().to(torch.float8_e4m3fn).t()),
        "scale_a": d.positive(*([rows, 1] if by_row else [])),
        "scale_b": d.positive(*([1, columns] if by_row else [])),
        "bias": d.choice(None, d.tensor(columns)),
        "out_dtype": torch.float32,
    }


def _weight_int8pack_mm(d: Draw) -> Arguments:
    """PyTorch reads out of bounds of other sizes. All sums are exact, because nothing is computed in float64."""
    d.dtype = d.choice(torch.float32, torch.bfloat16, torch.float16)
    inner, columns = 16 * d.size(1, 2), 8 * d.size(1, 2)
    return {
        "self": d.tensor(d.size(), inner, kinds=("plain",)),
        "mat2": d.tensor(columns, inner, dtype=torch.int8),
        "scales": spec_of(torch.tensor([d.choice(0.25, 0.5, 2.0) for _ in range(columns)], dtype=d.dtype)),
    }


def _factored(factor: Callable[..., Any], names: tuple[str, str]) -> Callable[[Draw], Arguments]:
    def rule(d: Draw) -> Arguments:
        d.dtype = d.choice(torch.float32, torch.float64)
        n = d.size()
        matrix = d.tensor(n, n, kinds=("normal",)).make() + 4 * torch.eye(n, dtype=d.dtype)
        factors = factor(matrix + matrix.mT)
        return {
            names[0]: spec_of(factors[0]),
            names[1]: spec_of(factors[1]),
            "B": d.tensor(n, d.size(), kinds=("normal",)),
        }

    return rule


def _cholesky_solve_helper(d: Draw) -> Arguments:
    d.dtype = d.choice(torch.float32, torch.float64)
    n, batch = d.size(), d.sizes(d.size(0, 1))
    matrix = d.tensor(*batch, n, n, kinds=("normal",)).make() + 4 * torch.eye(n, dtype=d.dtype)
    sides = d.tensor(*batch, n, d.size(), kinds=("normal",))
    return {"self": sides, "A": spec_of(matrix), "upper": d.choice(True, False)}


def _trace_backward(d: Draw) -> Arguments:
    return {"grad": d.tensor(), "sizes": d.sizes(2)}


RULES: dict[str, Callable[[Draw], Arguments]] = {
    "aten::_cholesky_solve_helper": _cholesky_solve_helper,
    "aten::_grouped_mm": _grouped_mm,
    "aten::_scaled_mm": _scaled_mm,
    "aten::_weight_int8pack_mm": _weight_int8pack_mm,
    "aten::linalg_ldl_solve": _factored(torch.linalg.ldl_factor, ("LD", "pivots")),
    "aten::linalg_lu_solve": _factored(torch.linalg.lu_factor, ("LU", "pivots")),
    "aten::trace_backward": _trace_backward,
}
