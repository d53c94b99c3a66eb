"""Layers of torch.ao.quantization's eager mode besides convolutions and linear ones, compared with eager PyTorch."""

from __future__ import annotations

import onnx
import pytest
import torch
from test_quantized_modules import check, quantized
from torch import nn
from torch.ao.nn.quantized import FloatFunctional
from torch.ao.nn.quantized import dynamic as dynamic_modules
from torch.ao.quantization import (
    DeQuantStub,
    QuantStub,
    QuantWrapper,
    convert,
    default_qconfig,
    float_qparams_weight_only_qconfig,
    float_qparams_weight_only_qconfig_4bit,
    fuse_modules,
    prepare,
    quantize_dynamic,
)
from torch.nn import functional
from torch_versions import since_torch_2_14

import opbridge
from checking.models import results

pytestmark = [
    pytest.mark.parametrize("capture", ["export", "trace"]),
    pytest.mark.filterwarnings("ignore:.*torch.ao.quantization is deprecated"),
    pytest.mark.filterwarnings("ignore:.*are deprecated and will be removed"),
    pytest.mark.filterwarnings("ignore:Please use quant_min and quant_max"),
    pytest.mark.filterwarnings("ignore:must run observer before calling calculate_qparams"),
    pytest.mark.filterwarnings("ignore:PReLU's weight observer should have dtype quint8"),
]
DYNAMIC = torch.export.Dim.DYNAMIC


class Chain(nn.Module):
    """Calls all modules, or functions of ``self``, with the same quantized input."""

    def __init__(self, *modules, functions=()):
        super().__init__()
        self.quant, self.dequant, self.functions = QuantStub(), DeQuantStub(), functions
        self.layers = nn.ModuleList(modules)
        self.sums = nn.ModuleList(FloatFunctional() for _ in functions)

    def forward(self, x):
        q = self.quant(x)
        computed = [layer(q) for layer in self.layers]
        computed += [function(floats, q) for function, floats in zip(self.functions, self.sums, strict=True)]
        return [self.dequant(each) for each in computed]


def check_images(model, tmp_path, capture, *size):
    image = torch.randn(2, *size)
    made = quantized(model, (image,), (torch.randn(4, *size),))
    scales = [float(module.scale) for module in made.modules() if hasattr(module, "scale")]
    check(made, (image,), tmp_path, capture, ({0: DYNAMIC},), [(torch.randn(3, *size),)], max(scales))


def test_activations(tmp_path, capture):
    torch.manual_seed(0)
    kinds = nn.Sigmoid, nn.Tanh, nn.Hardswish, nn.Hardsigmoid, nn.ELU, nn.LeakyReLU, nn.GELU, nn.ReLU6, nn.Dropout
    check_images(Chain(*(kind() for kind in kinds)), tmp_path, capture, 3, 8, 8)


def test_relu6_in_place_changes_what_others_read(tmp_path, capture):
    torch.manual_seed(0)
    model = quantized(Chain(nn.ReLU6(inplace=True), nn.Identity()), (torch.randn(9, 9) * 9,))
    check(model, (torch.randn(9, 9) * 9,), tmp_path, capture)


def test_norms(tmp_path, capture):
    torch.manual_seed(0)
    norms = nn.BatchNorm2d(4), nn.GroupNorm(2, 4), nn.InstanceNorm2d(4, affine=True), nn.LayerNorm([8, 8])
    for norm in norms:
        nn.init.normal_(norm.weight)
        nn.init.normal_(norm.bias)
    check_images(Chain(*norms), tmp_path, capture, 4, 8, 8)


def test_norms_of_volumes_and_of_sequences(tmp_path, capture):
    torch.manual_seed(0)
    norms = nn.BatchNorm3d(4), nn.InstanceNorm3d(4), nn.Sequential(nn.BatchNorm3d(4), nn.ReLU())
    model = Chain(*norms).eval()
    fuse_modules(model.layers[2], [["0", "1"]], inplace=True)
    check_images(model, tmp_path, capture, 4, 4, 4, 4)
    check_images(Chain(nn.InstanceNorm1d(4)), tmp_path, capture, 4, 9)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_transposed_convolutions(tmp_path, capture, rank):
    """Compared with their dequantized form: PyTorch's kernels read memory that they have not written."""
    torch.manual_seed(0)
    kind = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)[rank - 1]
    model = QuantWrapper(kind(4, 6, 3, stride=2, padding=1, groups=2)).eval()
    model.qconfig = default_qconfig
    observed, inputs = prepare(model), torch.randn(2, 4, *[5] * rank)
    observed(inputs)
    made = convert(observed)
    layer = made.module
    floats = kind(4, 6, 3, stride=2, padding=1, groups=2)
    floats.load_state_dict({"weight": layer.weight().dequantize(), "bias": layer.bias()})

    def dequantized(x):
        result = floats(made.quant(x).dequantize())
        return torch.quantize_per_tensor(result, layer.scale, layer.zero_point, torch.quint8).dequantize()

    program = opbridge.export(made, (inputs,), tmp_path / "model.onnx", capture=capture, dynamic_shapes=({0: DYNAMIC},))
    for got, expected in results(dequantized, program, ((inputs,), (inputs[:1] / 2,))):
        torch.testing.assert_close(got, expected, atol=layer.scale * 1.01, rtol=0)


@pytest.mark.parametrize("count", [1, 3])
def test_prelu(tmp_path, capture, count):
    torch.manual_seed(0)
    model = QuantWrapper(nn.PReLU(count)).eval()
    model.qconfig = default_qconfig
    observed, inputs = prepare(model), torch.randn(2, 3, 8, 8)
    observed(inputs)
    made = convert(observed)
    check(made, (inputs,), tmp_path, capture, ({0: DYNAMIC},), [(inputs[:1] / 2,)], made.module.scale)


def test_padding_that_is_not_of_zeros(tmp_path, capture):
    torch.manual_seed(0)
    convolution = nn.Conv2d(4, 4, 3, padding=1, padding_mode="reflect")
    check_images(Chain(convolution), tmp_path, capture, 4, 8, 8)


def with_numbers(floats, x):
    """The scheme of the result follows from the number."""
    sums = [floats.add_scalar(x, number) for number in (1.5, -0.7, 20.0, -20.0)]
    products = [floats.mul_scalar(x, number) for number in (0.5, -2.5, 0.0)]
    values = [each.dequantize() for each in sums + products]
    if x.is_quantized:
        operators = torch.ops.quantized
        made = [operators.add(x, 1.5), operators.add_relu(x, -20.0), operators.mul_relu(x, -2.0), operators.mul(2.0, x)]
        values += [each.dequantize() for each in made]
    return torch.stack(values)


def moved(floats, x):
    shuffled = functional.pixel_shuffle(functional.channel_shuffle(x, 2), 2).tile(1, 6, 1, 1)
    parts = x.index_select(1, torch.tensor([0, 2])), x[:, :1].expand(-1, 2, -1, -1), x.flip(3)[:, :2]
    joined = torch.stack([torch.cat(parts, 1), torch.cat(parts[::-1], 1)], 1).movedim(1, 2)
    return floats.add(joined.reshape(x.shape[0], -1), shuffled.flatten(1)[:, :768].unflatten(1, (2, -1)).flatten(1))


def clipped(floats, x):
    low = torch.clamp(x, -0.5, 0.5).masked_fill(torch.eye(8, dtype=torch.bool), 0.25)
    padded = functional.pad(functional.pad(low, (1, 0, 2, 1), value=0.3), (1, 1, 1, 1), mode="reflect")
    return functional.leaky_relu(padded, 0.125)


FUNCTIONS = [
    lambda floats, x: functional.interpolate(x, scale_factor=2),
    lambda floats, x: x.mean((2, 3)),
    lambda floats, x: functional.dropout(x, 0.5, training=False),
    with_numbers,
    moved,
    clipped,
]


def test_functions(tmp_path, capture):
    torch.manual_seed(0)
    check_images(Chain(functions=FUNCTIONS), tmp_path, capture, 4, 8, 8)


def test_indices_and_comparisons_are_exact(tmp_path, capture):
    def select(x):
        q = torch.quantize_per_tensor(x, 0.1, 101, torch.quint8)
        values, indices = q.topk(3, 1)
        largest, where = q.max(1)
        return values.dequantize(), indices, largest.dequantize(), where, (q > 0.3).int(), (q >= values[:, :1]).int()

    x = torch.stack([torch.randperm(40) for _ in range(3)]) / 10 - 2
    check(select, (x,), tmp_path, capture, ({0: DYNAMIC},), [(x[:2],)])


@pytest.mark.parametrize(
    "zero_point", [100, pytest.param(101, marks=since_torch_2_14("the zero point is added before rounding"))]
)
@pytest.mark.parametrize("rank", [2, 3])
def test_averages_halfway_between_two_levels(tmp_path, capture, zero_point, rank):
    """They are rounded as PyTorch rounds them after its convolutions, which return channels_last tensors."""
    layout = torch.channels_last if rank == 2 else torch.channels_last_3d

    def average(x):
        q = torch.quantize_per_tensor(x, 0.0637, zero_point, torch.quint8).contiguous(memory_format=layout)
        pools = functional.avg_pool2d, functional.adaptive_avg_pool2d
        if rank == 3:
            pools = functional.avg_pool3d, functional.adaptive_avg_pool3d
        results = [pools[0](q, 2), pools[1](q, 2), pools[0](q, 3, 2, 1)]
        if rank == 2:
            results.append(functional.interpolate(q, scale_factor=2, mode="bilinear"))
            results.append(functional.interpolate(q, size=(15, 8), mode="bilinear", align_corners=True))
        return tuple(each.int_repr().int() for each in results)

    torch.manual_seed(0)
    x = torch.randint(-50, 50, (2, 4, *[8] * rank)) * 0.0637
    check(average, (x,), tmp_path, capture, ({0: DYNAMIC},), [(x[:1],)])


class Recurrent(nn.Module):
    def __init__(self, kind, **options):
        super().__init__()
        self.layers = kind(6, 5, **options)

    def forward(self, x, state=None):
        return torch.utils._pytree.tree_leaves(self.layers(x, state))


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
@pytest.mark.parametrize("weights", [torch.qint8, torch.float16])
def test_recurrent_layers(tmp_path, capture, kind, weights):
    torch.manual_seed(0)
    options = {"num_layers": 2, "batch_first": True, "bidirectional": True}
    model = quantize_dynamic(Recurrent(kind, **options).eval(), {kind}, weights)
    x, others = torch.randn(3, 4, 6), [(torch.randn(2, 4, 6) * 3,), (torch.zeros(1, 4, 6),)]
    length = (
        DYNAMIC if capture == "export" or weights == torch.float16 else None
    )  # a trace has as many steps as the run
    if length:
        others.append((torch.randn(2, 7, 6),))
    check(model, (x,), tmp_path, capture, ({0: DYNAMIC, 1: length},), others)
    kinds = {node.op_type for node in onnx.load(tmp_path / "model.onnx").graph.node}
    assert (weights == torch.float16) == (kind.__name__ in kinds)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_recurrent_layers_with_a_state(tmp_path, capture, kind):
    torch.manual_seed(0)
    model = quantize_dynamic(Recurrent(kind).eval(), {kind})
    x, state = torch.randn(4, 3, 6), torch.randn(1, 3, 5)
    check(model, (x, (state, state / 2) if kind is nn.LSTM else state), tmp_path, capture)


@pytest.mark.parametrize("kind", [nn.LSTMCell, nn.GRUCell, nn.RNNCell])
@pytest.mark.parametrize("weights", [torch.qint8, torch.float16])
def test_recurrent_cells(tmp_path, capture, kind, weights):
    torch.manual_seed(0)
    options = [{}, {"nonlinearity": "relu"}] if kind is nn.RNNCell else [{}]
    for each in options:
        model = quantize_dynamic(Recurrent(kind, **each).eval(), {kind}, weights)
        check(model, (torch.randn(4, 6),), tmp_path, capture, ({0: DYNAMIC},), [(torch.randn(7, 6) * 3,)])


def test_linear_layers_of_half_weights(tmp_path, capture):
    torch.manual_seed(0)
    model = quantize_dynamic(nn.Sequential(nn.Linear(8, 6), nn.Tanh(), nn.Linear(6, 4)).eval(), dtype=torch.float16)
    check(model, (torch.randn(4, 8),), tmp_path, capture, ({0: DYNAMIC},), [(torch.randn(7, 8),)])


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_dynamic_convolutions(tmp_path, capture, rank):
    torch.manual_seed(0)
    modules = []
    for name in (f"Conv{rank}d", f"ConvTranspose{rank}d"):
        floats = getattr(nn, name)(4, 4, 3)
        floats.qconfig = default_qconfig
        modules.append(getattr(dynamic_modules, name).from_float(floats))
    model, x = nn.Sequential(*modules).eval(), torch.randn(2, 4, *[7] * rank)
    check(model, (x,), tmp_path, capture, ({0: DYNAMIC},), [(x[:1] * 3,)], level=0.1)


class Bags(nn.Module):
    def __init__(self, scheme):
        super().__init__()
        self.rows, self.bags = nn.EmbeddingBag(10, 8, mode="sum"), nn.EmbeddingBag(10, 8, mode="sum")
        self.closed = nn.EmbeddingBag(10, 8, mode="sum", include_last_offset=True)
        for module in self.children():
            module.qconfig = scheme

    def forward(self, table, indices, offsets, weights):
        return (
            self.rows(table),
            self.bags(indices, offsets),
            self.bags(indices, offsets, weights),
            self.closed(indices, torch.cat([offsets, torch.tensor([6])])),
        )


@pytest.mark.parametrize("scheme", [float_qparams_weight_only_qconfig, float_qparams_weight_only_qconfig_4bit])
def test_embedding_bags(tmp_path, capture, scheme):
    torch.manual_seed(0)
    model = convert(prepare(Bags(scheme).eval()))
    table, indices, offsets = torch.tensor([[1, 2], [9, 0], [3, 3]]), torch.tensor([1, 2, 3, 4, 9, 0]), [0, 2, 2, 3]
    inputs = table, indices, torch.tensor(offsets), torch.randn(6)
    check(model, inputs, tmp_path, capture, ({0: DYNAMIC}, None, None, None), [(table[:2], *inputs[1:])])
