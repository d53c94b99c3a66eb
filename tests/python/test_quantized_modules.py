"""Models of torch.ao.quantization in eager mode, and quantized tensors that a model makes and consumes.

PyTorch adds up integers, and opbridge the float values that they stand for: a result that is nearly halfway between
two levels may be the other one, so outputs may differ by one level.
"""

from __future__ import annotations

import onnx
import pytest
import torch
from torch import nn
from torch.ao.nn.quantized import FloatFunctional
from torch.ao.quantization import (
    DeQuantStub,
    QuantStub,
    convert,
    float_qparams_weight_only_qconfig,
    get_default_qconfig,
    prepare,
    quantize_dynamic,
)

import opbridge
from checking.models import results
from opbridge import UnsupportedError

pytestmark = [
    pytest.mark.parametrize("capture", ["export", "trace"]),
    pytest.mark.filterwarnings("ignore:.*torch.ao.quantization is deprecated"),
    pytest.mark.filterwarnings("ignore:Please use quant_min and quant_max"),
    pytest.mark.filterwarnings("ignore:must run observer before calling calculate_qparams"),
]
DYNAMIC = torch.export.Dim.DYNAMIC


def check(model, inputs, tmp_path, capture, dynamic=None, others=(), level=0.0):
    """Compares with eager PyTorch: outputs of floating-point numbers may differ by ``level``, integers not at all."""
    program = opbridge.export(model, inputs, tmp_path / "model.onnx", capture=capture, dynamic_shapes=dynamic)
    for got, expected in results(model, program, (inputs, *others)):
        torch.testing.assert_close(got, expected, atol=1e-5 + level * 1.01, rtol=0)
        assert ((got - expected).abs() > 1e-5).float().mean() <= 0.01, "too many are at another level"
    return program


def quantized(model, *calibration):
    """The model in eager mode's static quantization."""
    model = model.eval()
    model.qconfig = get_default_qconfig("x86")
    prepared = prepare(model)
    for inputs in calibration:
        prepared(*inputs)
    return convert(prepared)


class Convolutions(nn.Module):
    def __init__(self, rank):
        super().__init__()
        kind = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[rank - 1]
        self.quant, self.dequant = QuantStub(), DeQuantStub()
        self.first = kind(4, 8, 3, padding=1, stride=2)
        self.second = kind(8, 6, 3, padding=2, dilation=2, groups=2, bias=False)
        self.relu = nn.ReLU()

    def forward(self, x):
        return self.dequant(self.relu(self.second(self.relu(self.first(self.quant(x))))))


class Perceptron(nn.Module):
    def __init__(self):
        super().__init__()
        self.quant, self.dequant = QuantStub(), DeQuantStub()
        self.up, self.act, self.down = nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8, bias=False)
        self.add, self.mul, self.join, self.sum = (FloatFunctional() for _ in range(4))

    def forward(self, x):
        x = self.quant(x)
        hidden = self.down(self.act(self.up(x)))
        joined = self.join.cat([self.add.add(hidden, x), self.mul.mul(hidden, x)], -1)
        return self.dequant(self.sum.add_relu(joined, joined).reshape(x.shape[0], -1))


class Image(nn.Module):
    """A small classifier, fused as usual."""

    def __init__(self):
        super().__init__()
        self.quant, self.dequant = QuantStub(), DeQuantStub()
        self.conv, self.norm, self.relu = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU()
        self.pool, self.mean, self.flat = nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(1), nn.Flatten()
        self.fc, self.last = nn.Linear(8, 5), nn.ReLU()

    def forward(self, x):
        x = self.pool(self.relu(self.norm(self.conv(self.quant(x)))))
        return self.dequant(self.last(self.fc(self.flat(self.mean(x)))))


def level_of(model):
    """The scale of the last quantized module, times the levels by which its inputs may differ."""
    return max(module.scale for module in model.modules() if isinstance(getattr(module, "scale", None), float))


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_convolutions(tmp_path, capture, rank):
    torch.manual_seed(0)
    sizes = [99] if rank == 1 else [9] * rank
    inputs = (torch.randn(2, 4, *sizes),)
    model = quantized(Convolutions(rank), inputs)
    dynamic = ({0: DYNAMIC, 2: DYNAMIC},)
    check(model, inputs, tmp_path, capture, dynamic, [(torch.randn(3, 4, sizes[0] + 2, *sizes[1:]),)], level_of(model))


def test_linear_layers_and_functions(tmp_path, capture):
    torch.manual_seed(0)
    inputs = (torch.randn(4, 3, 8),)
    model = quantized(Perceptron(), inputs)
    others = [(torch.randn(7, 3, 8),)]
    program = check(model, inputs, tmp_path, capture, ({0: DYNAMIC},), others, level_of(model))
    kinds = {node.op_type for node in onnx.load(tmp_path / "model.onnx").graph.node}
    assert {"QuantizeLinear", "DequantizeLinear"} <= kinds, program
    assert [type(module).__name__ for module in (model.up, model.add)] == ["Linear", "QFunctional"]
    assert isinstance(model.up._packed_params._packed_params, torch.ScriptObject)  # the model is left as it was


def test_fused_modules(tmp_path, capture):
    torch.manual_seed(0)
    fused = torch.ao.quantization.fuse_modules(Image().eval(), [["conv", "norm", "relu"], ["fc", "last"]])
    inputs = (torch.randn(2, 3, 12, 12),)
    model = quantized(fused, inputs)
    check(model, inputs, tmp_path, capture, level=level_of(model))


def test_dynamic_quantization(tmp_path, capture):
    torch.manual_seed(0)
    model = quantize_dynamic(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).eval(), {nn.Linear})
    inputs, others = (torch.randn(4, 8),), [(torch.randn(7, 8) * 3,), (torch.zeros(2, 8),), (torch.rand(1, 8) + 2,)]
    check(model, inputs, tmp_path, capture, ({0: DYNAMIC},), others)


@pytest.mark.parametrize("engine", [each for each in torch.backends.quantized.supported_engines if each != "none"])
def test_dynamic_quantization_of_every_engine(tmp_path, capture, engine, monkeypatch):
    """qnnpack rounds to all 256 levels, the others to 128."""
    monkeypatch.setattr(torch.backends.quantized, "engine", engine)
    torch.manual_seed(0)
    check(
        quantize_dynamic(nn.Sequential(nn.Linear(64, 64)).eval(), {nn.Linear}), (torch.randn(8, 64),), tmp_path, capture
    )
    model = quantize_dynamic(nn.LSTMCell(16, 8).eval(), {nn.LSTMCell})
    check(model, (torch.randn(5, 16),), tmp_path, capture)


def test_embeddings(tmp_path, capture):
    model = nn.Sequential(nn.Embedding(10, 8)).eval()
    model.qconfig = float_qparams_weight_only_qconfig
    check(convert(prepare(model)), (torch.tensor([[1, 2], [9, 0]]),), tmp_path, capture)


def quantize(x):
    return torch.quantize_per_tensor(x, 0.1, 100, torch.quint8)


def of_tensors(x):
    q = torch.quantize_per_tensor(x, 0.05, 3, torch.quint8)
    signed = torch.quantize_per_tensor(x, torch.tensor(0.1), torch.tensor(-4), torch.qint8)
    wide = torch.quantize_per_tensor(x, 1e-7, 0, torch.qint32)
    made = torch._make_per_tensor_quantized_tensor(q.int_repr(), 0.1, 7)
    return (
        *(q.int_repr().int(), q.dequantize(), torch.dequantize(q[1:]), signed.int_repr(), signed.dequantize()),
        *(wide.int_repr(), wide.dequantize(), made.dequantize(), q.t().reshape(-1).dequantize()),
        *(x * q.q_scale() + q.q_zero_point(), x + q.is_quantized + (q.dtype == torch.quint8)),
        torch.relu(q).dequantize(),
    )


def of_channels(x):
    q = torch.quantize_per_channel(x, torch.tensor([0.1, 0.02, 0.3]), torch.tensor([0, 3, -5]), 0, torch.qint8)
    made = torch._make_per_channel_quantized_tensor(q.int_repr(), torch.ones(3) / 4, torch.tensor([1, 0, -2]), 0)
    values = q.dequantize(), made.dequantize()
    return q.int_repr(), *values, q.q_per_channel_scales() * x[:, 0], x + q.q_per_channel_axis()


def of_narrow_zero_points(x):
    """The differences of integers and zero points exceed 8 bits."""
    points, scales = torch.tensor([-120, 100, 7], dtype=torch.int8), torch.tensor([0.5, 0.25, 1.0])
    integers = (x * 60).clamp(-128, 127).to(torch.int8)
    made = torch._make_per_channel_quantized_tensor(integers, scales, points, 0)
    q = torch.quantize_per_channel(x * 60, scales, points, 0, torch.qint8)
    one = torch.quantize_per_tensor(x * 60, scales[0], points[0], torch.qint8)
    return made.dequantize(), q.dequantize(), one.dequantize(), made.q_per_channel_zero_points()


def of_indices(x):
    q = quantize(x)
    torch.nn.functional.relu(q, inplace=True)
    clipped = q.clone()
    torch.nn.functional.relu6(clipped, inplace=True)
    return q.dequantize(), clipped.dequantize()


@pytest.mark.parametrize("function", [of_tensors, of_channels, of_narrow_zero_points, of_indices])
def test_quantized_tensors(tmp_path, capture, function):
    torch.manual_seed(0)
    check(function, (torch.randn(3, 4),), tmp_path, capture)


class Held(nn.Module):
    """Quantized tensors as a buffer and as an attribute."""

    def __init__(self):
        super().__init__()
        self.register_buffer("weight", torch.quantize_per_tensor(torch.randn(4, 4), 0.02, 0, torch.qint8))
        self.other = torch.quantize_per_channel(torch.randn(4, 4), torch.rand(4), torch.zeros(4).long(), 0, torch.qint8)

    def forward(self, x):
        return x @ self.weight.dequantize() + self.other.dequantize()


def test_quantized_tensors_that_a_module_holds(tmp_path, capture):
    model = Held()
    check(model, (torch.randn(4, 4),), tmp_path, capture)
    assert model.weight.is_quantized
    assert "weight" in model._buffers
    assert "other" in vars(model)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: torch.exp(quantize(x)).dequantize(), r"exp\(\) of a quantized tensor.*dequantize\(\)"),
        (lambda x: torch.ops.quantized.linear_tanh(quantize(x), x, 0.1, 0).dequantize(), "linear_tanh.*not supported"),
        (lambda x: torch.ops.quantized.add_scalar(quantize(x), x[0, 0]).dequantize(), "a number.*not a tensor"),
        (lambda x: torch.nn.functional.dropout(quantize(x)).dequantize(), "in training"),
        (lambda x: quantize(x).add(quantize(x)).dequantize(), r"add\(\) of a quantized tensor"),
        (lambda x: torch.relu_(quantize(x).view(-1)).dequantize(), r"in-place relu_\(\) of a view"),
        (lambda x: torch.quantize_per_tensor(x, 0.1, 0, torch.quint4x2).dequantize(), "quint4x2.*use torch.quint8"),
        (lambda x: torch.quantize_per_tensor(x.double(), 0.1, 0, torch.quint8).dequantize(), "float64.*convert"),
        (quantize, r"returns a quantized tensor.*dequantize\(\)"),
    ],
)
def test_other_uses_are_refused(tmp_path, capture, function, message):
    with pytest.raises(UnsupportedError, match=message):
        opbridge.export(function, (torch.randn(3, 3),), tmp_path / "model.onnx", capture=capture)


def test_quantized_inputs_are_refused(tmp_path, capture):
    with pytest.raises(UnsupportedError, match=r"the input 'x' is a quantized tensor.*dequantize\(\)"):
        opbridge.export(lambda x: x.dequantize(), (quantize(torch.randn(3)),), tmp_path / "model.onnx", capture=capture)
