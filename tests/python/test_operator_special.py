"""Special functions, in both hosts and as the export of PyTorch's operators."""

from __future__ import annotations

import math
from collections.abc import Callable

import mpmath
import numpy as np
import pytest
import torch
from lowering_check import check
from operator_models import in_both_hosts, refused_by_both_hosts

import opbridge

special = torch.special
BOTH = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])

UNARY = {
    "digamma": special.digamma,
    "erfc": special.erfc,
    "erfinv": special.erfinv,
    "i0": special.i0,
    "i0e": special.i0e,
    "i1": special.i1,
    "i1e": special.i1e,
    "lgamma": torch.lgamma,
    "log_ndtr": special.log_ndtr,
    "modified_bessel_i0": special.modified_bessel_i0,
    "modified_bessel_i1": special.modified_bessel_i1,
    "modified_bessel_k0": special.modified_bessel_k0,
    "modified_bessel_k1": special.modified_bessel_k1,
    "ndtr": special.ndtr,
    "ndtri": special.ndtri,
    "scaled_modified_bessel_k0": special.scaled_modified_bessel_k0,
    "scaled_modified_bessel_k1": special.scaled_modified_bessel_k1,
    "spherical_bessel_j0": special.spherical_bessel_j0,
}
# PyTorch's own are less exact than its tolerances; see also `test_against_many_digits`.
ROUGH_IN_PYTORCH = {
    "airy_ai": special.airy_ai,
    "bessel_j0": special.bessel_j0,
    "bessel_j1": special.bessel_j1,
    "bessel_y0": special.bessel_y0,
    "bessel_y1": special.bessel_y1,
    "erfcx": special.erfcx,
}
POLYNOMIALS = {
    name: getattr(special, name)
    for name in (
        *(f"{shifted}chebyshev_polynomial_{kind}" for shifted in ("", "shifted_") for kind in "tuvw"),
        "hermite_polynomial_h",
        "hermite_polynomial_he",
        "laguerre_polynomial_l",
        "legendre_polynomial_p",
    )
}
BINARY = {"igamma": torch.igamma, "igammac": torch.igammac, "zeta": special.zeta}

ODD = [0.0, -0.0, 1.0, -1.0, -2.0, 0.5, -0.5, 1e-30, 100.0, -100.0, 1e30, -1e30, math.nan, math.inf, -math.inf]


@pytest.fixture(scope="module", autouse=True)
def _loaded() -> None:
    opbridge.load_operators()


@BOTH
def test_functions_of_one_tensor(dtype: torch.dtype) -> None:
    x = torch.linspace(-8, 8, 322, dtype=dtype).reshape(2, 7, 23)
    check(UNARY, x)
    check(UNARY, torch.tensor(ODD, dtype=dtype))
    check(ROUGH_IN_PYTORCH, x, rtol=1e-5, atol=1e-5)


@BOTH
def test_functions_of_two_tensors_broadcast(dtype: torch.dtype) -> None:
    check(BINARY, torch.linspace(0, 40, 81, dtype=dtype)[:, None], torch.linspace(0.1, 40, 60, dtype=dtype))
    check(BINARY, torch.rand(2, 1, 3, dtype=dtype) + 1.1, torch.rand(4, 1, dtype=dtype))
    check(BINARY, torch.tensor(1.5, dtype=dtype), torch.rand(4, dtype=dtype))


@BOTH
def test_polynomials(dtype: torch.dtype) -> None:
    rtol, atol = (1e-4, 1e-4) if dtype == torch.float32 else (1e-7, 1e-7)  # PyTorch's recurrences in float32
    x = torch.linspace(-1.5, 1.5, 21, dtype=dtype)[:, None]
    check(POLYNOMIALS, x, torch.arange(-2, 14, dtype=dtype), rtol=rtol, atol=atol)
    check(POLYNOMIALS, torch.tensor([0.25], dtype=dtype), torch.tensor([2.7, -0.5, math.nan, -math.inf], dtype=dtype))


def test_a_number_beside_a_tensor() -> None:
    n, x = torch.arange(5), torch.rand(5)
    for name in ("hermite_polynomial_h", "chebyshev_polynomial_t", "shifted_chebyshev_polynomial_w"):
        check(lambda n, f=POLYNOMIALS[name]: f(0.5, n), n)
        check(lambda x, f=POLYNOMIALS[name]: f(x, 3), x)
    check({"q": lambda x: special.zeta(2.0, x), "s": lambda x: special.zeta(x + 2, 3.0)}, x)


@BOTH
def test_polygamma(dtype: torch.dtype) -> None:
    functions = {str(n): lambda x, n=n: torch.polygamma(n, x) for n in (0, 1, 2, 3, 6)}
    check(functions, torch.linspace(0.1, 30, 200, dtype=dtype))
    check({"2": functions["2"], "3": functions["3"]}, torch.linspace(-4.55, 0, 24, dtype=torch.float64))


def test_polygamma_takes_its_order_for_an_int() -> None:
    orders = ((1 << 63) - 1, 1 << 32, (1 << 32) + 2)
    check({str(n): lambda x, n=n: torch.polygamma(n, x) for n in orders}, torch.tensor([0.5, 1.0, 2.5]))


# Limits, poles, and numbers whose intermediate results overflow or underflow.
EDGES = {
    torch.float32: [3.4028234663852886e38, -3.4028234663852886e38, 1.2e-38, 20.0, 1e15, -9.2e18],
    torch.float64: [
        1.7976931348623157e308,
        -1.7976931348623157e308,
        5e-324,
        -5e-324,
        1e-310,
        1e-45,
        -1e-45,
        -1e9,
        37.0,
    ],
}


@BOTH
def test_ends_and_poles(dtype: torch.dtype) -> None:
    x = torch.tensor([*ODD, *EDGES[dtype], -1e5], dtype=dtype)
    near_zero = {"modified_bessel_k1", "scaled_modified_bessel_k1"} if dtype == torch.float32 else set()
    check({name: f for name, f in UNARY.items() if name not in near_zero}, x)
    check({"zeta": special.zeta}, x[:, None], x)
    # In float32 PyTorch's own igamma overflows at the limits.
    ends = x if dtype == torch.float64 else torch.tensor(ODD)
    check(BINARY, ends[:, None], ends)
    check({str(n): lambda x, n=n: torch.polygamma(n, x) for n in (1, 2, 3)}, x)


@BOTH
def test_polynomials_that_overflow(dtype: torch.dtype) -> None:
    x = torch.tensor([*ODD, *EDGES[dtype], 2.0, -3.0, 1.5, 9.0], dtype=dtype)[:, None]
    functions = {name: lambda x, n, f=f: f(x, n).isfinite() for name, f in POLYNOMIALS.items()}
    check(functions, x, torch.tensor([0.0, 1, 2, 3, 5, 9, 10, 33, 100, 128, 129, 511, 512, 513, 600], dtype=dtype))
    # Infinities of the same sign, and NaN at the same degrees.
    few = torch.tensor([2.0, -1e30, math.inf, -math.inf], dtype=dtype)[:, None]
    infinite = {
        name: lambda x, n, f=f: f(x, n).nan_to_num(0, math.inf, -math.inf).clamp(-1, 1) * f(x, n).isinf()
        for name, f in POLYNOMIALS.items()
    }
    check(infinite, few, torch.tensor([0.0, 1, 2, 3, 4, 5, 9, 10], dtype=dtype))


def test_multigammaln() -> None:
    functions: dict[str, Callable[..., torch.Tensor]] = {
        str(p): lambda x, p=p: special.multigammaln(x, p) for p in (1, 3, 5)
    }
    check(functions, torch.rand(3, 4, dtype=torch.float64) * 10 + 2.1)
    check(functions, torch.tensor(7))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.bool])
def test_other_element_types(dtype: torch.dtype) -> None:
    x = torch.tensor([0.0, 1, 0, 1] if dtype == torch.bool else [0.0, 1, 3, 7]).to(dtype)
    check({name: UNARY[name] for name in ("lgamma", "erfc", "i0", "ndtr")}, x)
    if not dtype.is_floating_point:
        check(POLYNOMIALS["legendre_polynomial_p"], x, x)


@pytest.mark.parametrize("opset", [13, 17])
def test_old_opsets(opset: int) -> None:
    check({"erfc": special.erfc, "mvlgamma": lambda x: torch.mvlgamma(x, 2)}, torch.rand(3) + 1, opset=opset)


def test_sizes_left_open_and_zero() -> None:
    rows = torch.export.Dim("rows")
    x, n = torch.rand(4, 3) + 1, torch.rand(3) + 2
    functions = {"lgamma": lambda x, n: torch.lgamma(x), "zeta": lambda x, n: special.zeta(n, x)}
    others = [(torch.rand(rows, 3) + 1, n) for rows in (7, 1)]
    check(functions, x, n, dynamic=({0: rows}, {}), also=others)
    check(functions, torch.rand(0, 3), n)


EXACT: dict[str, tuple[Callable[..., object], list[float]]] = {
    "airy_ai": (mpmath.airyai, [-30.5, -8.01, -7.99, -2.2, 0.0, 0.99, 1.01, 60.0]),
    "bessel_j0": (lambda x: mpmath.besselj(0, x), [0.5, 4.99, 5.01, 300.0]),
    "bessel_j1": (lambda x: mpmath.besselj(1, x), [-0.5, 4.99, 5.01, 300.0]),
    "bessel_y0": (lambda x: mpmath.bessely(0, x), [1e-5, 4.99, 5.01, 300.0]),
    "bessel_y1": (lambda x: mpmath.bessely(1, x), [1e-5, 4.99, 5.01, 300.0]),
    "digamma": (mpmath.digamma, [-7.3, -1e-9, 1e-9, 9.99, 10.01, 1e9]),
    "erfcx": (lambda x: mpmath.exp(x * x) * mpmath.erfc(x), [-20.0, 0.5, 24.99, 25.01, 1e9]),
    "erfinv": (mpmath.erfinv, [1e-20, 0.499, -0.501, 1 - 2.0**-53]),
    "i0e": (lambda x: mpmath.besseli(0, x) * mpmath.exp(-x), [1e-9, 19.99, 20.01, 1e6]),
    "i1": (lambda x: mpmath.besseli(1, x), [1e-9, -19.99, 20.01, 600.0]),
    "log_ndtr": (lambda x: mpmath.log(mpmath.ncdf(x)), [-300.0, -1.01, -0.99, 7.5]),
    "modified_bessel_k0": (lambda x: mpmath.besselk(0, x), [1e-9, 0.999, 1.001, 9.0, 600.0]),
    "scaled_modified_bessel_k1": (lambda x: mpmath.besselk(1, x) * mpmath.exp(x), [1e-9, 1.001, 7.5, 1e6]),
}


@pytest.mark.parametrize("name", EXACT)
def test_against_many_digits(name: str) -> None:
    function, points = EXACT[name]
    actual = in_both_hosts(name, {"self": np.array(points)})[0]
    with mpmath.workdps(50):
        expected = [float(function(mpmath.mpf(point))) for point in points]
    np.testing.assert_allclose(actual, expected, rtol=1e-13, atol=1e-13 if name == "airy_ai" else 0)


@pytest.mark.parametrize(
    ("a", "x"),
    [(1e-10, 0.5), (0.5, 1e-10), (0.5, 40.0), (30.0, 25.0), (9e3, 9.1e3), (1.1e4, 1.09e4), (1e6, 1.001e6), (1e9, 1e9)],
)
def test_incomplete_gamma_against_many_digits(a: float, x: float) -> None:
    inputs = {"self": np.array([a]), "other": np.array([x])}
    lower, upper = in_both_hosts("igamma", inputs)[0], in_both_hosts("igammac", inputs)[0]
    with mpmath.workdps(40):
        if a < 1e5:
            expected = float(mpmath.gammainc(a, x, regularized=True))
        else:
            density = lambda t: mpmath.exp((a - 1) * mpmath.log(t) - t - mpmath.loggamma(a))  # noqa: E731
            width = mpmath.sqrt(a)
            expected = float(mpmath.quad(density, [x + i * width for i in range(0, 14, 2)]))
    np.testing.assert_allclose(upper, expected, rtol=1e-11)
    np.testing.assert_allclose(lower + upper, 1, rtol=1e-15)


def test_igamma_at_its_borders() -> None:
    borders = torch.tensor([0.0, -1.0, 1.0, 1e5, math.inf], dtype=torch.float64)
    check({"igamma": torch.igamma, "igammac": torch.igammac}, borders[:, None], borders)


def test_ndtri_down_to_the_smallest_number() -> None:
    p = np.array([5e-324, 1e-300, 1e-20, 0.2499, 0.2501, 0.5 + 1e-10, 0.7501])
    x = in_both_hosts("ndtri", {"self": p})[0]
    with mpmath.workdps(50):
        back = [
            float(mpmath.ncdf(mpmath.mpf(float(value))) / mpmath.mpf(float(q))) for value, q in zip(x, p, strict=True)
        ]
    np.testing.assert_allclose(back, 1, rtol=1e-12)


def test_zeta_of_negative_q() -> None:
    s, q = np.array([[2.0], [3.0], [8.0]]), np.array([-0.5, -3.25, -2e6 - 0.75])
    actual = in_both_hosts("zeta", {"self": s, "other": q})[0]
    np.testing.assert_allclose(actual[:, :2], special.zeta(torch.tensor(s), torch.tensor(q[:2])), rtol=1e-12)
    np.testing.assert_allclose(actual[0, 2], math.pi**2 * 2, rtol=1e-6)  # almost the sum over all integers


def test_airy_ai_far_out() -> None:
    far = torch.tensor([math.inf, -math.inf, math.nan, -1e9, -1e12, -9.2e18, -1e30], dtype=torch.float64)
    check(special.airy_ai, far)


def test_hostile_arguments() -> None:
    x = np.zeros((2, 3), np.float32)
    refused_by_both_hosts("do not broadcast", "zeta", {"self": x, "other": np.zeros((2, 2), np.float32)})
    refused_by_both_hosts("n must not be negative", "polygamma", {"self": x}, n=-1)
    huge = {"self": np.array([0.5]), "other": np.array([1e12])}
    refused_by_both_hosts("a degree exceeds", "legendre_polynomial_p", huge)
    refused_by_both_hosts("a degree exceeds", "laguerre_polynomial_l", huge)
    assert np.isfinite(in_both_hosts("chebyshev_polynomial_t", huge)[0]).all()
