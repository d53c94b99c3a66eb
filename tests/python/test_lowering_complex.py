"""Complex tensors: pairs at the inputs and outputs, two real tensors in between."""

import pathlib

import pytest
import torch
from lowering_check import check

import opbridge


@pytest.fixture
def pair():
    torch.manual_seed(0)
    return torch.randn(3, 4, dtype=torch.complex64), torch.randn(3, 4, dtype=torch.complex64)


def checked(functions, *args, **options):
    """As check, with complex results seen as PyTorch sees them in pairs."""
    real = {
        name: lambda *a, f=f: torch.utils._pytree.tree_map(
            lambda t: torch.view_as_real(t.resolve_conj()) if t.is_complex() else t, f(*a)
        )
        for name, f in functions.items()
    }
    check(real, *args, **options)


def test_arithmetic(pair):
    functions = {
        "add": lambda a, b: a + b,
        "add of a number": lambda a, b: a + 2 + 1j,
        "add scaled": lambda a, b: torch.add(a, b, alpha=3),
        "sub of real": lambda a, b: a.real - b,
        "mul": lambda a, b: a * b,
        "mul by real": lambda a, b: a.real * b,
        "mul by a number": lambda a, b: a * 2j,
        "div": lambda a, b: a / b,
        "div of a number": lambda a, b: 1j / b,
        "neg": lambda a, b: -a,
        "conj": lambda a, b: a.conj() * b,
        "abs": lambda a, b: a.abs(),
        "equal": lambda a, b: (a == b) | (a != a),
        "exp": lambda a, b: torch.exp(a),
        "cos": lambda a, b: torch.cos(a) + torch.sinh(b),
        "matmul": lambda a, b: a @ b.t(),
    }
    checked(functions, *pair)


def test_movement(pair):
    functions = {
        "permute": lambda a, b: a.t().reshape(2, 6),
        "cat": lambda a, b: torch.cat([a, b.real], 1),
        "index": lambda a, b: a[:, torch.tensor([1, 0])],
        "where": lambda a, b: torch.where(a.real > 0, a, b),
        "pad": lambda a, b: torch.nn.functional.pad(a, (1, 2)),
        "masked_fill": lambda a, b: a.masked_fill(b.real > 0, 1 + 2j),
        "sum": lambda a, b: (a.sum(0), b.mean(1)),
        "ones": lambda a, b: (torch.ones_like(a), torch.full_like(b, 3), torch.zeros_like(a)),
        "parts": lambda a, b: (torch.complex(a.real, b.imag), torch.polar(a.abs(), b.real)),
        "pairs": lambda a, b: torch.view_as_complex(torch.view_as_real(a) * 2),
    }
    checked(functions, *pair)


def test_constants_and_outputs_in_pairs(tmp_path: pathlib.Path):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("turn", torch.tensor([1j, 2 + 1j]))

        def forward(self, x):
            return x * self.turn, x

    args = (torch.randn(3, 2, dtype=torch.complex64),)
    opbridge.export(Model(), args, tmp_path / "m.onnx", verify=True)


def test_what_is_not_supported_is_refused(pair, tmp_path: pathlib.Path):
    with pytest.raises(opbridge.UnsupportedError, match="complex"):
        opbridge.export(lambda x: torch.cumprod(x, 0), (pair[0],), tmp_path / "m.onnx")
