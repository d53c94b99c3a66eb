import math

import pytest
import torch
from lowering_check import check, operators

INTEGERS = [torch.int64, torch.int32, torch.uint8, torch.int8, torch.bool]

SUMS = {
    "sum": lambda x: x.sum(),
    "sum over one": lambda x: x.sum(1),
    "sum over no dims named": lambda x: x.sum(()),
    "sum over two": lambda x: x.sum((0, -1), keepdim=True),
    "sum as int32": lambda x: x.sum(1, dtype=torch.int32),
    "prod": lambda x: x.prod(),
    "prod over one": lambda x: x.prod(1, keepdim=True),
    "count_nonzero": lambda x: torch.count_nonzero(x > 0),
    "count_nonzero over one": lambda x: torch.count_nonzero(x, 1),
    "count_nonzero over two": lambda x: torch.count_nonzero(x, (0, -1)),
}
TRUTHS = {
    "any": lambda x: (x > 0).any(),
    "any over one": lambda x: x.any(1),
    "any over two": lambda x: torch.any(x, (0, 1), keepdim=True),
    "any over none": lambda x: torch.ops.aten.any.dims(x, []),
    "all": lambda x: x.all(),
    "all over one": lambda x: (x > 0).all(-1, keepdim=True),
}
EXTREMA = {
    "amax": lambda x: x.amax(),
    "amax over one": lambda x: x.amax(1),
    "amin over two": lambda x: x.amin((0, 1), keepdim=True),
    "max": lambda x: x.max(),
    "min": lambda x: x.min(),
    "aminmax": lambda x: tuple(torch.aminmax(x)),
    "aminmax over one": lambda x: tuple(torch.aminmax(x, dim=1, keepdim=True)),
}
PLACES = {
    "max over one": lambda x: tuple(x.max(1)),
    "min over one": lambda x: tuple(x.min(-1, keepdim=True)),
    "argmax": lambda x: x.argmax(),
    "argmin over one": lambda x: x.argmin(1),
    "argmax over one": lambda x: x.argmax(1, keepdim=True),
    "argmax keeping dims": lambda x: torch.argmax(x, None, True),
}
OF_FLOATS = {
    "mean": lambda x: x.mean(),
    "mean over one": lambda x: x.mean(-1),
    "mean over two": lambda x: x.mean((0, 2), keepdim=True),
    "var": lambda x: x.var(),
    "var over one": lambda x: x.var(1),
    "var of the population": lambda x: x.var(1, unbiased=False),
    "var with correction": lambda x: x.var((0, 1), correction=2, keepdim=True),
    "std": lambda x: x.std(),
    "std over one": lambda x: x.std(-1),
    "var_mean": lambda x: torch.var_mean(x),
    "var_mean over one": lambda x: torch.var_mean(x, 1),
    "std_mean": lambda x: torch.std_mean(x, (0, 1), keepdim=True),
    "logsumexp": lambda x: torch.logsumexp(x, 1),
    "logsumexp over two": lambda x: torch.logsumexp(x, (0, 1), True),
    "norm": lambda x: x.norm(),
    "norm 1": lambda x: x.norm(1, 1),
    "vector norm 3": lambda x: torch.linalg.vector_norm(x, 3, (0, 1)),
    "greatest": lambda x: torch.linalg.vector_norm(x, math.inf),
    "least": lambda x: torch.linalg.vector_norm(x, -math.inf, 1),
    "how many": lambda x: torch.linalg.vector_norm(x, 0, 1),
    "norm in float64": lambda x: torch.linalg.vector_norm(x, 2, 1, dtype=torch.float64),
    "nansum": lambda x: torch.nansum(x),
    "nanmean": lambda x: torch.nanmean(x, 1),
}
ALL = SUMS | TRUTHS | EXTREMA | PLACES | OF_FLOATS


def numbers():
    return torch.randn(3, 4, 5, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("opset", [13, 17, 21])
def test_opsets(opset):
    check(ALL, numbers(), opset=opset)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_other_floats(dtype):
    tolerance = {"rtol": 4e-3, "atol": 4e-3} if dtype == torch.float16 else {}
    # bfloat16's products of 60 numbers: PyTorch rounds after each factor.
    functions = {name: f for name, f in ALL.items() if name != "prod"}
    check(functions, numbers().to(dtype), **tolerance)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers(dtype):
    functions = SUMS | TRUTHS | EXTREMA | PLACES
    if dtype == torch.bool:
        functions = {name: f for name, f in functions.items() if not name.startswith("arg")}
    check(functions, (numbers() * 1.7).abs().to(dtype))


def test_nan_wins():
    x = numbers()
    x[1, 2, 3] = math.nan
    x[2, 0, 0] = -math.nan
    check(EXTREMA | PLACES | {name: OF_FLOATS[name] for name in ("mean", "nansum", "nanmean", "greatest")}, x)
    x[1, 2, 0] = x[0, 0, 1] = math.inf
    x[0, 0, 0] = math.nan
    check({name: OF_FLOATS[name] for name in ("logsumexp", "logsumexp over two")}, x)


def test_infinity():
    x = numbers()
    x[0, 0, 0], x[1, :, :] = math.inf, -math.inf
    check(EXTREMA | PLACES | {name: OF_FLOATS[name] for name in ("logsumexp", "logsumexp over two")}, x)


def test_dynamic_shapes():
    sizes = ({0: "a", 1: "b", 2: "c"},)
    check(ALL, numbers(), dynamic=sizes, also=[(torch.randn(2, 6, 3),)])


def test_no_dims():
    functions = {
        "sum": lambda x: x.sum(),
        "sum over one": lambda x: x.sum(0, keepdim=True),
        "mean": lambda x: x.mean(-1),
        "prod": lambda x: x.prod(),
        "max": lambda x: tuple(x.max(0)),
        "argmax": lambda x: x.argmax(),
        "argmin over one": lambda x: x.argmin(0, keepdim=True),
        "any": lambda x: x.any(0),
        "var": lambda x: x.var(),
        "logsumexp": lambda x: torch.logsumexp(x, 0),
        "norm": lambda x: x.norm(),
    }
    check(functions, torch.tensor(2.5))


def test_no_elements():
    functions = {
        "sum": lambda x: x.sum(),
        "sum over one": lambda x: x.sum(0),
        "sum over others": lambda x: x.sum(1),
        "mean": lambda x: x.mean(0),
        "mean over others": lambda x: x.mean(1),
        "prod": lambda x: x.prod(0),
        "any": lambda x: x.any(0),
        "all": lambda x: x.all(),
        "var": lambda x: x.var(0),
        "amax": lambda x: x.amax(1),
        "norm": lambda x: x.norm(),
        "norm except dim": lambda x: torch.norm_except_dim(x, 2, 1),
        "logsumexp": lambda x: torch.logsumexp(x, 0),
    }
    check(functions, torch.ones(0, 3))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_norm_except_dim(dtype):
    functions = {
        "of the first": lambda x: torch.norm_except_dim(x),
        "1 of the second": lambda x: torch.norm_except_dim(x, 1, -2),
        "0 of the last": lambda x: torch.norm_except_dim(x, 0, 2),
        "of all": lambda x: torch.norm_except_dim(x, 2, -1),
        "of each element": lambda x: torch.norm_except_dim(x[0, 0], 2, 0),
    }
    check(functions, numbers().to(dtype))


def test_variance_of_too_few():
    check({"one": lambda x: x.var(0), "less": lambda x: x.var(1, correction=4)}, torch.randn(1, 3))
    check(lambda x: (x[:0].var(correction=-1), x[:, :0].var(1, correction=-2)), torch.randn(1, 3))
    check(lambda x: x.var(1, correction=-2), torch.randn(1, 3), dynamic=[{1: "n"}], also=[(torch.randn(1, 0),)])


def test_means_of_numbers_beyond_the_type_of_the_result():
    x = torch.tensor([[70000.0, -69000.0, 0.1], [1.0, 2.0, 3.0]])
    check(lambda x: (x.mean(dtype=torch.float16), x.mean(1, dtype=torch.float16), x.mean(0, dtype=torch.bfloat16)), x)


def test_shortest_form():
    x = torch.randn(2, 3)
    assert operators(check(lambda x: x.mean(-1), x)) == ["ReduceMean"]
    assert operators(check(lambda x: x.sum(), x)) == ["ReduceSum"]
    assert operators(check(lambda x: x.int().amax(1), x)) == ["Cast", "ReduceMax"]


def test_many_elements():
    """A sum for which a running float32 sum is inaccurate."""
    x = torch.rand(600, 700, generator=torch.Generator().manual_seed(0)) + 1000
    functions = {
        "mean": lambda x: x.mean(),
        "sum": lambda x: x.sum(),
        "std": lambda x: x.std(),
        "var": lambda x: torch.var_mean(x, correction=0),
        "loss": lambda x: torch.nn.functional.mse_loss(x, x * 2),
        "running sum": lambda x: x.flatten().cumsum(0)[-1],
    }
    check(functions, x)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 1e-2)])
@pytest.mark.parametrize("size", [1e30, 1e19, 1e-30])
def test_deviations_whose_squares_are_out_of_range(size, dtype, tolerance):
    functions = {
        "over one": lambda x: x.std(1),
        "over the other": lambda x: x.std(0, correction=0),
        "with the mean": lambda x: torch.std_mean(x, (0, 1)),
    }
    x = (numbers()[0] * size).to(dtype)
    check(functions, x, dynamic=({0: "n"},), also=[(x[1:],)], rtol=tolerance, atol=0)


def test_elements_of_which_data_decide_that_there_are_none():
    functions = {
        "mean": lambda x: x[x > 1].mean(),
        "of rows": lambda x: x[x.sum(1) > 3].mean(0),
        "var": lambda x: x[x > 1].var(correction=0),
        "loss": lambda x: torch.nn.functional.l1_loss(y := x[x > 1], y * 2),
        "any": lambda x: (x[x > 1] > 2).any(),
        "median": lambda x: x[x > 1].sort().values,
        "running product": lambda x: x[x.sum(1) > 3].cumprod(0),
        "product": lambda x: x[x.sum(1) > 3] @ torch.arange(3.0),
    }
    x = torch.arange(6.0).reshape(2, 3)
    check(functions, x, also=[(x * 0,), (x - 2,)])


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int8])
def test_integers_wrap_around(dtype):
    big = torch.iinfo(dtype).max
    x = torch.tensor([[big, 3, 7], [big, big, 2], [5, big // 2, 9], [-3, big, big]], dtype=dtype)
    functions = {
        "sum": lambda x: x.sum(),
        "sum over one": lambda x: x.sum(1, keepdim=True),
        "sum over two": lambda x: x[None].sum((0, 2)),
        "sum in its type": lambda x: x.sum(0, dtype=x.dtype),
        "prod": lambda x: x.prod(),
        "prod over one": lambda x: x.prod(0),
        "prod in its type": lambda x: x.prod(1, keepdim=True, dtype=x.dtype),
        "cumsum": lambda x: x.cumsum(0),
        "cumprod": lambda x: x.cumprod(1),
        "cumprod in its type": lambda x: x.cumprod(0, dtype=x.dtype),
        "square": lambda x: x**2,
        "pow": lambda x: x**3,
        "pow of tensors": lambda x: x ** x.clamp(0, 9),
        "matmul": lambda x: x @ x.t(),
        "trace": lambda x: x[:3].trace(),
        "sum to a size": lambda x: x.sum_to_size(1, 3),
        "tensordot": lambda x: torch.tensordot(x, x[:, :1], ([0, 1], [0, 1])),
    }
    check(functions, x, dynamic=[{0: torch.export.Dim.DYNAMIC}], also=[(x.flip(1)[1:],)])
    check({name: function for name, function in functions.items() if "sum" in name}, x, opset=13)


def test_integers_that_float64_cannot_hold():
    x = torch.tensor([[2**53 + 1, 2, 0], [2**60 + 1, 2, 5]])
    check({"sum": lambda x: x.sum(1), "prod": lambda x: x[:, :1].prod(1)}, x)
    empty = torch.zeros(0, 3, dtype=torch.int64)
    check({"sum": lambda x: x.sum(0), "prod": lambda x: x.prod(0), "all": lambda x: x.sum()}, empty)


def test_norm_of_one_number_takes_no_power():
    functions = {
        f"norm {order}": lambda x, order=order: torch.linalg.vector_norm(x, order, 1) for order in (0, 0.5, 1, 2, 3)
    }
    functions["cosine"] = lambda x: torch.cosine_similarity(x, x, eps=0.0)
    check(functions, torch.tensor([[1e30], [-1e-30], [2.5]]), rtol=1e-6, atol=0)


def test_norms_of_one_number_take_no_power():
    functions = {str(p): lambda x, p=p: (torch.norm(x, p), torch.linalg.vector_norm(x, p)) for p in (2, 3, 100, 0.01)}
    check(functions, torch.tensor(-2.5e20))


def test_norm_of_sizes_that_come_to_one_number():
    functions = {str(p): lambda x, p=p: (torch.norm(x, p), torch.linalg.vector_norm(x, p, 1)) for p in (1, 2, 3, 2**31)}
    one = torch.full((1, 1), 3.5e25)
    check(functions, torch.rand(2, 3) + 0.5, dynamic=[{0: "n", 1: "m"}], also=[(one,), (one.expand(2, 1) / 1e25,)])


@pytest.mark.parametrize("opset", [13, 28])
def test_logsumexp_of_large_numbers(opset):
    of_floats = {"one": lambda x: torch.logsumexp(x, 1), "all": lambda x: torch.logsumexp(x, (0, 1), keepdim=True)}
    check(of_floats, torch.tensor([[9.2e18, 9.1e18], [-3e38, 3e38], [-math.inf, -math.inf]]), opset=opset)
    check(of_floats, torch.tensor([[9223372036854775806, 3], [100, 101]]), opset=opset)
