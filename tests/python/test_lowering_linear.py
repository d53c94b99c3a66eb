"""Products of vectors and matrices, tensordot and einsum."""

import pytest
import torch
from lowering_check import check

import opbridge
from opbridge import UnsupportedError


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.float16])
def test_outer_products(dtype):
    functions = {
        "outer": torch.outer,
        "ger": torch.ger,
        "promoted": lambda a, b: torch.outer(a, b.double()),
        "tensordot": lambda a, b: torch.tensordot(a.reshape(2, 3), b.reshape(3, 1), 1),
        "no dims": lambda a, b: torch.tensordot(a, b, 0),
        "all dims": lambda a, b: torch.tensordot(a.reshape(2, 3), a.reshape(3, 2), ([0, 1], [1, 0])),
        "dim of size 1": lambda a, b: torch.tensordot(a.reshape(6, 1), b.reshape(1, 3), ([1], [1])),
        "negative dims": lambda a, b: torch.tensordot(a.reshape(3, 2), b.reshape(3, 1), ([-2], [0])),
        "no terms": lambda a, b: torch.tensordot(a[:0].reshape(2, 0), b[:0].reshape(0, 3), 1),
    }
    check(functions, torch.randint(0, 5, (6,)).to(dtype), torch.randint(0, 5, (3,)).to(dtype))


@pytest.mark.parametrize("product", [torch.matmul, torch.linalg.matmul, torch.bmm])
def test_products_of_two_types_without_terms(product, tmp_path):
    """PyTorch refuses them if there are terms, and torch.export refuses all."""
    for args in (
        (torch.rand(1, 2, 0).bfloat16(), torch.zeros(1, 0, 3, dtype=torch.uint8)),
        (torch.rand(1, 0, 2), torch.zeros(1, 2, 3, dtype=torch.int64)),
    ):
        opbridge.export(product, args, tmp_path / "model.onnx", capture="trace", verify=True)


def test_trilinear_of_an_axis_of_one_factor():
    """PyTorch sums that factor before it multiplies."""

    def summed(a, b, c):
        last = torch.ops.aten._trilinear(a, b, c, [1, 3], [2, -1], [1, 2], [2, 3])
        unrolled = torch.ops.aten._trilinear(a, b, c, [1, 3], [2, -1], [1, 2], [1, -2], 2)
        return last, unrolled

    inf = torch.inf
    check(summed, torch.tensor([[1.0, 2.0]]), torch.tensor([[-inf]]), torch.tensor([[0.0, 1.0]]))
    check(summed, torch.rand(2, 3), torch.rand(2, 4), torch.rand(2, 5))


def test_trilinear_beside_infinities():
    def product(a, b, c):
        return torch.ops.aten._trilinear(a, b, c, [1, 3], [0], [1, 2], [2, 3])

    check(product, torch.tensor([[0.0, 1.0]]), torch.ones(1, 1, 1), torch.tensor([[float("inf")]]))
    check(product, torch.rand(2, 3), torch.rand(1, 3, 4), torch.rand(2, 4))


def test_trilinear_of_a_factor_that_may_be_empty_is_refused():
    """PyTorch's result has the rows of the last factor."""

    def product(a, b, c):
        return torch.ops.aten._trilinear(a, b, c, [], [], [], [1])

    check(product, torch.rand(0, 3), torch.rand(1, 3), torch.rand(1, 3))
    check(product, *torch.rand(3, 4, 3), dynamic=({0: "n"},) * 3, also=[tuple(torch.rand(3, 0, 3))])
    with pytest.raises(UnsupportedError, match=r"the factors have the sizes .* and 1"):
        check(product, torch.rand(0, 3), torch.rand(1, 3), torch.rand(1, 3), dynamic=({0: "n"}, {}, {}))


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_einsum_of_nothing(dtype):
    """ONNX Runtime ends the process for the diagonal of a tensor without elements."""
    functions = {
        equation: lambda x, equation=equation: torch.einsum(equation, x)
        for equation in ("iji->j", "iji->ij", "ijk->ik")
    }
    check(functions, torch.ones(2, 0, 2, dtype=dtype))
    check(functions, torch.ones(0, 3, 0, dtype=dtype))
    check(
        {name: lambda x, f=f: f(x[:, 2:]) for name, f in functions.items()},
        torch.ones(2, 5, 2, dtype=dtype),
        dynamic=({1: "n"},),
        also=[(torch.ones(2, 2, 2, dtype=dtype),)],
    )


@pytest.mark.parametrize("opset", [13, 21])
def test_einsum(opset):
    functions = {
        equation: lambda a, b, equation=equation: torch.einsum(equation, a, b)
        for equation in (
            "...ij,...jk->...ik",
            "bij,...jk->ik",
            "...ij,...jk->...",
            "...ij,...jk",
            "b...,jk->b",
            "bij,jk",
        )
    }
    check(
        functions,
        torch.randn(2, 3, 4),
        torch.randn(4, 5),
        opset=opset,
        dynamic=({0: torch.export.Dim.DYNAMIC}, {}),
        also=[(torch.randn(3, 3, 4), torch.randn(4, 5))],
    )


@pytest.mark.parametrize(
    "equation",
    [
        "bij,bkj->bik",
        "bji, bki -> kjb",
        "ijb,kjb->bki",
        "bi,bij->bj",
        "bij,bj->ib",
        "bahi,bhai->ahb",
        "bahi,ihc->bca",
        "bahi,chi->abc",
        "hi,bahi->ba",
        "bha,cih->baci",
        "bahi,ahbi->haib",
        "bahi,bchj->bhc",
        "ai,bahi->h",
        "bij,bkj,bk->bi",
        "bai,bih,bh,ca->cb",
    ],
)
def test_einsum_of_matrices(equation):
    sizes = {"a": 2, "c": 5, "h": 3, "i": 4, "j": 2, "k": 3}
    terms = equation.replace(" ", "").split("->")[0].split(",")

    def tensors(batch):
        return [torch.randn([(sizes | {"b": batch})[letter] for letter in term]) for term in terms]

    dynamic = [{term.index("b"): "batch"} if "b" in term else {} for term in terms]
    function = {equation: lambda *tensors: torch.einsum(equation, *tensors)}
    check(function, *tensors(2), dynamic=tuple(dynamic), also=[tensors(1), tensors(3), tensors(0)])


@pytest.mark.parametrize("equation", ["bij,bjk->bik", "bij,bkj->ki", "bij,bij->ib", "bij,bjk,bj->k"])
def test_einsum_broadcasts_a_size_of_1(equation):
    terms = equation.split("->")[0].split(",")

    def tensors(batch):
        return [torch.randn([1 if i == 0 else batch, *[3] * (len(term) - 1)]) for i, term in enumerate(terms)]

    function = {equation: lambda *tensors: torch.einsum(equation, *tensors)}
    dynamic = tuple({} if i == 0 else {0: "batch"} for i in range(len(terms)))
    check(function, *tensors(2), dynamic=dynamic, also=[tensors(1), tensors(4)])


def test_einsum_of_different_ranks():
    check(
        {
            "two and one": lambda a, b: torch.einsum("...i,...i->...", a, b),
            "capitals": lambda a, b: torch.einsum("A...i,Bi->...AB", a, b),
            "broadcast": lambda a, b: torch.einsum("...i,...j->...ij", a[:1], b),
        },
        torch.randn(2, 3, 4),
        torch.randn(3, 4),
    )


def test_inner_products_of_any_ranks():
    x = torch.arange(8.0).reshape(2, 4)
    ranks = [x[0], x, torch.arange(60.0).reshape(3, 5, 4), torch.arange(48.0).reshape(2, 3, 2, 4)]
    for a in ranks:
        check({str(b.dim()): lambda a, b=b: torch.inner(a, b) for b in ranks}, a)


def test_factors_that_are_not_float32():
    x = torch.rand(3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    check(lambda x: torch.addmm(x, x, x, alpha=0.1, beta=1 / 3), x, rtol=1e-12, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64])
def test_products_that_a_factor_of_zero_hides(dtype):
    x = torch.tensor([[[torch.nan, 1], [2, torch.inf]]], dtype=dtype)
    functions = {
        "addmm": lambda y, x: torch.view_as_real(torch.addmm(y, x[0], x[0], alpha=0).to(torch.complex64)),
        "addbmm": lambda y, x: torch.view_as_real(torch.addbmm(y, x, x, alpha=0).to(torch.complex64)),
    }
    check(functions, torch.tensor([[1.0, 2], [3, 4]], dtype=dtype), x)
    if dtype == torch.float32:
        check(lambda y, x: torch.addmv(y[0], x[0], x[0, 0], alpha=0), torch.tensor([[1.0, 2], [3, 4]]), x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64])
def test_products_without_terms_are_zero_times_infinity_too(dtype):
    functions = {
        "addmm": lambda y, a, b: torch.addmm(y, a[0], b[0], alpha=torch.inf).abs(),
        "addmv": lambda y, a, b: torch.addmv(y[0], a[0], b[0, :, 0], alpha=torch.inf).abs(),
        "addbmm": lambda y, a, b: torch.addbmm(y, a, b, alpha=torch.inf).abs(),
        "baddbmm": lambda y, a, b: torch.baddbmm(y, a, b, alpha=torch.inf).abs(),
    }
    check(
        functions,
        torch.tensor([[1, 2], [3, 4]], dtype=dtype),
        torch.zeros(3, 2, 0, dtype=dtype),
        torch.zeros(3, 0, 2, dtype=dtype),
    )


@pytest.mark.parametrize("shape", [(), (0,), (1,)])
def test_a_product_without_elements_has_those_of_what_is_added(shape):
    """Where PyTorch's addmv returns the first argument."""
    functions = {f"{factor}": lambda y, a, v, factor=factor: torch.addmv(y, a, v, beta=factor) for factor in (0, 1, 2)}
    check(functions, torch.ones(shape), torch.zeros(0, 2), torch.randn(2))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_transposed_matrix_times_a_vector(dtype):
    """ONNX Runtime fuses these into a product that is not transposed."""
    functions = {
        "mv": lambda a, v: a.t().mv(v),
        "matmul": lambda a, v: (a.t() + 1) @ v,
        "of a batch": lambda a, v: torch.stack([a, -a]).mT @ v,
        "addmv": lambda a, v: torch.addmv(a[0], a.t(), v),
        "from the left": lambda a, v: v @ (a * 2).t().t(),
    }
    check(functions, torch.randn(5, 10, dtype=dtype), torch.randn(5, dtype=dtype))
    check(functions, torch.randn(5, 5, dtype=dtype), torch.randn(5, dtype=dtype), dynamic=[{0: "n"}, {0: "n"}])


def test_einsum_of_integers_whose_sums_wrap_around():
    x = torch.full((3, 3), 2**62)
    x[1] = torch.tensor([7, 2**63 - 1, 2])

    def of(equation):
        return lambda a, b: torch.einsum(equation, *[a, b][: equation.count(",") + 1])

    functions = {
        equation: of(equation)
        for equation in ("ij->j", "ii", "ij", "i i -> i", "ij->", "ij,kl->il", "ij,kj->", "ij,jk->k", "...i,...i")
    }
    functions |= {
        "narrow": lambda a, b: torch.einsum("ii", a.to(torch.uint8)),
        "one broadcasts": lambda a, b: torch.einsum("ij,kj->ik", a[:, :1], b),
        "both broadcast": lambda a, b: torch.einsum("ij,ij->i", a[:1], b[:, :1]),
        "a number": lambda a, b: torch.einsum("ij,->i", a, b[0, 1]),
        "three": lambda a, b: torch.einsum("ij,jk,lm->im", a, b, b),
        "diagonals of two": lambda a, b: torch.einsum("iji,kk->j", a[..., None].expand(3, 3, 3), b),
    }
    check(functions, x, x.flip(1))


def scaled_by_recipes(dtype):
    def scaled(x, a, b, recipe, bias=None, out=torch.float32):
        matrices = x.to(dtype), x.to(torch.float8_e4m3fn).t()
        return torch.ops.aten._scaled_mm_v2(*matrices, [a], [recipe[0]], [], [b], [recipe[1]], [], bias, out)

    return {
        "by numbers": lambda x, a, b: scaled(x, a[0], b[0], (0, 0)),
        "by rows and columns": lambda x, a, b: scaled(x, a, b[None], (1, 1)),
        "with bias": lambda x, a, b: scaled(x, a, b[None], (1, 1), b.half(), torch.float16),
        "in float8": lambda x, a, b: scaled(x, a, b[None], (1, 1), None, None).float(),
    }


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_products_of_scaled_float8_matrices(dtype):
    def scaled(x, w, a, b, bias=None, out=torch.float32):
        return torch._scaled_mm(x.to(dtype), w.to(torch.float8_e4m3fn).t(), a, b, bias=bias, out_dtype=out)

    bias = torch.randn(16)
    functions = {
        "by numbers": lambda x, w, a, b: scaled(x, w, a[0, 0], b[0, 0]),
        "by rows and columns": scaled,
        "with bias": lambda x, w, a, b: scaled(x, w, a, b, bias),
        "in float16": lambda x, w, a, b: scaled(x, w, a, b, bias.half(), torch.float16),
        "in float8": lambda x, w, a, b: scaled(x, w, a, b, None, None).float(),
    }
    check(
        functions, torch.randn(16, 32), torch.randn(16, 32), torch.rand(16, 1), torch.rand(1, 16), rtol=2e-3, atol=2e-3
    )
    if hasattr(torch.ops.aten, "_scaled_mm_v2"):
        check(scaled_by_recipes(dtype), torch.randn(16, 32), torch.rand(16, 1), torch.rand(16), rtol=2e-3, atol=2e-3)
    with pytest.raises(UnsupportedError, match="scale_result"):
        check(
            lambda x, a: torch._scaled_mm(x.to(dtype), x.to(torch.float8_e4m3fn).t(), a, a, scale_result=a).float(),
            *(torch.randn(16, 32), torch.tensor(0.5)),
        )
