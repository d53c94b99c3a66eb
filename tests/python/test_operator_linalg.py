"""The kernels of linear algebra in both hosts, against torch.linalg."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from operator_models import in_both_hosts, refused_by_both_hosts

import opbridge

DTYPES = [np.float32, np.float64, np.complex64, np.complex128]
BOTH = pytest.mark.parametrize("dtype", DTYPES)
SIZES = [(0, 0), (1, 1), (5, 5), (3, 0, 0), (0, 4, 4), (2, 3, 6, 6), (40, 40)]
LONG = [(5, 3), (3, 5), (9, 2), (2, 4, 7), (0, 3), (3, 0), (2, 0, 3)]


@pytest.fixture(scope="module", autouse=True)
def _loaded() -> None:
    opbridge.load_operators()


def random(shape: tuple[int, ...], dtype: type, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    values = rng.uniform(-1, 1, shape)
    if np.issubdtype(dtype, np.complexfloating):
        values = values + 1j * rng.uniform(-1, 1, shape)
    return values.astype(dtype)


def positive(shape: tuple[int, ...], dtype: type) -> np.ndarray:
    a = random(shape, dtype)
    return (a @ a.conj().swapaxes(-1, -2) + np.eye(shape[-1])).astype(dtype)


def hermitian(shape: tuple[int, ...], dtype: type) -> np.ndarray:
    a = random(shape, dtype)
    return a + a.conj().swapaxes(-1, -2)


def run(op: str, inputs: dict[str, np.ndarray], outputs: int, integers: tuple[int, ...] = (), **attributes):
    """The outputs of the kernel as torch tensors, complex if its first input is; ``integers`` are int32."""
    first = next(iter(inputs.values()))
    is_complex = np.iscomplexobj(first)
    real = first.real.dtype.type
    kinds = [np.int32 if i in integers else real for i in range(outputs)]
    given = {
        k: np.ascontiguousarray(v).view(real).reshape(*v.shape, 2) if np.iscomplexobj(v) else v
        for k, v in inputs.items()
    }
    return [torch.from_numpy(y) for y in in_both_hosts(op, given, outputs=kinds, complex=is_complex, **attributes)]


def numbers(result: torch.Tensor, like: np.ndarray) -> torch.Tensor:
    return torch.complex(result[..., 0], result[..., 1]) if np.iscomplexobj(like) else result


def close(actual: torch.Tensor, expected: torch.Tensor | np.ndarray) -> None:
    """Direct algorithms compute float32 in float64: only the last rounding differs from the exact result."""
    expected = torch.as_tensor(expected)
    single = actual.dtype in (torch.float32, torch.complex64)
    torch.testing.assert_close(
        actual, expected.to(actual.dtype), rtol=1e-5 if single else 1e-10, atol=1e-5 if single else 1e-10
    )


def near(actual: torch.Tensor, expected: torch.Tensor | np.ndarray) -> None:
    """Iterative algorithms compute in the element type, as PyTorch does: errors are relative to the largest number."""
    expected = torch.as_tensor(expected)
    largest = expected.abs().max().item() if expected.numel() else 0
    tolerance = (5e-6 if actual.dtype in (torch.float32, torch.complex64) else 1e-12) * max(1, largest)
    torch.testing.assert_close(actual, expected.to(actual.dtype), rtol=0, atol=tolerance)


def exact(a: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(a.astype(np.complex128 if np.iscomplexobj(a) else np.float64))


@BOTH
@pytest.mark.parametrize("shape", SIZES)
def test_cholesky(shape: tuple[int, ...], dtype: type) -> None:
    a = positive(shape, dtype)
    for upper in (False, True):
        factor, info = run("cholesky", {"A": a}, 2, (1,), upper=upper)
        close(numbers(factor, a), torch.linalg.cholesky(exact(a), upper=upper))
        assert not info.any()
        assert info.shape == shape[:-2]
    b = random((*shape[:-1], 3), dtype, 1)
    factor = torch.linalg.cholesky(torch.from_numpy(a)).numpy()
    (x,) = run("cholesky_solve", {"L": factor, "B": b}, 1)
    close(torch.from_numpy(a) @ numbers(x, a), b)


def test_cholesky_reads_one_triangle() -> None:
    a = positive((4, 4), np.float64)
    lower, _ = run("cholesky", {"A": np.tril(a) + np.triu(np.full((4, 4), np.nan), 1)}, 2, (1,))
    upper, _ = run("cholesky", {"A": np.triu(a) + np.tril(np.full((4, 4), np.nan), -1)}, 2, (1,), upper=True)
    close(lower, upper.mT)


def test_matrices_that_are_not_positive_definite() -> None:
    a = np.eye(5, dtype=np.float32)[None].repeat(3, 0)
    a[1, 2, 2] = -1
    _, info = run("cholesky", {"A": a}, 2, (1,), check_errors=False)
    assert info.tolist() == [0, 3, 0]
    a[2, 4, 0] = np.nan
    _, info = run("cholesky", {"A": a}, 2, (1,), check_errors=False)
    assert info.tolist() == [0, 3, 5]
    refused_by_both_hosts(
        "matrix 1 of the batch is not positive definite.* 3", "cholesky", {"A": a}, outputs=(np.float32, np.int32)
    )


@BOTH
@pytest.mark.parametrize("shape", [*SIZES, *LONG])
def test_lu(shape: tuple[int, ...], dtype: type) -> None:
    a = random(shape, dtype)
    lu, pivots, info = run("lu_factor", {"A": a}, 3, (1, 2))
    expected = torch.linalg.lu_factor_ex(exact(a))
    close(numbers(lu, a), expected.LU)
    assert torch.equal(pivots, expected.pivots)
    assert torch.equal(info, expected.info)
    factors = numbers(lu, a).numpy()
    results = run("lu_unpack", {"LU": factors, "pivots": pivots.numpy()}, 3)
    for part, wanted in zip(results, torch.linalg.lu(exact(a)), strict=True):
        close(numbers(part, a), wanted)


@BOTH
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("shape", SIZES)
def test_solve(shape: tuple[int, ...], left: bool, dtype: type) -> None:
    a = positive(shape, dtype)
    b = random((*shape[:-1], 3), dtype, 1)
    b = b if left else np.ascontiguousarray(b.swapaxes(-1, -2))
    x, info = run("solve", {"A": a, "B": b}, 2, (1,), left=left)
    close(numbers(x, a), torch.linalg.solve(exact(a), exact(b), left=left))
    assert not info.any()
    inverse, _ = run("solve", {"A": a}, 2, (1,))
    close(numbers(inverse, a), torch.linalg.inv(exact(a)))
    lu, pivots = torch.linalg.lu_factor(torch.from_numpy(a))
    for adjoint in (False, True):
        inputs = {"LU": lu.numpy(), "pivots": pivots.numpy(), "B": b}
        (x,) = run("lu_solve", inputs, 1, left=left, adjoint=adjoint)
        close(
            numbers(x, a),
            torch.linalg.lu_solve(*torch.linalg.lu_factor(exact(a)), exact(b), left=left, adjoint=adjoint),
        )


@BOTH
@pytest.mark.parametrize("upper", [True, False])
@pytest.mark.parametrize("unitriangular", [True, False])
@pytest.mark.parametrize("left", [True, False])
def test_solve_triangular(left: bool, unitriangular: bool, upper: bool, dtype: type) -> None:
    a = positive((2, 5, 5), dtype)
    b = random((2, 5, 5), dtype, 1)
    options = {"upper": upper, "left": left, "unitriangular": unitriangular}
    (x,) = run("solve_triangular", {"A": a, "B": b}, 1, **options)
    triangle = torch.triu(exact(a)) if upper else torch.tril(exact(a))
    close(numbers(x, a), torch.linalg.solve_triangular(triangle, exact(b), **options))


@BOTH
@pytest.mark.parametrize("shape", SIZES)
def test_determinant(shape: tuple[int, ...], dtype: type) -> None:
    a = random(shape, dtype)
    det, sign, log = run("determinant", {"A": a}, 3)
    close(numbers(det, a), torch.linalg.det(exact(a)))
    expected = torch.linalg.slogdet(exact(a))
    close(numbers(sign, a), expected.sign)
    close(log, expected.logabsdet)


def test_the_logarithm_of_a_determinant_beyond_all_numbers() -> None:
    a = 1e3 * np.eye(300)
    det, sign, log = run("determinant", {"A": a}, 3)
    assert det == np.inf
    assert sign == 1
    close(log, np.array(300 * np.log(1e3)))
    assert [y.item() for y in run("determinant", {"A": np.zeros((2, 2))}, 3)] == [0, 0, -np.inf]


@pytest.mark.parametrize(
    ("a", "expected"),
    [
        ([[1, np.inf], [2, 3]], [-np.inf, -1, np.inf]),
        ([[-np.inf, 0], [0, -2]], [np.inf, 1, np.inf]),
        ([[np.nan, 1], [1, 2]], [np.nan, 0, np.nan]),
        ([[0, 0], [np.nan, 0]], [np.nan, 0, np.nan]),  # below a pivot of zero
    ],
)
def test_determinants_of_infinities_and_nan(a: list[list[float]], expected: list[float]) -> None:
    for dtype in (np.float32, np.float64):
        found = run("determinant", {"A": np.array(a, dtype)}, 3)
        np.testing.assert_array_equal([y.item() for y in found], expected)
    det, sign, _ = run("determinant", {"A": np.array(a, np.complex128)}, 3)
    assert det.isnan().any()
    assert sign.isnan().all()


@BOTH
@pytest.mark.parametrize("shape", [*SIZES, *LONG])
def test_qr_has_the_signs_of_lapack(shape: tuple[int, ...], dtype: type) -> None:
    a = random(shape, dtype)
    for mode in ("reduced", "complete", "r"):
        results = run("qr", {"A": a}, 2, mode=mode)
        for ours, theirs in zip(results, torch.linalg.qr(exact(a), mode), strict=True):
            close(numbers(ours, a), theirs)
    factors, tau = run("geqrf", {"A": a}, 2)
    expected = torch.geqrf(exact(a))
    close(numbers(factors, a), expected.a)
    close(numbers(tau, a), expected.tau)


@BOTH
def test_householder_product(dtype: type) -> None:
    factors, tau = (t.numpy() for t in torch.geqrf(torch.from_numpy(random((2, 6, 4), dtype))))
    (q,) = run("householder_product", {"a": factors, "tau": tau}, 1)
    close(numbers(q, factors), torch.linalg.householder_product(exact(factors), exact(tau)))
    for left in (True, False):
        c = random((2, 6, 3) if left else (2, 3, 6), dtype, 1)
        for transpose in (True, False):
            (out,) = run("ormqr", {"a": factors, "tau": tau, "C": c}, 1, left=left, transpose=transpose)
            expected = torch.ormqr(exact(factors), exact(tau), exact(c), left, transpose)
            close(numbers(out, factors), expected)


@BOTH
@pytest.mark.parametrize("shape", SIZES)
def test_eigh(shape: tuple[int, ...], dtype: type) -> None:
    a = hermitian(shape, dtype)
    for upper in (False, True):
        one = np.triu(a) if upper else np.tril(a)
        values, vectors = run("eigh", {"A": one}, 2, upper=upper)
        near(values, torch.linalg.eigvalsh(exact(a)))
        v = numbers(vectors, a)
        near(v * values[..., None, :].to(v.dtype) @ v.mH, a)
        near(v.mH @ v, torch.eye(shape[-1]).expand(shape))


@BOTH
@pytest.mark.parametrize("shape", SIZES[:-1])
def test_eig(shape: tuple[int, ...], dtype: type) -> None:
    a = random(shape, dtype)
    values, vectors = (torch.complex(y[..., 0], y[..., 1]) for y in run("eig", {"A": a}, 2))
    expected = torch.linalg.eigvals(exact(a))
    distances = (values[..., :, None] - expected[..., None, :]).abs()
    if a.size:
        assert distances.min(-1).values.max() < 1e-5
        assert distances.min(-2).values.max() < 1e-5
        assert (vectors.norm(dim=-2) - 1).abs().max() < 1e-6
    near(torch.from_numpy(a).to(vectors.dtype) @ vectors, vectors * values[..., None, :])
    (only, _) = run("eig", {"A": a}, 2, vectors=False)
    near(torch.complex(only[..., 0], only[..., 1]), values)


def agreement(ours: torch.Tensor, theirs: torch.Tensor) -> float:
    """The fraction of columns that are equal, including their factors."""
    tolerance = 1e-3 if ours.dtype in (torch.float32, torch.complex64) else 1e-7
    return ((ours - theirs).abs().amax(-2) < tolerance).double().mean().item()


@BOTH
@pytest.mark.parametrize("size", [1, 2, 3, 5, 8])
def test_eigenvalues_and_eigenvectors_are_those_of_lapack(size: int, dtype: type) -> None:
    a = random((20, size, size), dtype, size)
    values, vectors = (torch.complex(y[..., 0], y[..., 1]) for y in run("eig", {"A": a}, 2))
    expected, theirs = torch.linalg.eig(torch.from_numpy(a))
    assert agreement(values[..., None, :], expected[..., None, :]) > 0.99  # in the same order
    # Rounding may decide whether the iteration makes another step, which may change the sign of a vector.
    assert agreement(vectors, theirs) > (0.75 if np.issubdtype(dtype, np.floating) else 0.99)


@BOTH
@pytest.mark.parametrize(
    "a",
    [
        np.zeros((4, 4)),
        np.eye(5),
        np.diag(np.ones(4), 1),  # defective
        np.diag([2.0, 2, 3]) + np.diag([1.0, 0], 1),
        np.array([[0, 0, 8.0], [1, 0, -14], [0, 1, 7]]),  # a companion matrix
        np.array([[0.0, 1], [1, 0]]),
        np.array([[0.0, -1], [1, 0]]),
        np.array([[2.0, -1, 0, 0], [-1, 2, -1, 0], [0, -1, 2, -1], [0, 0, -1, 2]]),
        np.triu(np.arange(16.0).reshape(4, 4)),
        np.tril(np.arange(16.0).reshape(4, 4)),
        np.array([[1, 0, 0, 4.0], [0, 2, 0, 0], [3, 0, 1, 0], [0, 5, 0, 6]]),  # to be permuted
        np.array([[1, 1e4, 0], [1e-4, 2, 1e3], [1e-2, 1, 3.0]]),  # to be scaled
        np.array([[1, 1e-3, 2e-22], [1e-3, 1e-6, 1e-22], [1e-23, 2e-22, 1e-22]]),
        np.array([[1, 2], [3, 4.0]]) * 1e-30,
        np.array([[1, 2], [3, 4.0]]) * 1e30,
    ],
)
def test_eigenvalues_of_certain_matrices(a: np.ndarray, dtype: type) -> None:
    a = a.astype(dtype)
    values, vectors = (torch.complex(y[..., 0], y[..., 1]) for y in run("eig", {"A": a}, 2))
    scale = np.abs(a).max() or 1
    near(values / scale, torch.linalg.eigvals(torch.from_numpy(a)) / scale)
    near(torch.from_numpy(a / scale).to(vectors.dtype) @ vectors, vectors * values / scale)


@BOTH
@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 16])
def test_eigenvectors_of_hermitian_matrices_have_the_factors_of_lapack(size: int, dtype: type) -> None:
    a = hermitian((10, size, size), dtype)
    single = dtype in (np.float32, np.complex64)
    for upper in (False, True):
        values, vectors = run("eigh", {"A": a}, 2, upper=upper)
        expected, theirs = torch.linalg.eigh(torch.from_numpy(a), "U" if upper else "L")
        near(values, expected)
        assert agreement(numbers(vectors, a), theirs) > (0.9 if single else 0.99)


@BOTH
@pytest.mark.parametrize(
    "a",
    [
        np.zeros((3, 3)),
        np.eye(4),
        np.ones((4, 4)),
        np.diag([3.0, 1, 2]),
        np.diag([1e-30, 1, 1e30]),
        np.diag(np.ones(5), 1) + np.diag(np.ones(5), -1),
        np.kron(np.eye(2), np.ones((2, 2))),
    ],
)
def test_eigh_of_certain_matrices(a: np.ndarray, dtype: type) -> None:
    a = a.astype(dtype)
    values, vectors = run("eigh", {"A": a}, 2)
    v = numbers(vectors, a)
    near(values, torch.linalg.eigvalsh(torch.from_numpy(a)))
    near(v * values[..., None, :].to(v.dtype) @ v.mH, a)
    near(v.mH @ v, torch.eye(len(a)))


@BOTH
@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("shape", [*SIZES, *LONG, (60, 20), (20, 60)])
def test_svd(shape: tuple[int, ...], full: bool, dtype: type) -> None:
    a = random(shape, dtype)
    u, s, vh = run("svd", {"A": a}, 3, full_matrices=full)
    u, vh = numbers(u, a), numbers(vh, a)
    near(s, torch.linalg.svdvals(exact(a)))
    k = min(shape[-2:])
    near(u[..., :k] * s[..., None, :].to(u.dtype) @ vh[..., :k, :], a)
    near(u.mH @ u, torch.eye(u.shape[-1]).expand(*shape[:-2], -1, -1))
    near(vh @ vh.mH, torch.eye(vh.shape[-2]).expand(*shape[:-2], -1, -1))
    _, only, _ = run("svd", {"A": a}, 3, vectors=False)
    near(only, s)


@BOTH
@pytest.mark.parametrize("shape", [(1, 1), (1, 4), (4, 1), (5, 5), (5, 4), (4, 5), (9, 2), (2, 9), (3, 5), (12, 12)])
def test_singular_vectors_have_the_signs_of_lapack(shape: tuple[int, int], dtype: type) -> None:
    a = random((10, *shape), dtype)
    u, s, vh = run("svd", {"A": a}, 3, full_matrices=False)
    expected = torch.linalg.svd(torch.from_numpy(a), full_matrices=False)
    near(s, expected.S)
    least = 0.85 if dtype in (np.float32, np.complex64) else 0.95
    assert agreement(numbers(u, a), expected.U) > least
    assert agreement(numbers(vh, a).mH, expected.Vh.mH) > least


@pytest.mark.parametrize(
    "a",
    [
        np.zeros((4, 4)),
        np.ones((5, 3)),
        np.diag([1, 1e-200, 0, 1e200]),
        np.eye(6),
        np.triu(np.ones((30, 30))),
        np.diag(np.ones(7), 1),
    ],
)
def test_singular_values_of_matrices_of_low_rank(a: np.ndarray) -> None:
    u, s, vh = run("svd", {"A": a}, 3, full_matrices=False)
    np.testing.assert_allclose(s, np.linalg.svd(a, compute_uv=False), rtol=1e-12, atol=1e-14 * a.max())
    np.testing.assert_allclose((u * s) @ vh, a, rtol=1e-12, atol=1e-13 * max(1, a.max()))
    close(u.mT @ u, torch.eye(u.shape[-1]))


@BOTH
@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_squares_neither_overflow_nor_vanish(scale: float, dtype: type) -> None:
    a = hermitian((4, 4), dtype)
    scaled = (a * scale).astype(dtype)
    u, s, vh = run("svd", {"A": scaled}, 3)
    near(numbers(u, a) * (s / scale).to(numbers(u, a).dtype) @ numbers(vh, a), a)
    values, v = run("eigh", {"A": scaled}, 2)
    near(values / scale, torch.linalg.eigvalsh(exact(a)))
    near(numbers(v, a).mH @ numbers(v, a), torch.eye(4))


@BOTH
@pytest.mark.parametrize("sign", [-1, 1])
def test_what_does_not_iterate_has_no_scale(sign: int, dtype: type) -> None:
    single = dtype in (np.float32, np.complex64)
    exponent = sign * (120 if single else 1000)
    unit, root = 2.0**exponent, 2.0 ** (exponent // 2)
    a, b, even = positive((6, 6), dtype), random((6, 2), dtype, 1), hermitian((6, 6), dtype)
    scaled, right = (a * unit).astype(dtype), (b * unit).astype(dtype)
    q, r = run("qr", {"A": scaled}, 2)
    close(numbers(q, a), torch.linalg.qr(exact(a)).Q)
    close(numbers(r, a) / unit, torch.linalg.qr(exact(a)).R)
    _, tau = run("geqrf", {"A": scaled}, 2)
    close(numbers(tau, a), torch.geqrf(exact(a)).tau)
    lu, pivots, _ = run("lu_factor", {"A": scaled}, 3, (1, 2))
    _, lower, upper = run("lu_unpack", {"LU": numbers(lu, a).numpy(), "pivots": pivots.numpy()}, 3)
    close(numbers(lower, a), torch.linalg.lu(exact(a)).L)
    close(numbers(upper, a) / unit, torch.linalg.lu(exact(a)).U)
    _, phase, log = run("determinant", {"A": scaled}, 3)
    close(numbers(phase, a), torch.linalg.slogdet(exact(a)).sign)
    close(log - 6 * np.log(unit), torch.linalg.slogdet(exact(a)).logabsdet)
    x, _ = run("solve", {"A": scaled, "B": right}, 2, (1,))
    close(numbers(x, a), torch.linalg.solve(exact(a), exact(b)))
    factor, info = run("cholesky", {"A": scaled}, 2, (1,))
    close(numbers(factor, a) / root, torch.linalg.cholesky(exact(a)))
    assert info == 0
    (x,) = run("cholesky_solve", {"L": numbers(factor, a).numpy(), "B": right}, 1)
    close(numbers(x, a), torch.linalg.solve(exact(a), exact(b)))
    for of_hermitian in (False, True):
        mirrored = np.tril(even, -1).swapaxes(-1, -2)
        symmetric = np.tril(even) + (mirrored.conj() if of_hermitian else mirrored)
        inputs = {"A": (symmetric * unit).astype(dtype)}
        ld, pivots, _ = run("ldl_factor", inputs, 3, (1, 2), hermitian=of_hermitian)
        inputs = {"LD": numbers(ld, a).numpy(), "pivots": pivots.numpy(), "B": right}
        (x,) = run("ldl_solve", inputs, 1, hermitian=of_hermitian)
        close(numbers(x, a), torch.linalg.solve(exact(symmetric), exact(b)))


@pytest.mark.parametrize(("dtype", "unit"), [(np.float32, 2.0**-140), (np.float64, 2.0**-1060)])
def test_numbers_whose_inverse_overflows(dtype: type, unit: float) -> None:
    a = np.array([[4, 0, 0], [2, 8, 0], [1, 3, 2]], dtype)
    x = np.array([[1, 2], [3, -4], [5, 6]], dtype)
    unit = dtype(unit)
    (found,) = run("solve_triangular", {"A": a * unit, "B": a @ x * unit}, 1, upper=False)
    close(found, x)
    inputs = {"A": a * unit, "B": np.ascontiguousarray(x.T @ a) * unit}
    (found,) = run("solve_triangular", inputs, 1, upper=False, left=False)
    close(found, x.T)
    found, _ = run("solve", {"A": a * unit, "B": a @ x * unit}, 2, (1,))
    close(found, x)
    q, r = run("qr", {"A": a * unit}, 2)
    close(q.mT @ q, torch.eye(3))
    np.testing.assert_allclose(r.numpy() / unit, torch.linalg.qr(exact(a)).R, atol=1e-3)
    u, s, vh = run("svd", {"A": a * unit}, 3)
    np.testing.assert_allclose(s.numpy() / unit, np.linalg.svd(a, compute_uv=False), rtol=1e-3)
    near(u.mT @ u, torch.eye(3))
    near(vh @ vh.mT, torch.eye(3))


def test_complex_numbers_whose_size_overflows() -> None:
    a = np.array([[1, 0.3], [0.2, -0.4]]) * (1.5 + 1.5j)
    values, _ = run("eig", {"A": a * 2.0**1023}, 2)
    close(torch.complex(values[..., 0], values[..., 1]) / 2.0**1023, torch.linalg.eigvals(exact(a)))
    h = np.array([[0.5, 1.5 - 1.5j], [1.5 + 1.5j, 0.25]])
    _, vectors = run("eigh", {"A": h * 2.0**1023}, 2)
    _, expected = run("eigh", {"A": h}, 2)
    close(vectors, expected)


@BOTH
@pytest.mark.parametrize("scale", [1e-3, 1, 20])
def test_matrix_exp(scale: float, dtype: type) -> None:
    a = (scale * random((3, 5, 5), dtype)).astype(dtype)
    (out,) = run("matrix_exp", {"A": a}, 1)
    expected = torch.linalg.matrix_exp(exact(a))
    relative = (numbers(out, a) - expected).abs().amax((-1, -2)) / expected.abs().amax((-1, -2))
    assert relative.max() < (1e-6 if dtype in (np.float32, np.complex64) else 1e-11)


def test_matrix_exp_where_the_norm_overflows() -> None:
    (out,) = run("matrix_exp", {"A": np.array([[-1.5e308, 0], [1e308, -1.5e308]])}, 1)
    assert out.tolist() == [[0, 0], [0, 0]]
    (out,) = run("matrix_exp", {"A": np.array([[-1e200 + 0j, 0], [1e200, -1e200]])}, 1)
    assert not out.any()


@BOTH
@pytest.mark.parametrize("of_hermitian", [True, False])
@pytest.mark.parametrize("shape", SIZES)
def test_ldl(shape: tuple[int, ...], of_hermitian: bool, dtype: type) -> None:
    a = random(shape, dtype)
    a = a + (a.conj() if of_hermitian else a).swapaxes(-1, -2)
    ld, pivots, info = run("ldl_factor", {"A": a}, 3, (1, 2), hermitian=of_hermitian)
    expected = torch.linalg.ldl_factor_ex(exact(a), hermitian=of_hermitian)
    if shape[-1] < 40:  # above, LAPACK's blocks choose other pivots
        close(numbers(ld, a), expected.LD)
        assert torch.equal(pivots, expected.pivots)
    assert not info.any()
    b = random((*shape[:-1], 2), dtype, 1)
    inputs = {"LD": numbers(ld, a).numpy(), "pivots": pivots.numpy(), "B": b}
    (x,) = run("ldl_solve", inputs, 1, hermitian=of_hermitian)
    close(torch.from_numpy(a).to(torch.from_numpy(a).dtype) @ numbers(x, a), b)


@pytest.mark.parametrize(
    ("op", "outputs"),
    [("cholesky", 2), ("solve", 2), ("determinant", 3), ("eigh", 2), ("eig", 2), ("matrix_exp", 1), ("ldl_factor", 3)],
)
def test_matrices_that_are_not_square_are_refused(op: str, outputs: int) -> None:
    kinds = [
        np.int32 if (op, i) in {("cholesky", 1), ("solve", 1), ("ldl_factor", 1), ("ldl_factor", 2)} else np.float32
        for i in range(outputs)
    ]
    refused_by_both_hosts("A must be square", op, {"A": np.zeros((2, 3), np.float32)}, outputs=kinds)
    refused_by_both_hosts("A must have at least 2 dims", op, {"A": np.zeros(3, np.float32)}, outputs=kinds)


def test_what_does_not_fit_is_refused() -> None:
    a, b = np.eye(3), np.zeros((2, 1))
    refused_by_both_hosts("B must have as many rows", "solve", {"A": a, "B": b}, outputs=(np.float64, np.int32))
    refused_by_both_hosts("singular", "solve", {"A": np.zeros((2, 2))}, outputs=(np.float64, np.int32))
    refused_by_both_hosts(
        "its last dim must be 2", "svd", {"A": np.zeros((2, 2, 3))}, outputs=(np.float64,) * 3, complex=True
    )
    pivots = np.array([1, 9, 3], np.int32)
    inputs = {"LU": a, "pivots": pivots, "B": a}
    refused_by_both_hosts("pivots must be 1-based rows", "lu_solve", inputs)
    inputs = {"LD": a, "pivots": np.array([1, 2, -1], np.int32), "B": a}
    refused_by_both_hosts("must come in pairs", "ldl_solve", inputs)
    inputs = {"a": np.zeros((3, 2)), "tau": np.zeros(3)}
    refused_by_both_hosts("tau must not be longer", "householder_product", inputs)
    refused_by_both_hosts("mode must be", "qr", {"A": a}, outputs=(np.float64,) * 2, mode="some")


@pytest.mark.parametrize(("op", "outputs"), [("svd", 3), ("eig", 2), ("eigh", 2)])
def test_iterations_refuse_nan(op: str, outputs: int) -> None:
    refused_by_both_hosts("NaN", op, {"A": np.full((3, 3), np.nan)}, outputs=(np.float64,) * outputs)
