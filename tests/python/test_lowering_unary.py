"""Elementwise functions of one tensor."""

import math

import pytest
import torch
from conftest import INSTALLED
from lowering_check import check, operators

import opbridge

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
NUMBERS = [-3.7, -1.0, -0.5, -1e-4, -0.0, 0.0, 1e-4, 0.3, 0.5, 0.99, 1.0, 1.5, 2.5, 17.3, 80.0]
ODD_NUMBERS = [math.nan, math.inf, -math.inf]

# ONNX Runtime has no float64 kernels for these; opbridge has.
TRIGONOMETRIC = {
    "acos": torch.acos,
    "acosh": torch.acosh,
    "asin": torch.asin,
    "asinh": torch.asinh,
    "atan": torch.atan,
    "atanh": torch.atanh,
    "cosh": torch.cosh,
    "sinh": torch.sinh,
    "tan": torch.tan,
}
FUNCTIONS = {
    "abs": torch.abs,
    "ceil": torch.ceil,
    "cos": torch.cos,
    "deg2rad": torch.deg2rad,
    "entr": torch.special.entr,
    "exp": torch.exp,
    "exp2": torch.exp2,
    "expm1": torch.expm1,
    "floor": torch.floor,
    "frac": torch.frac,
    "isfinite": torch.isfinite,
    "isinf": torch.isinf,
    "isnan": torch.isnan,
    "isneginf": torch.isneginf,
    "isposinf": torch.isposinf,
    "isreal": torch.isreal,
    "log": torch.log,
    "log10": torch.log10,
    "log1p": torch.log1p,
    "log2": torch.log2,
    "logit": torch.logit,
    "logit eps": lambda x: torch.logit(x, 0.1),
    "logit, bounds crossed": lambda x: torch.logit(x, 0.6),
    "nan_to_num": torch.nan_to_num,
    "nan_to_num chosen": lambda x: torch.nan_to_num(x, 1.0, 2.0, 3.0),
    "neg": torch.neg,
    "rad2deg": torch.rad2deg,
    "reciprocal": torch.reciprocal,
    "round": torch.round,
    "round 2 decimals": lambda x: torch.round(x, decimals=2),
    "round to tens": lambda x: torch.round(x, decimals=-1),
    "sigmoid": torch.sigmoid,
    "sign": torch.sign,
    "sgn": torch.sgn,
    "signbit": torch.signbit,
    "sin": torch.sin,
    "sinc": torch.sinc,
    "square": torch.square,
    "tanh": torch.tanh,
    "trunc": torch.trunc,
}


@pytest.mark.parametrize("opset", [13, 17, 21])
def test_float32(opset):
    check(FUNCTIONS | TRIGONOMETRIC, torch.tensor(NUMBERS + ODD_NUMBERS), opset=opset)


@pytest.mark.parametrize("opset", [13, 17, 21])
@pytest.mark.parametrize("dtype", FLOATS)
def test_square_roots(dtype, opset):
    numbers = torch.tensor(NUMBERS + ODD_NUMBERS, dtype=torch.float64).to(dtype)
    if INSTALLED == (1, 20):  # its square roots of infinity and of -0 are wrong
        numbers = numbers[~numbers.isposinf() & (numbers != 0)]
    check({"rsqrt": torch.rsqrt, "sqrt": torch.sqrt}, numbers, opset=opset)


@pytest.mark.parametrize("opset", [13, 17, 21])
def test_erf(opset):
    # ONNX Runtime 1.23 computes 1 from NaN.
    odd = ODD_NUMBERS if INSTALLED >= (1, 24) else ODD_NUMBERS[1:]
    check(torch.erf, torch.tensor(NUMBERS + odd), opset=opset)
    check(torch.erf, torch.tensor(NUMBERS + ODD_NUMBERS[1:], dtype=torch.bfloat16), opset=opset)


@pytest.mark.parametrize("dtype", FLOATS[1:])
def test_other_floats(dtype):
    functions = FUNCTIONS | TRIGONOMETRIC
    # NaN is compared in float32: a conversion may add a sign to bfloat16's NaN.
    numbers = torch.tensor(NUMBERS + ODD_NUMBERS[1:], dtype=torch.float64).to(dtype)
    # The formulas round several times in float16, PyTorch's functions once.
    tolerance = {"rtol": 4e-3, "atol": 2e-3} if dtype == torch.float16 else {}
    check(functions, numbers, **tolerance)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool])
def test_integers(dtype):
    integers = torch.tensor([0, 1, 2, 3, 7, -1, -5]).to(dtype)
    functions = {
        "exp": torch.exp,
        "isfinite": torch.isfinite,
        "isnan": torch.isnan,
        "isposinf": torch.isposinf,
        "rsqrt": torch.rsqrt,
        "sigmoid": torch.sigmoid,
        "sign": torch.sign,
        "sin": torch.sin,
        "signbit": torch.signbit,
        "atan": torch.atan,
        "log2": torch.log2,
        "nan_to_num": torch.nan_to_num,
    }
    if dtype != torch.bool:
        functions |= {
            "abs": torch.abs,
            "floor": torch.floor,
            "neg": torch.neg,
            "round": torch.round,
            "square": torch.square,
            "trunc": torch.trunc,
        }
    check(functions, integers)


def test_expm1_and_log1p_near_zero():
    small = torch.tensor([1e-8, -1e-8, 1e-6, 3e-4, -3e-4, 0.1, -0.4, 0.49, 0.51])
    check({"expm1": torch.expm1, "log1p": torch.log1p}, small, rtol=4e-7, atol=0)


@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3)])
def test_no_dims_and_no_elements(shape):
    check({name: FUNCTIONS[name] for name in ("exp", "isfinite", "round", "sign", "trunc")}, torch.ones(shape))


def test_dynamic_shape():
    some = {name: FUNCTIONS[name] for name in ("exp", "isreal", "nan_to_num", "sinc")}
    sizes = ({0: "rows", 1: "columns"},)
    check(some, torch.randn(2, 3), dynamic=sizes, also=[(torch.randn(5, 4),)])


def test_one_node_each():
    x = torch.rand(3)
    for function, operator in [(torch.exp, "Exp"), (torch.neg, "Neg"), (torch.tanh, "Tanh"), (torch.round, "Round")]:
        assert operators(check(function, x)) == [operator]
    assert operators(check(torch.rsqrt, x)) == ["Sqrt", "Reciprocal"]


def test_rounding_integers_to_tens_is_refused():
    import opbridge

    with pytest.raises(opbridge.UnsupportedError, match="round a floating-point tensor"):
        check(lambda x: torch.round(x, decimals=-1), torch.arange(3))


def test_logarithms_of_powers_are_whole():
    check({"two": lambda x: x.log2().floor()}, 2.0 ** torch.arange(-20, 20))
    check({"ten": lambda x: x.log10().floor()}, torch.tensor([10.0**k for k in range(-6, 10)]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_the_sign_of_nan(dtype):
    opbridge.load_operators()
    nan = torch.tensor([math.nan, 0.0, -0.0, math.inf, -math.inf, 1.0, -1.0], dtype=dtype)
    functions = {
        "signbit": torch.signbit,
        "copysign": lambda x: torch.copysign(torch.ones_like(x), x),
        "copysign of zeros": lambda x: 1 / torch.copysign(torch.zeros_like(x), x),
    }
    check(functions, torch.cat([nan, -nan]), rtol=0, atol=0)
