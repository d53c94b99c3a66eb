"""Linear algebra against PyTorch's."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from lowering_check import check
from torch import linalg
from torch_versions import IS_BEFORE_2_15

import opbridge

Functions = Mapping[str, Callable[..., Any]]
NUMBERS = pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex128])


def in_pairs(functions: Functions) -> Functions:
    """Complex results as pairs, as the exported model returns them."""

    def real(result: torch.Tensor) -> torch.Tensor:
        return torch.view_as_real(result.resolve_conj()) if result.is_complex() else result

    return {name: lambda *a, f=f: torch.utils._pytree.tree_map(real, tuple_of(f(*a))) for name, f in functions.items()}


def tuple_of(result: Any) -> tuple[torch.Tensor, ...]:
    return (result,) if isinstance(result, torch.Tensor) else tuple(result)


def matrices(*sizes: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    torch.manual_seed(seed)
    return torch.randn(*sizes, dtype=torch.complex128 if dtype.is_complex else torch.float64).to(dtype)


def regular(*sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Symmetric and positive, so that every factorization is as exact as its type."""
    a = matrices(*sizes, dtype=dtype)
    return a @ a.mH / sizes[-1] + torch.eye(sizes[-1], dtype=dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_products(dtype: torch.dtype) -> None:
    functions = {
        "power": lambda a: linalg.matrix_power(a, 5),
        "power of nothing": lambda a: linalg.matrix_power(a, 0),
        "chain": lambda a: linalg.multi_dot([a[0, 0], a[0], a[1], a[1, :, 1]]),
        "chain without terms": lambda a: linalg.multi_dot([a[0, :, :0], a[0, :0], a[1]]),
        "vecdot": lambda a: linalg.vecdot(a, a[0], dim=-2),
        "vander": lambda a: linalg.vander(a[0, 0]),
        "vander falling": lambda a: torch.vander(a[0, 0], 4),
        "vander rising": lambda a: torch.vander(a[0, 0], increasing=True),
        "vander of a number": lambda a: linalg.vander(a[0, 0, 0], N=3),
        "vander longer": lambda a: linalg.vander(a, N=6),
    }
    check(functions, matrices(2, 4, 4, dtype=dtype))
    check(functions, matrices(2, 4, 4, dtype=dtype), opset=13)


@NUMBERS
def test_solving(dtype: torch.dtype) -> None:
    functions = {
        "solve": lambda a, b: linalg.solve(a, b),
        "solve from the right": lambda a, b: linalg.solve(a, b.mT, left=False),
        "solve of vectors": lambda a, b: linalg.solve(a, b[..., 0]),
        "solve of one matrix": lambda a, b: linalg.solve(a[0], b),
        "solve_ex": lambda a, b: linalg.solve_ex(a, b[0]),
        "solve_ex of one matrix": lambda a, b: (*linalg.solve_ex(a[0], b), *linalg.solve_ex(a[:1], b)),
        "solve_ex of a singular matrix": lambda a, b: linalg.solve_ex(a[0] * 0, b).info,
        "inv": lambda a, b: (linalg.inv(a), linalg.inv_ex(a)),
        "triangular": lambda a, b: linalg.solve_triangular(a.tril(), b, upper=False),
        "triangular_solve": lambda a, b: torch.triangular_solve(b, a.tril(), upper=False, transpose=True),
        "cholesky": lambda a, b: (linalg.cholesky(a), linalg.cholesky_ex(a, upper=True)),
        "cholesky_solve": lambda a, b: torch.cholesky_solve(b, linalg.cholesky(a)),
        "cholesky_inverse": lambda a, b: torch.cholesky_inverse(linalg.cholesky(a, upper=True), upper=True),
        "lu": lambda a, b: (*linalg.lu(a), *linalg.lu_factor(a), *torch.lu_unpack(*linalg.lu_factor(b))),
        "lu_solve": lambda a, b: linalg.lu_solve(*linalg.lu_factor(a), b, adjoint=True),
        "ldl": lambda a, b: (*linalg.ldl_factor(a), linalg.ldl_solve(*linalg.ldl_factor(a), b)),
        "negative power": lambda a, b: linalg.matrix_power(a, -3),
        "det": lambda a, b: (linalg.det(a), *linalg.slogdet(a)),
    }
    check(in_pairs(functions), regular(2, 4, 4, dtype=dtype), matrices(2, 4, 3, dtype=dtype))


@NUMBERS
def test_factors_and_spectra(dtype: torch.dtype) -> None:
    functions = {
        "qr": lambda a, b: (*linalg.qr(a), *linalg.qr(b, "complete"), *linalg.qr(b, "r")),
        "geqrf": lambda a, b: (*torch.geqrf(b), linalg.householder_product(*torch.geqrf(b))),
        "ormqr": lambda a, b: torch.ormqr(*torch.geqrf(b), a, left=False, transpose=True),
        "ormqr of few reflections": lambda a, b: torch.ormqr(b.mT, torch.geqrf(b[:, :3])[1], b.mT),
        "eigvalsh": lambda a, b: linalg.eigvalsh(a),
        "eigh": lambda a, b: (lambda w, v: v @ torch.diag_embed(w.sqrt()).to(v.dtype) @ v.mT.conj())(
            *linalg.eigh(a, "U")
        ),
        "svd": lambda a, b: (linalg.svdvals(b), linalg.svd(b, full_matrices=False).U.abs()),
        "svd with V": lambda a, b: (lambda u, s, v: (u[..., :3] * s[..., None, :]) @ v.mT.conj())(
            *torch.svd(b, some=False)
        ),
        "exp": lambda a, b: torch.matrix_exp(a),
        "pinv": lambda a, b: (linalg.pinv(b), linalg.pinv(a, hermitian=True), torch.pinverse(b, rcond=0.5)),
        "pinv of a tolerance": lambda a, b: linalg.pinv(b, atol=torch.tensor([0.5, 1.0]).to(a.real.dtype)),
        "rank": lambda a, b: (linalg.matrix_rank(b), linalg.matrix_rank(b, 1.5), linalg.matrix_rank(a, hermitian=True)),
        "cond": lambda a, b: (linalg.cond(a), linalg.cond(b, -2), linalg.cond(a, 1), linalg.cond(a, "nuc")),
    }
    if not IS_BEFORE_2_15:
        functions |= {"sqrth": lambda a, b: linalg.matrix_sqrth(a), "polar": lambda a, b: linalg.polar(b)}
    check(in_pairs(functions), regular(2, 4, 4, dtype=dtype), matrices(2, 4, 3, dtype=dtype))


@NUMBERS
def test_norms(dtype: torch.dtype) -> None:
    inf = float("inf")
    functions: dict[str, Callable[..., Any]] = {
        f"{order}": lambda a, order=order: (linalg.matrix_norm(a, order), linalg.norm(a, order, dim=(0, 2)))
        for order in ("fro", "nuc", 1, -1, 2, -2, inf, -inf)
    }
    functions |= {
        "kept": lambda a: linalg.matrix_norm(a, 1, dim=(2, 0), keepdim=True),
        "of all": lambda a: linalg.norm(a),
        "of vectors": lambda a: linalg.norm(a, 3, dim=1, keepdim=True),
        "of a matrix": lambda a: linalg.norm(a[0], 2),
    }
    check(in_pairs(functions), matrices(2, 3, 4, dtype=dtype))


def test_eigenvalues_of_real_matrices() -> None:
    def spectrum(a: torch.Tensor) -> torch.Tensor:
        values, vectors = linalg.eig(a)
        return torch.view_as_real((vectors * values) @ linalg.inv(vectors))

    check({"eig": spectrum, "abs": lambda a: linalg.eigvals(a).abs().sum()}, matrices(5, 5, dtype=torch.float64))


def test_tensors() -> None:
    functions = {
        "tensorinv": lambda a, b: linalg.tensorinv(a, ind=2),
        "tensorsolve": lambda a, b: linalg.tensorsolve(a, b),
        "cond of the singular": lambda a, b: (linalg.cond(b * 0 + 1, 1), linalg.cond(b * 0, "fro")),
        "logdet": lambda a, b: (torch.logdet(b[:, :2]), torch.logdet(b[:2, :2].flip(0)), torch.det(b[:0, :0])),
    }
    b = torch.tensor([[2.0, 1.0], [1.0, 3.0]], dtype=torch.float64)
    check(functions, matrices(2, 2, 4, dtype=torch.float64), b)


def test_matrices_without_elements() -> None:
    functions = {
        "factors": lambda a: (
            *linalg.svd(a, full_matrices=False),
            *linalg.qr(a),
            linalg.pinv(a),
            linalg.matrix_rank(a),
        ),
        "square": lambda a: (linalg.inv(a.mT @ a), linalg.det(a.mT @ a), linalg.eigvalsh(a.mT @ a)),
    }
    check(functions, torch.zeros(2, 3, 0))
    check({"batch": lambda a: (linalg.inv(a), linalg.svdvals(a), linalg.cholesky(a))}, torch.zeros(0, 3, 3))


def test_sizes_known_only_at_run_time() -> None:
    size = torch.export.Dim("size", min=2, max=100)
    functions = {
        "power": lambda a: linalg.matrix_power(a, 3) + linalg.matrix_power(a, 0),
        "vander": lambda a: linalg.vander(a),
        "solve": lambda a: linalg.solve(a, a[0]) + linalg.inv(a),
        "pinv": lambda a: linalg.pinv(a),
        "norm": lambda a: linalg.matrix_norm(a, "nuc"),
    }
    check(functions, regular(4, 4), dynamic=[{0: size, 1: size}], also=[(regular(7, 7),)], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", [(0, 0), (5, 0), (0, 4), (2, 0, 3)])
def test_norms_of_empty_matrices_are_zero(shape: tuple[int, ...]) -> None:
    functions = {}
    for order in (float("inf"), 1, 2, "fro", "nuc"):
        if order in (float("inf"), 1) and shape[-1 if order == 1 else -2] == 0:
            continue  # PyTorch refuses
        functions[str(order)] = lambda x, order=order: torch.linalg.matrix_norm(x, order)
        functions[f"{order}, dims kept"] = lambda x, order=order: torch.linalg.norm(x, order, (-2, -1), True)
    check(functions, torch.rand(shape))


@pytest.mark.parametrize("shapes", [((5, 3), (5, 2)), ((3, 5), (3, 2)), ((4, 4), (4,)), ((2, 5, 3), (2, 5))])
@pytest.mark.parametrize("driver", [None, "gels", "gelsy"])
def test_least_squares(driver, shapes):
    a, b = (torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) for shape in shapes)
    check(lambda a, b: tuple(torch.linalg.lstsq(a, b, driver=driver)), a, b)


def test_least_squares_of_less_than_full_rank():
    a, b = torch.arange(15, dtype=torch.float64).reshape(5, 3), torch.ones(5, 2, dtype=torch.float64)
    check(lambda a, b: tuple(torch.linalg.lstsq(a, b)), a, b)
    check(lambda a, b: tuple(torch.linalg.lstsq(a.T, b[:3], driver="gelsd")), a, b)


def test_least_squares_of_dynamic_sizes():
    def inputs(n, columns):
        a = torch.randn(n, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(n))
        return a[:, [0, 1, 0][:columns]], torch.linspace(-1, 1, 2 * n, dtype=torch.float64).reshape(n, 2)

    sizes = (7, 3), (2, 2), (1, 3), (3, 1)  # with three columns, the rank is less than the number of columns
    with warnings.catch_warnings():
        warnings.simplefilter("error", opbridge.TraceWarning)
        check(
            lambda a, b: tuple(torch.linalg.lstsq(a, b)),
            *inputs(5, 3),
            dynamic=[{0: "n", 1: "c"}, {0: "n"}],
            also=[inputs(*each) for each in sizes],
        )


def test_least_squares_written_to_given_tensors_are_refused():
    def function(a, b):
        outs = torch.zeros(3, 2), torch.zeros(2), torch.zeros((), dtype=torch.int64), torch.zeros(0)
        return torch.linalg.lstsq(a, b, out=outs)[0]

    with pytest.raises(opbridge.UnsupportedError, match=r"linalg_lstsq\.out"):
        check(function, torch.rand(5, 3), torch.rand(5, 2))


def test_residuals_that_depend_on_the_rank_are_refused():
    with pytest.raises(opbridge.UnsupportedError, match="lstsq"):
        check(lambda a, b: tuple(torch.linalg.lstsq(a, b, driver="gelsd")), torch.rand(5, 3), torch.rand(5, 2))


def test_results_that_no_mapping_gives_are_refused(tmp_path):
    class Factors(torch.nn.Module):
        def forward(self, x):
            return torch.ops.aten._linalg_det(x)

    for dtype in (torch.float32, torch.complex64):
        with pytest.raises(opbridge.UnsupportedError, match=r"_linalg_det.*result 2 of 3"):
            opbridge.export(Factors(), (torch.rand(3, 3, dtype=dtype),), tmp_path / "model.onnx")


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_tolerances_have_batch_dims_of_their_own(dtype: torch.dtype) -> None:
    x, square = matrices(4, 3, 2, dtype=dtype), matrices(3, 3, dtype=dtype)
    square = square @ square.mH
    bounds = torch.tensor([[0.001, 0.5, 0.9, 0.0], [0.3, 0.0, 0.7, 0.2]])
    functions = {
        "relative": lambda x, square, t: linalg.pinv(x, rcond=t),
        "absolute": lambda x, square, t: linalg.pinv(x, atol=t),
        "one": lambda x, square, t: linalg.pinv(x[0], rcond=t[0, :1]),
        "hermitian": lambda x, square, t: linalg.pinv(square, atol=t, hermitian=True),
    }
    check(in_pairs(functions), x, square, bounds)


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.bool])
def test_vander_of_integers_wraps_around(dtype):
    most = 1 if dtype == torch.bool else torch.iinfo(dtype).max
    x = torch.tensor([0, 1, most, most - 1]).to(dtype)
    check(
        {
            "falling": torch.vander,
            "rising": lambda x: torch.vander(x, 6, increasing=True),
        },
        x,
    )
    if dtype != torch.bool:
        check(lambda x: torch.linalg.vander(x, N=5), x)


def test_what_is_not_looked_at():
    check(lambda lu, pivots: torch.lu_unpack(lu, pivots, unpack_pivots=False), torch.eye(2), torch.zeros(3))
    check(lambda a, limits: torch.ops.aten.linalg_pinv(a, limits), torch.ones(1, 3, 0, 1, 1), torch.ones(1, 1, 1, 2, 1))


def test_rank_of_no_matrices_takes_any_tolerances():
    check(lambda a, tol: torch.linalg.matrix_rank(a, atol=tol), torch.empty(0, 4, 4), torch.empty(0, 4, 4))


def test_triangles_of_another_type_are_refused():
    """PyTorch reads both sides as the type of the first."""
    with pytest.raises(opbridge.UnsupportedError, match="the same element type"):
        check(lambda a, b: linalg.solve_triangular(a, b, upper=True), torch.eye(3), torch.zeros(3, 1).bfloat16())


def test_solutions_for_what_may_be_vectors_or_matrices_are_refused():
    a, b = torch.rand(2, 3, 3) + 3 * torch.eye(3), torch.rand(3, 1)
    check(linalg.solve, a, b)
    check(linalg.solve, a, b, dynamic=[{1: "n", 2: "n"}, {0: "n"}], also=[(torch.rand(2, 4, 4), torch.rand(4, 1))])
    with pytest.raises(opbridge.UnsupportedError, match="treats B as vectors"):
        check(linalg.solve, a, b, dynamic=[{0: "m", 1: "n", 2: "n"}, {0: "n", 1: "k"}])


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8])
def test_powers_of_integer_matrices_wrap_around(dtype):
    x = torch.tensor([[2**62 + 3, 3], [1, 2]]).to(dtype)
    check({f"{n}": lambda x, n=n: torch.linalg.matrix_power(x, n) for n in (0, 1, 2, 5)}, x)


def test_covariance_of_integers_whose_sums_wrap_around():
    x = torch.tensor([[2**62, 2**62, 2**62, 2**61], [7, 8, 5, 6]])
    weights = torch.tensor([1, 2, 3, 1])
    functions = {
        "cov": torch.cov,
        "counted": lambda x: torch.cov(x, fweights=weights),
        "weighted": lambda x: torch.cov(x // 2**40, aweights=weights / 2),
    }
    check(functions, x)
    check(torch.cov, torch.tensor([[200, 100], [3, 250]], dtype=torch.uint8))


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_correlations_beside_nan(capture, tmp_path):
    x = torch.tensor([[1.0, float("nan"), 2.0], [4.0, 0.5, 1.0], [3.0, 7.0, 1.5]])
    opbridge.export(lambda x: torch.corrcoef(x), (x,), tmp_path / "model.onnx", capture=capture, verify=True)


def test_a_norm_of_order_nan_is_refused():
    with pytest.raises(opbridge.UnsupportedError, match="the order of the norm is NaN"):
        check(lambda x: torch.norm(x, float("nan"), dim=0), torch.ones(3))


@pytest.mark.skipif(not hasattr(torch.ops.aten, "qr"), reason="this torch has removed them")
def test_factors_by_their_former_names() -> None:
    matrix = torch.randn(2, 3, 2)

    def factors(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        square = x.mT @ x + torch.eye(2)
        return torch.cholesky(square), torch.cholesky(square, upper=True), *torch.qr(x), *torch.qr(x, some=False)

    check(factors, matrix)
