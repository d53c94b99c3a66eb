import math

import pytest
import torch
import torch.nn.functional as F
from lowering_check import check, operators

import opbridge

NUMBERS = [-30.0, -7.0, -3.0, -2.5, -1.0, -0.5, -0.1, -1e-5, 0.0, 1e-5, 0.1, 0.5, 1.0, 2.5, 3.0, 19.0, 21.0, 40.0]
FUNCTIONS = {
    "celu": F.celu,
    "celu 0.7": lambda x: F.celu(x, 0.7),
    "elu": F.elu,
    "elu 0.7": lambda x: F.elu(x, 0.7),
    "gelu tanh": lambda x: F.gelu(x, approximate="tanh"),
    "hardshrink": F.hardshrink,
    "hardsigmoid": F.hardsigmoid,
    "hardswish": F.hardswish,
    "hardtanh": lambda x: F.hardtanh(x, -2, 0.3),
    "leaky_relu": F.leaky_relu,
    "logsigmoid": F.logsigmoid,
    "mish": F.mish,
    "relu": F.relu,
    "relu6": F.relu6,
    "rrelu": F.rrelu,
    "selu": F.selu,
    "silu": F.silu,
    "softplus": F.softplus,
    "gelu": F.gelu,
    "softplus with threshold": lambda x: F.softplus(x, 2.0, 3.0),
    "softshrink": F.softshrink,
    "softsign": F.softsign,
    "tanhshrink": F.tanhshrink,
    "threshold": lambda x: F.threshold(x, 0.1, 20.0),
}


@pytest.mark.parametrize("opset", [13, 17, 21])
def test_float32(opset):
    check(FUNCTIONS, torch.tensor(NUMBERS), opset=opset)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_other_floats(dtype):
    # The formulas round several times in float16, PyTorch's functions once.
    tolerance = {"rtol": 4e-3, "atol": 1e-3} if dtype == torch.float16 else {}
    check(FUNCTIONS, torch.tensor(NUMBERS, dtype=dtype), **tolerance)


def test_nan_and_infinity():
    # With AVX-512, oneDNN's gelu of infinity is NaN.
    with torch.backends.mkldnn.flags(enabled=False):
        check(FUNCTIONS, torch.tensor([math.nan, math.inf, -math.inf]))


@pytest.mark.parametrize("bounds", [(math.nan, 1.0), (-1.0, math.nan), (math.nan, math.nan)])
def test_bounds_that_are_nan(bounds):
    check(lambda x: torch.ops.aten.hardtanh(x, *bounds), torch.tensor(NUMBERS))


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int8])
def test_integers(dtype):
    integers = torch.tensor([-9, -1, 0, 3, 7], dtype=dtype)
    check({"relu": F.relu, "relu6": F.relu6, "hardtanh": lambda x: F.hardtanh(x, -2, 3)}, integers)


@pytest.mark.parametrize("opset", [13, 21])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_softmax(dtype, opset):
    softmaxes = {
        "last": lambda x: F.softmax(x, -1),
        "first": lambda x: F.softmax(x, 0),
        "other type": lambda x: F.softmax(x, 1, dtype=torch.float64),
        "log": lambda x: F.log_softmax(x, 1),
        "min": lambda x: F.softmin(x, 1),
    }
    check(softmaxes, torch.randn(2, 3, 4).to(dtype), opset=opset)


def test_softmax_of_no_dims_and_no_elements():
    check(lambda x: F.softmax(x, 0), torch.tensor(3.0))
    check(lambda x: F.softmax(x, 0), torch.ones(0, 3))


def test_safe_softmax():
    hidden = torch.tensor([[1.0, 2.0, -math.inf], [-math.inf, -math.inf, -math.inf]])
    check(lambda x: torch.ops.aten._safe_softmax(x, -1), hidden)


@pytest.mark.parametrize(("shape", "slopes"), [((5,), 1), ((3, 2), 2), ((3, 2, 4), 2), ((3, 2, 4, 1), 1), ((), 1)])
def test_prelu(shape, slopes):
    check(F.prelu, torch.randn(shape), torch.rand(slopes))
    check(F.prelu, torch.randn(shape, dtype=torch.float64), torch.rand(slopes, dtype=torch.float64))


def test_glu():
    halves = {"middle": lambda x: F.glu(x, 1), "last": F.glu}
    check(halves, torch.randn(2, 4, 6), dynamic=({1: "pairs"},), also=[(torch.randn(2, 10, 6),)])


def test_dropout_in_evaluation_does_nothing():
    evaluated = {
        "dropout": lambda x: F.dropout(x + 1, 0.5, training=False),
        "alpha": lambda x: F.alpha_dropout(x + 1, 0.5, training=False),
        "channels": lambda x: F.dropout2d(x + 1, 0.5, training=False),
    }
    assert operators(check(evaluated, torch.randn(2, 3, 4, 4)))[0] == "Add"


def test_dropout_in_training_is_refused():
    with pytest.raises(opbridge.UnsupportedError, match=r"model\.eval\(\)"):
        check(lambda x: F.dropout(x, 0.5), torch.randn(3))


def test_dynamic_shape():
    some = {name: FUNCTIONS[name] for name in ("relu", "elu", "hardswish", "softplus")}
    check(some, torch.randn(2, 3), dynamic=({0: "rows", 1: "columns"},), also=[(torch.randn(4, 5),)])


@pytest.mark.parametrize(
    ("function", "opset", "expected"),
    [
        (F.relu, 21, ["Relu"]),
        (F.gelu, 21, ["Gelu"]),
        (F.gelu, 17, ["Div", "Erf", "Add", "Mul", "Mul"]),
        (F.silu, 21, ["Sigmoid", "Mul"]),
        (F.hardswish, 21, ["HardSwish"]),
        (F.relu6, 21, ["Clip"]),
    ],
)
def test_shortest_form(function, opset, expected):
    assert operators(check(function, torch.randn(3), opset=opset)) == expected


def test_no_number_overflows_that_does_not_in_pytorch():
    ends = torch.tensor([torch.finfo(torch.float64).max, -torch.finfo(torch.float64).max], dtype=torch.float64)
    check({"hardswish": F.hardswish, "gelu": F.gelu}, ends)


def test_softmax_of_no_integers():
    functions = {"softmax": lambda x: x.softmax(-1), "log_softmax": lambda x: x.log_softmax(-1)}
    check(functions, torch.zeros((1, 0, 3), dtype=torch.int64))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_softmax_of_nan_and_infinities(dtype):
    nan, inf = math.nan, math.inf
    x = torch.tensor([[0, nan], [nan, 0], [0, inf], [-inf, -inf], [0, -inf], [1, 2]], dtype=dtype)
    functions = {
        "softmax": lambda x: x.softmax(-1),
        "log_softmax": lambda x: (x.log_softmax(-1), x.log_softmax(0), x[1, 0].log_softmax(0)),
        "loss": lambda x: F.cross_entropy(x, torch.tensor([0, 1, 0, 0, 0, 1]), reduction="none"),
    }
    check(functions, x)


def test_safe_softmax_hides_rows_of_infinities_and_not_of_nan():
    inf, nan = torch.inf, torch.nan
    x = torch.tensor([[-inf, -inf], [-inf, nan], [nan, -inf], [-inf, 1.0], [nan, nan]])
    check(lambda x: (torch.ops.aten._safe_softmax(x, 1), torch.ops.aten._safe_softmax(x, -2)), x)


def test_dropout_of_nothing_has_a_mask_of_its_type(tmp_path):
    class Dropout(torch.nn.Module):
        def forward(self, x):
            return torch.ops.aten.native_dropout(x, 0.5, False)

    path, nothing = tmp_path / "model.onnx", torch.empty(0, 2, dtype=torch.bfloat16)
    opbridge.export(Dropout(), (nothing,), path, capture="trace", verify=True)
    with pytest.raises(opbridge.UnsupportedError, match="returns an empty mask of the input's type"):
        opbridge.export(Dropout(), (nothing,), path)
    check(lambda x: torch.ops.aten.native_dropout(x, 0.5, False), torch.ones(2))


def test_elu_near_zero_is_accurate_where_factors_show_it():
    elu = torch.ops.aten.elu
    functions = {"scale": lambda x: elu(x, 1, 2**31, 1), "scales": lambda x: elu(x, 1, 2**31, 1e-5)}
    check(functions, torch.tensor([-0.02, -1e-6, -0.0, 0.5, -3, -torch.inf, torch.nan]))


SMALL_SIGMOIDS = {
    "log": lambda x: x.sigmoid().log(),
    "logit": lambda x: torch.logit(x.sigmoid()),
    "reciprocal": lambda x: x.sigmoid().reciprocal(),
    "root": lambda x: (x.sigmoid() * 2).sqrt(),
    "power": lambda x: x.sigmoid() ** -0.5,
    "share": lambda x: x.sigmoid() / x.sigmoid().sum(-1, keepdim=True),
    "order": lambda x: x.sigmoid().argmax(-1),
    "greatest": lambda x: x.sigmoid().topk(2).indices,
    "is positive": lambda x: x.sigmoid() > 0,
    "is true": lambda x: x.sigmoid().bool(),
    "entropy": lambda x: F.binary_cross_entropy(x.sigmoid(), torch.full_like(x, 0.5)),
    "silu": lambda x: F.silu(x) ** -1,
    "glu": lambda x: F.glu(x) ** -1,
    "in a branch": lambda x: torch.cond(x.sum() < 0, lambda x: x.sigmoid().log(), lambda x: x + 1, (x,)),
    "for a branch": lambda x: torch.cond(x.sum() < 0, lambda p: p.log(), lambda p: p + 1, (x.sigmoid(),)),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_small_sigmoids_are_exact(dtype):
    check(SMALL_SIGMOIDS, torch.tensor([[-60.0, -40, -25, -20], [-17, -16, -12, -9]]).to(dtype))


def test_sigmoid_stays_one_node_where_its_absolute_error_is_enough():
    functions = {
        "silu": F.silu,
        "gate": lambda x: x.sigmoid() @ x.T,
        "other": lambda x: (1 - x.sigmoid()).log(),
        "threshold": lambda x: x.sigmoid() > 0.5,
    }
    assert operators(check(functions, torch.tensor([[-3.0, 2], [1, -20]]))).count("Sigmoid") == 1
