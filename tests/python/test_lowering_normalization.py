"""Normalizations over groups, instances and rows, and of weights."""

import pytest
import torch
from lowering_check import check
from torch.nn import functional as F

import opbridge
from opbridge.runtime import run, session

FUNCTIONS = {
    "group_norm": lambda x, w: F.group_norm(x, 3),
    "group_norm, scaled": lambda x, w: F.group_norm(x, 2, w, -w, 1e-2),
    "group_norm of channels": lambda x, w: F.group_norm(x[:, :, 0], 3, w),
    "instance_norm": lambda x, w: F.instance_norm(x),
    "instance_norm, scaled": lambda x, w: F.instance_norm(x, weight=w, bias=w, eps=1e-2),
    "instance_norm by statistics": lambda x, w: F.instance_norm(x, w, w * w, w, use_input_stats=False),
    "rms_norm": lambda x, w: F.rms_norm(x, (5, 4)),
    "rms_norm, scaled": lambda x, w: F.rms_norm(x.transpose(1, -1), (6,), w, 1e-3),
    "layer_norm and its moments": lambda x, w: torch.native_layer_norm(x, (4,), None, None, 1e-3),
    "group_norm and its moments": lambda x, w: torch.native_group_norm(x, w, None, x.shape[0], 6, 20, 3, 1e-3),
    "weight_norm": lambda x, w: torch._weight_norm(x, w.reshape(1, 6, 1, 1), 1),
    "weight_norm of all": lambda x, w: torch._weight_norm(x, w[0], -1),
    "local_response_norm": lambda x, w: F.local_response_norm(x, 3),
}


def arguments(dtype):
    torch.manual_seed(0)
    return torch.randn(2, 6, 5, 4, dtype=dtype), torch.rand(6, dtype=dtype) + 0.5


@pytest.mark.parametrize("opset", [13, 17, 21])
def test_dynamic(opset):
    x, w = arguments(torch.float32)
    check(
        {name: f for name, f in FUNCTIONS.items() if "weight_norm" not in name},
        x,
        w,
        opset=opset,
        dynamic=[{0: torch.export.Dim.DYNAMIC}, {}],
        also=[(torch.randn(5, 6, 5, 4), w)],
    )


def test_float64():
    # ONNX Runtime has no AveragePool in float64.
    check({name: f for name, f in FUNCTIONS.items() if name != "local_response_norm"}, *arguments(torch.float64))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_halves(dtype):
    functions = {name: f for name, f in FUNCTIONS.items() if name.startswith(("group_norm,", "instance_norm", "rms"))}
    check(functions, *arguments(dtype), rtol=2e-2, atol=2e-2)


def test_batch_norm_and_its_moments():
    x, w = arguments(torch.float32)
    check(lambda x, w: torch.native_batch_norm(x, w, w, w, w, False, 0.1, 1e-3), x, w)


def test_batch_norm_by_an_eps_that_float32_does_not_hold():
    x, mean = torch.randn(3, 4, 5, dtype=torch.float64), torch.zeros(4, dtype=torch.float64)
    check(lambda x: F.batch_norm(x, mean, mean, eps=1e-5), x, rtol=1e-13, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_batch_norm_by_the_batch(dtype):
    x, w = arguments(dtype)
    functions = {
        "without statistics": lambda x, w: F.batch_norm(x, None, None, w, -w, training=True),
        "of rows": lambda x, w: F.batch_norm(x[:, :, 0, 0], None, None, training=True),
        "and its moments": lambda x, w: torch.native_batch_norm(x, w, None, None, None, True, 0.1, 1e-3),
        "in evaluation": lambda x, w: torch._native_batch_norm_legit(x, w, w, w, w + 1, False, 0.1, 1e-3),
        "no_stats": lambda x, w: torch._native_batch_norm_legit(x, w, w, True, 0.1, 1e-3),
    }
    check(functions, x, w)


@pytest.mark.parametrize(
    "norm",
    [
        lambda x, mean, var: torch.native_batch_norm(x, None, None, mean, var, True, 0.2, 1e-3),
        lambda x, mean, var: torch._native_batch_norm_legit(x, x[0, :, 0, 0], None, mean, var, True, 0.2, 1e-3),
        lambda x, mean, var: F.batch_norm(x, mean, var, training=True),
        lambda x, mean, var: torch.ops.aten._batch_norm_with_update(
            x, x[0, :, 0, 0], x[1, :, 0, 0], mean, var, 0.2, 1e-3
        )[:3],
    ],
)
def test_statistics_as_outputs(norm, tmp_path):
    class Norm(torch.nn.Module):
        def forward(self, x, mean, var):
            return norm(x, mean, var)

    x, w = arguments(torch.float32)
    inputs = (x, w, w + 1)
    opbridge.export(Norm(), inputs, tmp_path / "model.onnx", mutations_as_outputs=True)
    names = ("x", "mean", "var")
    got = run(session(tmp_path / "model.onnx"), dict(zip(names, (t.clone() for t in inputs), strict=True)))
    results = torch.utils._pytree.tree_leaves(norm(*inputs))
    torch.testing.assert_close(got, [*results, *inputs[1:]])


def test_weight_norm_of_a_vector():
    torch.manual_seed(0)
    linear = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(3, 4), name="bias")
    check(lambda x: linear(x), torch.randn(2, 3))


def test_layer_norm_of_no_elements():
    check(lambda x: F.layer_norm(x, [4, 0]), torch.zeros(3, 4, 0))


def test_statistics_of_more_dims_than_one():
    weight, bias, mean, variance = torch.rand(4, 1)
    check(
        lambda x: torch.ops.aten.native_batch_norm(x, weight.unsqueeze(0), bias, mean, variance, False, 0.1, 1e-5)[0],
        torch.rand(1, 1),
    )


@pytest.mark.parametrize("opset", [13, 21])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_inputs_with_float32_weights(dtype, opset):
    # Autocast makes such calls.
    torch.manual_seed(0)
    x, w = torch.randn(2, 6, 5, 6).to(dtype), torch.rand(6) + 0.501
    functions = {
        "layer_norm": lambda x, w: F.layer_norm(x, (6,), w, -w),
        "layer_norm, scaled": lambda x, w: F.layer_norm(x, (6,), w),
        "native_layer_norm": lambda x, w: torch.native_layer_norm(x, (6,), w, -w, 1e-5)[0],
        "group_norm": lambda x, w: F.group_norm(x, 3, w, -w),
        "batch_norm": lambda x, w: F.batch_norm(x, -w, w, w, w),
        "instance_norm": lambda x, w: F.instance_norm(x, weight=w, bias=-w),
    }
    step = 2**-9 if dtype == torch.float16 else 2**-6
    check(functions, x, w, opset=opset, rtol=step, atol=step)
    check(lambda x, w: F.rms_norm(x, (6,), w), x, w, opset=opset, rtol=step, atol=step)


def test_weight_norm_of_lengths_along_another_dim():
    check(torch._weight_norm, torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[2.0], [3.0]]))
    with pytest.raises(opbridge.UnsupportedError, match="g must have size 1"):
        check(torch._weight_norm, torch.ones(1, 3), torch.ones(1, 3))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
def test_channels_without_variance_and_an_eps_of_0(dtype):
    x = torch.tensor([[[1.0, 1.0, 1.0], [1.0, 2.0, 3.0]]], dtype=dtype)
    for norm in (torch.ops.aten.instance_norm.default, torch.ops.aten.batch_norm.default):
        check(lambda x, norm=norm: norm(x, None, None, None, None, True, 0.1, 0.0, True), x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
def test_group_norm_by_weights_that_are_not_finite(dtype):
    x = torch.tensor([0.0, 0, 0, 1, 0, 1, 0, 0, 0, 1, 1, 0, 0, 1, 0, 0, 0, 1], dtype=dtype).reshape(1, 6, 3)
    weight = torch.tensor([-0.0, 0, -torch.inf, 0, 1, 2], dtype=dtype)
    check(lambda x, w, b: F.group_norm(x, 2, w, b), x, weight, torch.ones(6, dtype=dtype))
    check(lambda x: F.group_norm(x, 2, weight, weight * 0), x)


@pytest.mark.parametrize("dim", [-3, -2, -1])
def test_weight_norm_of_dims_counted_from_the_last(dim: int) -> None:
    """-1 does not count from the last: it stands for the norm of the whole tensor."""
    lengths = torch.rand([1, 1, 1] if dim == -1 else [n if axis == dim + 3 else 1 for axis, n in enumerate((2, 3, 4))])
    check(lambda v, g: torch.ops.aten._weight_norm(v, g, dim), torch.randn(2, 3, 4), lengths)


@pytest.mark.skipif(torch.__version__ < (2, 14), reason="PyTorch refuses it before 2.14")
def test_group_norm_of_integers_without_elements_is_refused(tmp_path):
    def function(x, w):
        return torch.ops.aten.native_group_norm(x, w, w, 0, 2, 1, 1, 1e-05)

    inputs = (torch.zeros(0, 2, dtype=torch.int64), torch.zeros(2, dtype=torch.int64))
    with pytest.raises(opbridge.UnsupportedError, match="floating-point"):
        opbridge.export(function, inputs, tmp_path / "model.onnx", capture="trace")


def test_instance_norm_without_pixels():
    norm = torch.ops.aten.instance_norm
    w, number = torch.tensor([2.0, -1.0, 0.5]), torch.tensor(3.0)
    check(lambda x: norm(x, w, w + 1, None, None, True, 0.1, 1e-02, True), torch.randn(2, 3))
    check(lambda x: norm(x, number, number, None, None, True, 0.1, 1e-05, True), torch.randn(2, 1, 4))


def test_integers_without_elements():
    norm = torch.ops.aten.instance_norm
    check(lambda x: norm(x, None, None, None, None, True, 0.1, 1e-05, True), torch.zeros(4, 1, 0, dtype=torch.int64))


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64])
def test_moments_of_rows_without_elements(dtype):
    check(lambda x: torch.native_layer_norm(x, (0,), None, None, 1e-5), torch.zeros(2, 3, 0, dtype=dtype))


@pytest.mark.parametrize("opset", [21, 24])
def test_rms_norm_of_one_number_broadcasts_to_its_weight(opset: int) -> None:
    x, w = torch.tensor([[3.0], [-0.5]]), torch.arange(4.0)
    functions = {
        "matrix": lambda x, w: F.rms_norm(x, (1,)) * w,
        "vector": lambda x, w: F.rms_norm(x[0], (1,)) * w,
        "with an epsilon": lambda x, w: F.rms_norm(x, (1,), eps=0.1) * w,
    }
    check(functions, x, w, opset=opset)
    check(lambda x, w: F.rms_norm(x, (1,)) * torch.arange(4.0), x, w, opset=opset)


def _normalized(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    centered = x - x.mean(-1, keepdim=True)
    return centered / torch.sqrt(centered.pow(2).mean(-1, keepdim=True) + 1e-5) * weight + weight


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.uint8])
def test_layer_normalization_of_what_was_cast(dtype: torch.dtype) -> None:
    x, w = (torch.arange(12.0) ** 2 % 7).reshape(3, 4).to(dtype), torch.arange(4.0)
    functions = {
        "to float32": lambda x, w: _normalized(x.float(), w),
        "to float32 and back": lambda x, w: _normalized(x.float(), w).to(dtype),
        "to float64": lambda x, w: _normalized(x.double(), w.double()),
    }
    if dtype in (torch.bfloat16, torch.float64):
        functions["not"] = lambda x, w: _normalized(x, w.to(dtype))
    check(functions, x, w)


def test_layer_normalization_by_one_weight() -> None:
    x = torch.arange(12.0).reshape(3, 4).sin()
    functions = {
        "one": lambda x, w: _normalized(x + x.flip(0), torch.full((1,), 2.5)),
        "none": lambda x, w: _normalized(x + x.flip(0), torch.tensor(2.5)),
        "each": lambda x, w: _normalized(x + x.flip(0), torch.arange(4.0)),
        "input": lambda x, w: _normalized(x + w, w),
        "of no sum": lambda x, w: _normalized(x, w),
        "one, of no sum": lambda x, w: _normalized(x, torch.full((1,), 2.5)),
    }
    check(functions, x, torch.tensor([0.5]))


def test_rms_norm_of_no_numbers() -> None:
    check(lambda x: F.rms_norm(x, (0,), torch.ones(0)), torch.ones(2, 0))
