import math

import pytest
import torch
import torch.nn.functional as F
from lowering_check import check, operators
from torch_versions import since_torch_2_15

import opbridge
from opbridge import UnsupportedError

INTEGERS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool]
FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]

OF_TWO = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "fmax": torch.fmax,
    "fmin": torch.fmin,
    "where": lambda a, b: torch.where(a > b, a, b),
    "masked_fill by a tensor": lambda a, b: a.masked_fill(a == b, b.flatten()[0]),
}
OF_NUMBER = {
    "x == 1": lambda a: a == 1,
    "x > 0": lambda a: a > 0,
    "x < 0.5": lambda a: a < 0.5,
    "x != 2.5": lambda a: a != 2.5,
    "where number": lambda a: torch.where(a > 0, a, 2.5),
    "number where": lambda a: torch.where(a > 0, 1, a),
    "where numbers": lambda a: torch.where(a > 0, 1.0, 0.0),
    "where integers": lambda a: torch.where(a > 0, 1, 0),
    "masked_fill": lambda a: a.masked_fill(a > 0, 1),
}
CLAMPS = {
    "clamp": lambda a: a.clamp(1, 3),
    "clamp to floats": lambda a: a.clamp(0.5, 2.5),
    "clamp min": lambda a: a.clamp(min=1),
    "clamp max": lambda a: a.clamp(max=2),
    "clamp where max is less": lambda a: a.clamp(3, 1),
    "clamp_min": lambda a: torch.clamp_min(a, 1),
    "clamp_max": lambda a: torch.clamp_max(a, 2),
    "clamp to tensors": lambda a: torch.clamp(a, a * a, a + 1),
    "clamp to a single tensor": lambda a: torch.clamp(a, min=a.max()),
}


def operands(dtype):
    a = torch.tensor([-7, -3, 0, 2, 5, 7, -1, 1])
    b = torch.tensor([3, -3, 5, -4, 5, 2, 1, -1])
    if dtype == torch.uint8:
        a, b = a.abs(), b.abs()
    return a.to(dtype), b.to(dtype)


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS)
def test_element_types(dtype):
    a, b = operands(dtype)
    check(OF_TWO, a, b)
    check(OF_NUMBER if dtype == torch.bool else OF_NUMBER | CLAMPS, a)


@pytest.mark.parametrize("opset", [13, 17])
def test_older_opsets(opset):
    for dtype in (torch.float32, torch.int64, torch.uint8):
        a, b = operands(dtype)
        check(OF_TWO, a, b, opset=opset)
        check(OF_NUMBER | CLAMPS, a, opset=opset)


def test_nan_and_infinity():
    a = torch.tensor([math.nan, math.inf, -math.inf, 0.3, -0.0, -7.0, 2.0])
    check(OF_TWO, a, a.flip(0))
    check(OF_NUMBER | CLAMPS, a)
    closeness = {
        "isclose": lambda a, b: torch.isclose(a, b),
        "isclose with NaN": lambda a, b: torch.isclose(a, b, equal_nan=True),
        "isclose by far": lambda a, b: torch.isclose(a, b, rtol=2.0, atol=3.0),
        "copysign": torch.copysign,
    }
    for other in (a, a.flip(0), a + 1e-6):
        check({name: f for name, f in closeness.items() if name != "copysign"}, a, other)
    check({"copysign": torch.copysign}, a, torch.tensor([1.0, -1.0, 0.0, -0.0, math.inf, -math.inf, -3.0]))


def test_promotion():
    integers, floats = torch.arange(6).reshape(2, 3), torch.tensor([0.5, 1.0, 4.0])
    functions = {
        "int64 and float32": lambda a, b: a == b,
        "0-d float": lambda a, b: a.int() < b[0],
        "uint8 and int8": lambda a, b: a.to(torch.uint8) >= -a.to(torch.int8),
        "half and number": lambda a, b: b.half() < 0.5001,
        "where": lambda a, b: torch.where(a > 2, b, a),
        "clamp": lambda a, b: torch.clamp(a, b[0], b[2]),
        "isclose of integers": lambda a, b: torch.isclose(a, a + 1, rtol=0.5),
    }
    check(functions, integers, floats)


def test_heaviside():
    check(torch.heaviside, torch.tensor([-1.0, 0.0, -0.0, 2.0, math.nan]), torch.tensor([0.3, 0.4, 0.5, 0.6, 0.7]))


def test_dynamic_shapes_and_sizes():
    functions = OF_TWO | {
        "size": lambda a, b: a < a.shape[0],
        "clamp to a size": lambda a, b: a.clamp(max=a.shape[1]),
        "masked_fill with a size": lambda a, b: a.masked_fill(a > 0, a.shape[0]),
    }
    a, b = torch.randn(2, 1), torch.randn(3)
    check(functions, a, b, dynamic=({0: "rows"}, {0: "columns"}), also=[(torch.randn(5, 1), torch.randn(4))])


@pytest.mark.parametrize("shape", [(), (0, 3)])
def test_no_dims_and_no_elements(shape):
    check(OF_NUMBER, torch.ones(shape))


def test_shortest_form():
    x = torch.randn(3)
    assert operators(check(lambda x: x.clamp(0, 1), x)) == ["Clip"]
    assert operators(check(lambda x: x.clamp(max=1), x)) == ["Min"]
    assert operators(check(lambda x: x >= 0, x)) == ["GreaterOrEqual"]
    assert operators(check(lambda x: x != 0, x)) == ["Equal", "Not"]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16])
def test_bounds_of_data_may_be_nan(dtype):
    functions = {
        "min": lambda x, bound: x.clamp(min=bound),
        "max": lambda x, bound: torch.clamp_max(x, bound),
        "both": lambda x, bound: x.clamp(bound, bound + 1),
        "integers": lambda x, bound: torch.arange(4).clamp(max=bound),
    }
    x = torch.tensor([-1, 0.5, 4, math.nan], dtype=dtype)
    bounds = [torch.tensor(bound, dtype=dtype) for bound in (1, math.nan, -math.inf)]
    check(functions, x, bounds[0], also=[(x, bound) for bound in bounds])


@since_torch_2_15("PyTorch refuses these bounds")
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int32])
def test_bounds_beyond_the_type_are_none(dtype):
    x = torch.tensor([5, 60, 100], dtype=dtype)
    bounds = {
        "least": {"min": -(2**40)},
        "most": {"max": 2**40},
        "both": {"min": -300, "max": 300},
        "one": {"max": 128},
    }
    check({name: lambda x, kw=kw: x.clamp(**kw) for name, kw in bounds.items()}, x)


@pytest.mark.parametrize("bound", [-1, -255])
def test_negative_bounds_of_unsigned_types_are_refused(bound, tmp_path):
    with pytest.raises(UnsupportedError, match="negative bound"):
        opbridge.export(lambda x: x.clamp(min=bound), (torch.ones(3, dtype=torch.uint8),), tmp_path / "model.onnx")


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8])
def test_bounds_that_are_tensors_wrap_around(dtype):
    x = torch.tensor([5, 60, 100], dtype=dtype)
    check(lambda x: (x.clamp(min=torch.tensor(-300)), x.clamp(max=torch.tensor(300)), x.clamp_min(torch.tensor(-2))), x)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_bounds_behind_a_relu(dtype):
    functions = {
        "clamp": lambda x: x.relu().clamp(0.5, 2),
        "hardtanh": lambda x: F.hardtanh(x.relu(), -1, 1),
        "relu6": lambda x: F.relu6(x.relu()),
        "clamp max": lambda x: x.relu().clamp(max=1),
    }
    check(functions, torch.tensor([-1, 0, 0.25, 1.5, 7, torch.inf, -torch.inf, torch.nan], dtype=dtype))
