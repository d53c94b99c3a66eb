import math

import pytest
import torch
from lowering_check import check, operators
from torch.export import Dim

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
INTEGERS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]

OF_TWO = {
    "add": lambda a, b: a + b,
    "add alpha": lambda a, b: torch.add(a, b, alpha=2),
    "sub": lambda a, b: a - b,
    "sub alpha": lambda a, b: torch.sub(a, b, alpha=3),
    "rsub": lambda a, b: torch.rsub(a, b),
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "div trunc": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    "div floor": lambda a, b: torch.div(a, b, rounding_mode="floor"),
    "remainder": lambda a, b: a % b,
    "fmod": torch.fmod,
    "floor_divide": lambda a, b: a // b,
    "addcmul": lambda a, b: torch.addcmul(a, a, b, value=2),
}
OF_TWO_FLOATS = {
    "addcdiv": lambda a, b: torch.addcdiv(a, a, b, value=0.7),
    "lerp": lambda a, b: torch.lerp(a, b, 0.3),
    "lerp from the end": lambda a, b: torch.lerp(a, b, 0.7),
    "lerp by a tensor": lambda a, b: torch.lerp(a, b, a),
    "pow": lambda a, b: a.abs() ** b,
}
OF_NUMBER = {
    "x + 1": lambda a: a + 1,
    "1 - x": lambda a: 1 - a,
    "x * 3": lambda a: a * 3,
    "x / 3": lambda a: a / 3,
    "x % 3": lambda a: a % 3,
    "x // 3": lambda a: a // 3,
    "x * 2.5": lambda a: a * 2.5,
    "x % 2.5": lambda a: a % 2.5,
    "x // 0.7": lambda a: a // 0.7,
    "fmod 2": lambda a: torch.fmod(a, 2),
    "x ** 0": lambda a: a**0,
    "x ** 1": lambda a: a**1,
    "x ** 2": lambda a: a**2,
    "x ** 3": lambda a: a**3,
    "x ** 5": lambda a: a**5,
    "2 ** x": lambda a: 2 ** a.abs(),
    "|x| ** 0.5": lambda a: a.abs() ** 0.5,
    "|x| ** -1.5": lambda a: (a.abs() + 1) ** -1.5,
    "float_power": lambda a: torch.float_power(a, 2),
}
SIGNED = {
    "x // -3": lambda a: a // -3,
    "x % -3": lambda a: a % -3,
    "7 % x": lambda a: 7 % a,
}


def operands(dtype):
    if dtype.is_floating_point:
        generator = torch.Generator().manual_seed(0)
        a = torch.randn(3, 4, dtype=torch.float64, generator=generator) * 5
        b = torch.randn(3, 4, dtype=torch.float64, generator=generator)
        return a.to(dtype), b.to(dtype)
    a = torch.tensor([-7, -3, 0, 2, 5, 7, -1, 1])
    b = torch.tensor([3, -2, 5, -4, -3, 2, 1, -1])
    if dtype == torch.uint8:
        a, b = a.abs(), b.abs()
    return a.to(dtype), b.to(dtype)


@pytest.mark.parametrize("dtype", FLOATS)
def test_two_floats(dtype):
    functions = OF_TWO | OF_TWO_FLOATS
    if dtype == torch.float16:
        # Quotients rounded to float16 before they are rounded to integers: ONNX Runtime computes in float32.
        functions = {name: f for name, f in functions.items() if "floor" not in name and name != "div trunc"}
        check(functions, *operands(dtype), rtol=5e-3, atol=5e-3)
    else:
        check(functions, *operands(dtype))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_two_integers(dtype):
    check(OF_TWO, *operands(dtype))


@pytest.mark.parametrize("opset", [13, 17])
def test_older_opsets(opset):
    check(OF_TWO | OF_TWO_FLOATS, *operands(torch.float32), opset=opset)
    check(OF_TWO, *operands(torch.int64), opset=opset)
    check(OF_NUMBER, operands(torch.int32)[0], opset=opset)


@pytest.mark.parametrize("dtype", [*FLOATS[:2], FLOATS[3], *INTEGERS])
def test_numbers(dtype):
    functions = OF_NUMBER if dtype == torch.uint8 else OF_NUMBER | SIGNED
    x = operands(dtype)[0]
    check(functions, x if dtype.is_floating_point else x[x != 0])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_numbers_that_pytorch_rounds_to_half_types(dtype):
    x = torch.cat([torch.randn(500) * 3, torch.arange(-10, 11) * 0.3]).to(dtype)
    functions = {
        "add": lambda x: x + 0.3,
        "rsub": lambda x: 0.3 - x,
        "remainder": lambda x: x % 0.3,
        "remainder of a number": lambda x: torch.remainder(0.3, x),
        "fmod": lambda x: torch.fmod(x, 0.3),
        "pow": lambda x: x.abs() ** 0.3,
        "power of a number": lambda x: 0.3**x,
        "hardshrink": lambda x: torch.nn.functional.hardshrink(x, 0.3),
        "quotient, not rounded": lambda x: torch.div(x, 0.3, rounding_mode="trunc"),
        "mul, not rounded": lambda x: x * 0.3,
    }
    check(functions, x, rtol=2 * torch.finfo(dtype).eps, atol=0)


def test_bools():
    a, b = torch.tensor([True, False, True, False]), torch.tensor([True, True, False, False])
    functions = {
        "add": lambda a, b: a + b,
        "mul": lambda a, b: a * b,
        "div": lambda a, b: a / (b + 1),
        "with a number": lambda a, b: a + 2,
        "with a float": lambda a, b: b * 1.5,
    }
    check(functions, a, b)


def test_division_in_the_corners():
    inf, nan = math.inf, math.nan
    a = torch.tensor([1.0, -1.0, 5.0, -5.0, 0.0, inf, nan, 3.0, -3.0, -0.0])
    b = torch.tensor([0.1, 0.1, 0.0, 0.0, 0.0, 2.0, 1.0, inf, inf, 3.0])
    check({name: OF_TWO[name] for name in ("floor_divide", "remainder", "fmod", "div trunc")}, a, b)


@pytest.mark.parametrize("dtype", [torch.int8, torch.int32, torch.int64, torch.uint8], ids=str)
def test_division_of_the_least_integer_by_minus_one(dtype):
    functions = {"floor_divide": lambda x: x // -1, "remainder": lambda x: x % -1}
    check(functions, torch.tensor([torch.iinfo(dtype).min, 0, 5, torch.iinfo(dtype).max], dtype=dtype))


@pytest.mark.parametrize("value", [3.14, 0.1])
def test_products_that_overflow_in_pytorchs_order(value):
    largest = torch.finfo(torch.float64).max
    a = torch.tensor([largest, 0.25, largest, -largest, 1e-300], dtype=torch.float64)
    b = torch.tensor([0.25, largest, 3, 4, 1e300], dtype=torch.float64)
    functions = {
        "addcmul": lambda a, b: torch.addcmul(torch.zeros_like(a), a, b, value=value),
        "addcdiv": lambda a, b: torch.addcdiv(torch.zeros_like(a), a, b, value=value),
    }
    check(functions, a, b)


def test_integers_wrap():
    a = torch.tensor([127, -128, 100], dtype=torch.int8)
    check({"add": lambda a: a + a, "mul": lambda a: a * a, "neg": torch.neg, "cube": lambda a: a**3}, a)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integer_powers_wrap(dtype):
    base = torch.arange(-6, 7).to(dtype)
    exponents = torch.arange(0, 70, 3).to(dtype).unsqueeze(1)
    check({"of tensors": torch.pow, "of a number": lambda a, b: 3**b}, base, exponents)
    if dtype.is_signed:
        check(torch.pow, base, -exponents)
    check(torch.pow, base[:0], exponents)


def test_promotion():
    integers, floats = torch.arange(6).reshape(2, 3), torch.randn(3)
    functions = {
        "int64 and float32": lambda a, b: a + b,
        "0-d float": lambda a, b: a.int() * b[0],
        "0-d int": lambda a, b: b * a[0, 1],
        "half and number": lambda a, b: b.half() + 1.5,
        "uint8 and int8": lambda a, b: a.to(torch.uint8) - a.to(torch.int8),
        "bool and int": lambda a, b: (a > 2) + a,
        "bfloat16 and half": lambda a, b: b.bfloat16() + b.half(),
    }
    check(functions, integers, floats)


def test_broadcasting_with_dynamic_shapes():
    sizes = ({0: "rows"}, {0: "columns"})
    check(OF_TWO, torch.randn(2, 1), torch.randn(3), dynamic=sizes, also=[(torch.randn(5, 1), torch.randn(4))])


def test_sizes_as_numbers():
    functions = {
        "mul": lambda x: x * x.shape[0],
        "add": lambda x: x + x.shape[1] * 2,
        "floor_divide": lambda x: x // x.shape[0],
        "pow": lambda x: x.abs() ** x.shape[0],
    }
    check(functions, torch.randn(2, 3), dynamic=({0: "rows", 1: "columns"},), also=[(torch.randn(5, 4),)])


def test_one_node_each():
    x = torch.randn(3)
    assert operators(check(lambda x: x * 0.1, x)) == ["Mul"]
    assert operators(check(lambda x: x**2, x)) == ["Pow"]  # ONNX Runtime fuses Pow in normalizations
    assert operators(check(lambda x: x**-1, x)) == ["Reciprocal"]


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8])
def test_nothing_divided_by_an_integer_zero(dtype):
    functions = {
        "remainder": torch.remainder,
        "fmod": torch.fmod,
        "floor_divide": torch.floor_divide,
        "trunc": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
        "floor": lambda x, y: torch.div(x, y, rounding_mode="floor"),
    }
    check(functions, torch.zeros((2, 0), dtype=dtype), torch.zeros((), dtype=dtype))


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int8])
def test_gcd_of_the_least_integer(dtype):
    least, most = torch.iinfo(dtype).min, torch.iinfo(dtype).max
    x = torch.tensor([0, 1, -3, 6, 100, most - 1, most, -most, least], dtype=dtype)
    check(torch.gcd, x[:, None], x)


def test_ldexp_by_integers_is_exact_and_by_others_has_a_power_of_their_type():
    exponents = torch.tensor([-100.0, 20.0, 3.0, 15.0])
    for dtype in (torch.float16, torch.bfloat16, torch.int64):
        check(torch.ldexp, torch.tensor([torch.inf, 1.5, -2.0, 0.0]).half(), exponents.to(dtype))
    numbers = torch.tensor([1.5, 1e-30, torch.inf, 0.0], dtype=torch.float64)
    for dtype in (torch.float64, torch.float32):
        check(torch.ldexp, numbers.to(dtype), torch.tensor([[200], [-200], [3000], [-(2**31)]]))
    check(torch.ldexp, torch.tensor([True, False]), torch.tensor([True, True]))


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.bool])
def test_ldexp_of_integers_has_a_power_that_may_overflow(dtype):
    check(torch.ldexp, torch.tensor([0, 1, 1, 1], dtype=dtype), torch.tensor([140, 140, -149, 7]))


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.int8])
def test_quotients_at_the_ends_of_integers(dtype):
    info = torch.iinfo(dtype)
    pairs = [(info.min, 6), (info.max, info.min), (info.min, info.max), (info.min, info.min), (info.max, -6)]
    a, b = torch.tensor(pairs, dtype=dtype).T
    functions = {
        "floor": lambda a, b: (a // b, a // 6, 6 // b, torch.div(a, b, rounding_mode="floor")),
        "rest": lambda a, b: (a % b, torch.fmod(a, b), torch.div(a, b, rounding_mode="trunc")),
    }
    check(functions, a, b)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.uint8])
def test_integers_of_no_elements_by_0(dtype):
    functions = {
        "by a tensor": lambda a, b: (a % b, a // b, torch.fmod(a, b), torch.div(a, b, rounding_mode="trunc")),
        "by a size": lambda a, b: (a % a.shape[1], a // a.shape[1]),
        "by constants": lambda a, b: (a % torch.tensor([3, 2]).to(dtype)[:, None], a // 3),
        "a number by nothing": lambda a, b: (7 % a, b // a),
    }
    of_what_is_left = {name: lambda a, b, f=function: f(a[:, 2:], b) for name, function in functions.items()}
    some, none = torch.ones(2, 5, dtype=dtype), torch.ones(2, 2, dtype=dtype)
    divisors = torch.tensor([[3], [2]], dtype=dtype), torch.zeros(2, 1, dtype=dtype)
    check(of_what_is_left, some, divisors[0], dynamic=[{1: Dim("n", min=2)}, {}], also=[(none, divisors[1])])
    check(of_what_is_left, none, divisors[1])


def test_integer_inverses_are_truncated():
    functions = {
        "product": lambda x: torch.div(1, x, rounding_mode="trunc") * x,
        "floor": lambda x: 1 // x,
        "remainder": lambda x: torch.remainder(1, x),
        "fmod": lambda x: torch.fmod(torch.ones_like(x), x),
    }
    for dtype in (torch.int64, torch.int32):
        check(functions, torch.tensor([-16, -1, 1, 2, 7], dtype=dtype))
        check(functions, torch.tensor(-16, dtype=dtype))
