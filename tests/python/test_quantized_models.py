"""Models that torchao quantizes: compared with the quantized model in PyTorch, at other sizes than those of the export.

The sessions have ONNX Runtime's default options, in which it would round activations to 8 bits by itself.
"""

from __future__ import annotations

import copy
import functools
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import onnx
import onnxruntime
import pytest
import torch
import torch.nn.functional as F
from command import opbridge as run_command
from command import refusal
from onnx import TensorProto
from torch import nn

import opbridge

pytest.importorskip("torchao", reason="torchao is not installed: make setup installs it")

from torchao.quantization import (
    Float8WeightOnlyConfig,
    Int8DynamicActivationInt8WeightConfig,
    Int8DynamicActivationIntxWeightConfig,
    Int8WeightOnlyConfig,
    IntxWeightOnlyConfig,
    MappingType,
    PerAxis,
    PerGroup,
    PerTensor,
    quantize_,
)

INT4 = {"weight_dtype": torch.int4, "granularity": PerGroup(32)}
ASYMMETRIC = MappingType.ASYMMETRIC
WEIGHT_ONLY: dict[str, Callable[[], Any]] = {
    "int8": Int8WeightOnlyConfig,
    "int8 groups": lambda: Int8WeightOnlyConfig(granularity=PerGroup(32)),
    "int8 tensor": lambda: Int8WeightOnlyConfig(granularity=PerTensor()),
    "int4": lambda: IntxWeightOnlyConfig(**INT4),
    "int4 asymmetric": lambda: IntxWeightOnlyConfig(**INT4, mapping_type=ASYMMETRIC),
    "int4 rows": lambda: IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=PerAxis(0)),
    "int4 groups of 8": lambda: IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=PerGroup(8)),
    "int4 groups of 48": lambda: IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=PerGroup(48)),
    "int3": lambda: IntxWeightOnlyConfig(weight_dtype=torch.int3, granularity=PerGroup(32)),
    "int6": lambda: IntxWeightOnlyConfig(weight_dtype=torch.int6, granularity=PerGroup(32), mapping_type=ASYMMETRIC),
    "int8 intx": lambda: IntxWeightOnlyConfig(weight_dtype=torch.int8, granularity=PerAxis(0)),
    "float8": Float8WeightOnlyConfig,
    "float8 tensor": lambda: Float8WeightOnlyConfig(granularity=PerTensor()),
    "float8 groups": lambda: Float8WeightOnlyConfig(granularity=PerGroup(32)),
    "float8 e5m2": lambda: Float8WeightOnlyConfig(weight_dtype=torch.float8_e5m2),
}
DYNAMIC: dict[str, Callable[[], Any]] = {
    "int8": Int8DynamicActivationInt8WeightConfig,
    "int8 asymmetric": lambda: Int8DynamicActivationInt8WeightConfig(act_mapping_type=ASYMMETRIC),
    "int8 tensor": lambda: Int8DynamicActivationInt8WeightConfig(granularity=PerTensor()),
    "int4": lambda: Int8DynamicActivationIntxWeightConfig(weight_dtype=torch.int4, weight_granularity=PerGroup(32)),
    "int4 asymmetric": lambda: Int8DynamicActivationIntxWeightConfig(
        weight_dtype=torch.int4, weight_granularity=PerGroup(32), weight_mapping_type=ASYMMETRIC
    ),
}
CAPTURES = ("export", "trace")
SIZES = ((1, 1), (2, 7), (5, 3))


class Feedforward(nn.Module):
    def __init__(self, width: int = 96, hidden: int = 192) -> None:
        super().__init__()
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(torch.relu(self.up(x)))


class Parallel(nn.Module):
    """Both layers quantize the model's own input: ONNX Runtime might round a computed one to another level."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(96, 64)
        self.second = nn.Linear(96, 32, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([self.first(x), self.second(x)], dim=-1)


def quantized(model: nn.Module, config: Any, seed: int, filter_fn: Any = None) -> nn.Module:
    torch.manual_seed(seed)
    model = model.eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    quantize_(model, config, filter_fn) if filter_fn else quantize_(model, config)
    return model


def session(path: pathlib.Path) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def compare(path: pathlib.Path, model: Callable[..., torch.Tensor], inputs: Iterator[torch.Tensor]) -> None:
    running = session(path)
    name = running.get_inputs()[0].name
    for x in inputs:
        [actual] = running.run(None, {name: x.numpy()})
        torch.testing.assert_close(torch.from_numpy(actual), model(x), rtol=1e-4, atol=1e-4)


def activations(seed: int, width: int = 96) -> Iterator[torch.Tensor]:
    torch.manual_seed(100 + seed)
    for batch, length in SIZES:
        yield torch.randn(batch, length, width) * torch.rand(batch, length, 1) * 4


def sizes_of_types(path: pathlib.Path) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for tensor in onnx.load(path).graph.initializer:
        name = TensorProto.DataType.Name(tensor.data_type)
        sizes[name] = sizes.get(name, 0) + len(tensor.raw_data)
    return sizes


def operators(path: pathlib.Path) -> list[str]:
    return [node.op_type for node in onnx.load(path).graph.node]


DIMS = {"x": {0: "batch", 1: "length"}}


@pytest.mark.parametrize("capture", CAPTURES)
@pytest.mark.parametrize("kind", WEIGHT_ONLY)
def test_quantized_weights(kind: str, capture: str, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "model.onnx"
    for seed in range(3):
        model = quantized(Feedforward(), WEIGHT_ONLY[kind](), seed)
        opbridge.export(model, (torch.randn(2, 4, 96),), path, capture=capture, dynamic_shapes=DIMS)
        compare(path, model, activations(seed))
    stored = sizes_of_types(path)
    assert stored["FLOAT"] < 96 * 192 * 4, "the weights are stored as float32"


@pytest.mark.parametrize("capture", CAPTURES)
@pytest.mark.parametrize("kind", DYNAMIC)
def test_quantized_activations(kind: str, capture: str, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "model.onnx"
    for seed in range(3):
        model = quantized(Parallel(), DYNAMIC[kind](), seed)
        opbridge.export(model, (torch.randn(2, 4, 96),), path, capture=capture, dynamic_shapes=DIMS)
        compare(path, model, activations(seed))
    assert ("MatMulInteger" in operators(path)) == kind.startswith("int8")


@pytest.mark.parametrize("kind", ["int8", "int8 asymmetric"])
def test_products_by_inverses_are_rounded_as_written(kind: str, tmp_path: pathlib.Path) -> None:
    """The least element of a row is halfway between two levels. ONNX Runtime would replace x * (1 / s) by x / s."""
    model = quantized(nn.Linear(64, 16), DYNAMIC[kind](), 0)
    opbridge.export(model, (torch.randn(2, 64),), tmp_path / "model.onnx", dynamic_shapes={"input": {0: "rows"}})
    compare(tmp_path / "model.onnx", model, iter([-torch.randn(2000, 64).abs(), torch.randn(2000, 64)]))

    def written_out(x: torch.Tensor) -> torch.Tensor:
        scale = x.abs().amax(-1, keepdim=True) / 127.5
        return torch.round(x * (1 / scale)), torch.floor(x * scale.reciprocal() + 0.5)  # type: ignore[return-value]

    x = torch.randn(2000, 64)
    opbridge.export(written_out, (x,), tmp_path / "model.onnx")
    actual = session(tmp_path / "model.onnx").run(None, {"x": x.numpy()})
    for got, wanted in zip(actual, written_out(x), strict=True):
        torch.testing.assert_close(torch.from_numpy(got), wanted, rtol=0, atol=0)


@pytest.mark.parametrize("kind", ["int4", "int4 rows"])
def test_four_bit_weights_are_small(kind: str, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "model.onnx"
    model = quantized(nn.Sequential(*(nn.Linear(256, 256, bias=False) for _ in range(3))), WEIGHT_ONLY[kind](), 0)
    for target in ("onnxruntime", "onnx"):
        opbridge.export(model, (torch.randn(2, 4, 256),), path, target=target)
        assert sum(sizes_of_types(path).values()) <= 0.16 * 3 * 256 * 256 * 4


@pytest.mark.parametrize("length", [None, 4])
@pytest.mark.parametrize("kind", ["int4", "int4 asymmetric", "int3", "int8 groups"])
def test_the_standard_form_is_dequantize_linear(kind: str, length: int | None, tmp_path: pathlib.Path) -> None:
    """It has no Transpose, so that ONNX Runtime and others fuse it. The inputs are 2-d or 3-d."""
    path = tmp_path / "model.onnx"
    model = quantized(Feedforward(), WEIGHT_ONLY[kind](), 0)
    shape = (2, 96) if length is None else (2, length, 96)
    opbridge.export(model, (torch.randn(shape),), path, target="onnx", verify=True)
    exported = onnx.load(path)
    onnx.checker.check_model(exported)
    found = [node for node in exported.graph.node if node.op_type == "DequantizeLinear"]
    assert len(found) == 2
    assert all(attribute.i == 32 for node in found for attribute in node.attribute if attribute.name == "block_size")
    assert "Transpose" not in operators(path)
    types = {tensor.name: tensor.data_type for tensor in exported.graph.initializer}
    wanted = TensorProto.INT8 if kind.startswith("int8") else TensorProto.INT4
    assert {types[node.input[0]] for node in found} == {wanted}
    x = torch.randn(shape)
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", "1")
    [actual] = onnxruntime.InferenceSession(path, options).run(None, {exported.graph.input[0].name: x.numpy()})
    torch.testing.assert_close(torch.from_numpy(actual), model(x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("opset", [13, 17, 20])
@pytest.mark.parametrize("kind", ["int8", "int8 groups", "int4 asymmetric", "int4 rows"])
def test_opsets_without_types_of_four_bits(kind: str, opset: int, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "model.onnx"
    model = quantized(Feedforward(), WEIGHT_ONLY[kind](), 0)
    for target in ("onnxruntime", "onnx"):
        opbridge.export(model, (torch.randn(2, 96),), path, opset_version=opset, target=target)
        x = torch.randn(2, 96)
        [actual] = opbridge.runtime.session(path).run(None, {"x": x.numpy()})
        torch.testing.assert_close(torch.from_numpy(actual), model(x), rtol=1e-4, atol=1e-4)


class Embedded(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(50, 96)
        self.head = nn.Linear(96, 50, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.table(tokens))


@pytest.mark.parametrize("capture", CAPTURES)
@pytest.mark.parametrize("kind", ["int4", "int4 asymmetric", "int4 rows", "int8 intx"])
def test_quantized_embeddings(kind: str, capture: str, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "model.onnx"
    for seed in range(2):
        model = quantized(Embedded(), WEIGHT_ONLY[kind](), seed, lambda module, _: isinstance(module, nn.Embedding))
        tokens = torch.randint(0, 50, (2, 4))
        opbridge.export(model, (tokens,), path, capture=capture, dynamic_shapes={"tokens": {0: "batch", 1: "length"}})
        compare(path, model, (torch.randint(0, 50, sizes) for sizes in SIZES))
    made = operators(path)
    assert made.index("Gather") < made.index("Cast"), "the whole table is dequantized"


@pytest.mark.parametrize("capture", CAPTURES)
def test_a_layer_that_is_called_twice(capture: str, tmp_path: pathlib.Path) -> None:
    layer = quantized(nn.Linear(96, 96), WEIGHT_ONLY["int4"](), 0)
    model = nn.Sequential(layer, nn.Tanh(), layer).eval()
    opbridge.export(model, (torch.randn(2, 4, 96),), tmp_path / "model.onnx", capture=capture)
    compare(tmp_path / "model.onnx", model, iter([torch.randn(2, 4, 96)]))
    assert sizes_of_types(tmp_path / "model.onnx")["UINT8"] == 96 * 96 // 2


@pytest.mark.parametrize("kind", ["int4", "int8", "float8"])
def test_weights_keep_their_names(kind: str, tmp_path: pathlib.Path) -> None:
    model = quantized(Feedforward(), WEIGHT_ONLY[kind](), 0)
    names = []
    for capture in CAPTURES:
        opbridge.export(model, (torch.randn(2, 96),), tmp_path / "model.onnx", capture=capture)
        names.append({tensor.name for tensor in onnx.load(tmp_path / "model.onnx").graph.initializer})
        assert any(name.startswith("up.weight.qdata") for name in names[-1])


@pytest.mark.parametrize("kind", ["int4", "int8", "float8"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_types(kind: str, dtype: torch.dtype, tmp_path: pathlib.Path) -> None:
    model = quantized(Feedforward().to(dtype), WEIGHT_ONLY[kind](), 0)
    x = torch.randn(2, 4, 96, dtype=dtype)
    opbridge.export(model, (x,), tmp_path / "model.onnx")
    running = opbridge.runtime.session(tmp_path / "model.onnx")
    [actual] = opbridge.runtime.run(running, {running.get_inputs()[0].name: x})
    tolerance = 0.01 if dtype == torch.float16 else 0.1  # the results are about 10
    torch.testing.assert_close(actual, model(x), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("kind", ["int4", "int8", "float8"])
def test_stored_programs(kind: str, tmp_path: pathlib.Path) -> None:
    model = quantized(Feedforward(), WEIGHT_ONLY[kind](), 0)
    dims = {"x": {0: torch.export.Dim("batch"), 1: torch.export.Dim("length")}}
    program = torch.export.export(model, (torch.randn(2, 4, 96),), dynamic_shapes=dims)
    torch.export.save(program.run_decompositions({}), tmp_path / "model.pt2")
    converted = run_command("convert", tmp_path / "model.pt2", tmp_path / "model.onnx")
    assert converted.returncode == 0, converted.stderr
    compare(tmp_path / "model.onnx", model, activations(0))

    torch.export.save(program, tmp_path / "model.pt2")
    assert "run_decompositions({})" in refusal("convert", tmp_path / "model.pt2", tmp_path / "model.onnx")


def test_the_quantized_model_is_left_as_it_is(tmp_path: pathlib.Path) -> None:
    model = quantized(Feedforward(), WEIGHT_ONLY["int4"](), 0)
    before = copy.deepcopy(model)
    for capture in CAPTURES:
        opbridge.export(model, (torch.randn(2, 96),), tmp_path / "model.onnx", capture=capture)
    assert type(model.up.weight) is type(before.up.weight)
    x = torch.randn(2, 96)
    torch.testing.assert_close(model(x), before(x), rtol=0, atol=0)


class Convolutional(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.first = nn.Linear(8 * 8 * 8, 32)
        self.second = nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.norm(self.conv(x)))
        return self.second(torch.relu(self.first(x.flatten(1))))


@functools.cache  # to prepare a model for training takes many seconds
def quantized_graph(is_trained: bool, is_dynamic: bool, seed: int) -> nn.Module:
    from torchao.quantization import pt2e
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e, prepare_qat_pt2e
    from torchao.quantization.pt2e.quantizer.x86_inductor_quantizer import (
        X86InductorQuantizer,
        get_default_x86_inductor_quantization_config,
    )

    torch.manual_seed(seed)
    model = Convolutional().train(is_trained)
    batch = {0: torch.export.Dim("batch")}
    graph = torch.export.export(model, (torch.randn(4, 3, 8, 8),), dynamic_shapes=(batch,)).module()
    config = get_default_x86_inductor_quantization_config(is_qat=is_trained, is_dynamic=is_dynamic)
    prepare = prepare_qat_pt2e if is_trained else prepare_pt2e
    observed = prepare(graph, X86InductorQuantizer().set_global(config))
    for _ in range(4):
        observed(torch.randn(4, 3, 8, 8))
    converted = convert_pt2e(observed)
    pt2e.move_exported_model_to_eval(converted)
    return converted


@pytest.mark.parametrize("capture", CAPTURES)
@pytest.mark.parametrize("is_dynamic", [False, True])
@pytest.mark.parametrize("is_trained", [False, True])
def test_quantized_graphs(is_trained: bool, is_dynamic: bool, capture: str, tmp_path: pathlib.Path) -> None:
    """An activation halfway between two levels may be rounded to the other one, so elements differ by little."""
    path = tmp_path / "model.onnx"
    for seed in range(2):
        model = quantized_graph(is_trained, is_dynamic, seed)
        opbridge.export(model, (torch.randn(4, 3, 8, 8),), path, capture=capture, dynamic_shapes=({0: "batch"},))
        running = session(path)
        for batch in (1, 3, 16):
            x = torch.randn(batch, 3, 8, 8)
            [actual] = running.run(None, {running.get_inputs()[0].name: x.numpy()})
            expected = model(x)
            distance = (torch.from_numpy(actual) - expected).abs() / expected.abs().max()
            assert distance.max() < 0.02
            assert distance.median() < 0.005
    assert ("INT8" if is_dynamic else "UINT8") in sizes_of_types(path)
    if not is_dynamic:
        assert {"QuantizeLinear", "DequantizeLinear"} <= set(operators(path))


def test_int8_weights_of_integer_products(tmp_path: pathlib.Path) -> None:
    """On some processors, products of uint8 and int8 saturate, unless weights are small or convolutions depthwise."""

    def levels(x: torch.Tensor) -> torch.Tensor:
        return torch.fake_quantize_per_tensor_affine(x, 0.02, 0, 0, 255)

    def weight(*shape: int, most: int = 127) -> nn.Parameter:
        return nn.Parameter(torch.full(shape, most * 0.01))

    class Layers(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.full, self.depthwise, self.small = weight(4, 4, 3, 3), weight(4, 1, 3, 3), weight(4, 4, 1, 1, most=64)
            self.head = weight(5, 64)

        def kernel(self, x: torch.Tensor) -> torch.Tensor:
            return torch.fake_quantize_per_tensor_affine(x, 0.01, 0, -128, 127)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = levels(F.conv2d(levels(x), self.kernel(self.full)) / 30)
            x = levels(F.conv2d(x, self.kernel(self.depthwise), groups=4) / 10)
            x = levels(F.conv2d(x, self.kernel(self.small)))
            return F.linear(x.flatten(1), self.kernel(self.head))

    path = tmp_path / "model.onnx"
    model, x = Layers().eval(), torch.rand(2, 4, 8, 8) * 5
    opbridge.export(model, (x,), path, dynamic_shapes={"x": {0: "batch"}})
    types = {tuple(t.dims): TensorProto.DataType.Name(t.data_type) for t in onnx.load(path).graph.initializer}
    assert [types[tuple(p.shape)] for p in model.parameters()] == ["UINT8", "INT8", "INT8", "UINT8"]
    compare(path, model, iter([x, torch.rand(3, 4, 8, 8) * 5]))


def test_training_with_fake_quantization(tmp_path: pathlib.Path) -> None:
    from torchao.quantization.qat import QATConfig

    base = Int8DynamicActivationIntxWeightConfig(weight_dtype=torch.int4, weight_granularity=PerGroup(32))
    torch.manual_seed(0)
    model = Parallel()
    quantize_(model, QATConfig(base, step="prepare"))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(8, 96)).square().mean().backward()
        optimizer.step()
    model.eval()
    for step in ("prepared", "converted"):
        if step == "converted":
            quantize_(model, QATConfig(base, step="convert"))
        for capture in CAPTURES:
            path = tmp_path / f"{step}.onnx"
            opbridge.export(model, (torch.randn(2, 4, 96),), path, capture=capture, dynamic_shapes=DIMS)
            compare(path, model, activations(0))
    assert "MatMulNBits" in operators(tmp_path / "converted.onnx")
