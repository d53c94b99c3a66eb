"""Diagonals, and matrices made from them."""

import pytest
import torch
from lowering_check import check
from torch.export import Dim


@pytest.mark.parametrize("opset", [13, 21])
@pytest.mark.parametrize("dtype", [torch.float16, torch.int32, torch.bool])
def test_matrices_from_diagonals(dtype, opset):
    functions = {
        f"{offset}_{dim1}_{dim2}": lambda x, o=offset, a=dim1, b=dim2: torch.diag_embed(x, o, a, b)
        for offset in (0, 1, -2)
        for dim1, dim2 in ((-2, -1), (2, 0), (0, 1))
    }
    functions["diagflat"] = lambda x: torch.diagflat(x, -1)
    functions["diag"] = torch.diag
    functions["diag of a row"] = lambda x: torch.diag(x[0], 1)
    check(functions, torch.randint(0, 5, (2, 3)).to(dtype), opset=opset)


def test_blocks():
    check(lambda *t: torch.block_diag(*t), torch.randn(2, 3), torch.randn(4), torch.tensor(5), torch.zeros(0, 2))


def test_sizes_that_change():
    rows, columns = Dim("rows", min=2), Dim("columns", min=3)
    functions = {
        "diag": lambda x: torch.diag(x, 1),
        "diag_embed": lambda x: torch.diag_embed(x, -1),
    }
    check(functions, torch.randn(3, 4), dynamic=[{0: rows, 1: columns}], also=[(torch.randn(5, 6),)])


@pytest.mark.parametrize("dtype", [torch.float32, torch.int32, torch.uint8, torch.float16])
def test_trace(dtype):
    x = torch.randint(0, 4, (3, 5)).to(dtype)
    check({"wide": torch.trace, "high": lambda x: torch.trace(x.t()), "none": lambda x: torch.trace(x[:0])}, x)
