"""Views of the same bytes as another element type: torch.Tensor.view(dtype)."""

from __future__ import annotations

import itertools
import pathlib

import numpy as np
import pytest
import torch
from lowering_check import check, operators
from operator_models import in_both_hosts

import opbridge

WIDTHS = {
    1: [torch.bool, torch.uint8, torch.int8],
    2: [torch.uint16, torch.int16, torch.float16, torch.bfloat16],
    4: [torch.uint32, torch.int32, torch.float32],
    8: [torch.uint64, torch.int64, torch.float64],
}
TYPES = [dtype for dtypes in WIDTHS.values() for dtype in dtypes]
BITS = torch.tensor([0, 1, 2, 127, 128, 200, 255, 63, 64, 192, 240, 7, 8, 129, 254, 33] * 3, dtype=torch.uint8)
# Infinity, NaN with a payload, -0.0 and the least subnormal number of each floating-point type.
ODD = {
    torch.int16: [0x7C00, 0x7F81, 0x7E01, -0x8000, 1, 0x3C00, 0x3F80, -1],
    torch.int32: [0x7F800000, 0x7F800001, 0x7FC00001, -0x80000000, 1, 0x3F800000, -1, 0],
    torch.int64: [0x7FF << 52, (0x7FF << 52) + 1, -1 << 63, 1, 0x3FF << 52, -1, 0, 5],
}


@pytest.fixture(scope="module", autouse=True)
def _loaded() -> None:
    opbridge.load_operators()


def numbers(dtype: torch.dtype) -> torch.Tensor:
    return (BITS % 2 if dtype == torch.bool else BITS).view(dtype).reshape(2, 3, -1)


@pytest.mark.parametrize("opset", [17, 21, 26])
@pytest.mark.parametrize("dtype", TYPES)
def test_all_types(dtype: torch.dtype, opset: int) -> None:
    targets = {str(to): lambda x, to=to: x.view(to) for to in TYPES if to != torch.bool or dtype == torch.bool}
    check(targets, numbers(dtype), opset=opset, rtol=0, atol=0)


@pytest.mark.parametrize("opset", [21, 26])
@pytest.mark.parametrize("dtype", ODD)
def test_every_bit_is_kept(dtype: torch.dtype, opset: int) -> None:
    floating = [to for to in WIDTHS[dtype.itemsize] if to.is_floating_point]
    bits = torch.tensor(ODD[dtype], dtype=dtype)
    for to in floating:
        check(lambda x, to=to: x.view(to), bits, opset=opset)
        check(lambda x, to=to: (x.view(dtype), x.view(torch.uint8), -x.flip(0).view(dtype)), bits.view(to), opset=opset)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bfloat16])
def test_shapes(dtype: torch.dtype) -> None:
    same = next(to for to in WIDTHS[dtype.itemsize] if to != dtype)
    for shape in [(), (1,), (0, 3), (3, 0), (2, 1, 4)]:
        check(lambda x: x.view(same), torch.randn(shape).to(dtype))
    check({"narrow": lambda x: x.view(torch.int8), "wide": lambda x: x.view(torch.float64)}, torch.ones(0, 8).to(dtype))
    check({"rows": lambda x: x[::2].view(torch.int8), "parts": lambda x: x[:, 4:].view(torch.int64)}, numbers(dtype)[0])


def test_dynamic_sizes() -> None:
    functions = {
        "same": lambda x: x.view(torch.int32),
        "narrow": lambda x: x.view(torch.uint8),
        "wide": lambda x: x.view(torch.float64),
    }
    batch = {0: torch.export.Dim("n", min=1), 1: 2 * torch.export.Dim("m", min=1)}
    also = [(torch.randn(3, 4),), (torch.randn(1, 8),), (torch.randn(5, 2),)]
    check(functions, torch.randn(2, 6), dynamic=[batch], also=also, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_complex_numbers(dtype: torch.dtype) -> None:
    pairs = torch.complex64 if dtype == torch.float32 else torch.complex128
    functions = {
        "complex": lambda x: torch.view_as_real(x.view(pairs)),
        "of one": lambda x: (torch.complex(x, -x)[:, 0, 0].view(pairs) * 2j).real,
        "real": lambda x: (x.view(pairs) * 1j).view(dtype),
        "real as complex": lambda x: (x + 0j).view(dtype),
        "bits": lambda x: (x.view(pairs) * 1j).view(dtype).view(torch.uint8),
    }
    batch = [{0: torch.export.Dim("n", min=1)}]
    check(functions, torch.randn(2, 3, 4, dtype=dtype))
    check(functions, torch.randn(2, 3, 4, dtype=dtype), dynamic=batch, also=[(torch.randn(3, 3, 4, dtype=dtype),)])


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_writes_through_the_view(capture: str, tmp_path: pathlib.Path) -> None:
    def model(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        absolute = x.clone()
        absolute.view(torch.int32).bitwise_and_(0x7FFFFFFF)
        bytes_of = y.clone()
        bytes_of.view(torch.uint8)[:, ::8] = 3
        z = y + 1
        return absolute, bytes_of, z.view(torch.int64).reshape(-1)[1:].view(torch.float64)

    args = torch.randn(2, 3), torch.randn(2, 3, dtype=torch.float64)
    opbridge.export(model, args, tmp_path / "model.onnx", capture=capture, verify=True)


def test_what_does_not_hold_is_refused(tmp_path: pathlib.Path) -> None:
    def refused(to: torch.dtype, x: torch.Tensor, message: str) -> None:
        with pytest.raises(opbridge.UnsupportedError, match=message):
            opbridge.export(lambda x: x.view(to), (x,), tmp_path / "model.onnx")

    refused(torch.bool, torch.ones(3, dtype=torch.uint8), "use x != 0 instead")
    refused(torch.complex64, torch.ones(4, dtype=torch.int32), "through float32")
    refused(torch.int32, torch.ones(4, dtype=torch.complex64), "through float32")
    refused(torch.complex64, torch.ones(4, dtype=torch.complex128), "through float64")
    refused(torch.float8_e4m3fn, torch.ones(3, dtype=torch.uint8), "opset_version=26 or later")


def test_nodes() -> None:
    assert operators(check(lambda x: x.view(torch.uint8), torch.arange(-3, 3, dtype=torch.int8))) == ["Cast"]
    assert operators(check(lambda x: x.view(torch.int32), torch.randn(3))) == ["bit_cast"]
    assert operators(check(lambda x: x.view(torch.uint32), torch.randn(3), opset=26)) == ["BitCast"]


@pytest.mark.parametrize(
    ("floating", "integer"), [(np.float16, np.int16), (np.float32, np.int32), (np.float64, np.int64)]
)
def test_the_operator_in_both_hosts(floating: type, integer: type) -> None:
    values = np.array([[1.5, -0.0], [np.inf, 3.0]], floating)
    for given, to in itertools.permutations([floating, integer]):
        self = values.view(given)
        (bits,) = in_both_hosts("bit_cast", {"self": self, "like": np.zeros(0, to)}, outputs=(to,))
        np.testing.assert_array_equal(bits, self.view(to))
