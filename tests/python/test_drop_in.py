"""Calls of torch.onnx.export as scripts of 2020 to 2026 contain them, with opbridge.export in its place.

Each call runs as it stands there, and its model is compared with PyTorch in ONNX Runtime, dynamic sizes at another size
than that of the export.
"""

from __future__ import annotations

import dataclasses
import io
import os
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import opbridge
import opbridge.torch_onnx as torch_onnx
from opbridge.runtime import run, session

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.*:FutureWarning", "ignore:.*torch.jit.*:DeprecationWarning")


class Detector(nn.Module):
    """A convolutional network with several outputs and sizes taken from its input, like YOLO's heads."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.SiLU())
        self.heads = nn.ModuleList(nn.Conv2d(8, 3 * 6, 1) for _ in range(2))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        first = self.stem(x)
        maps = [head(y) for head, y in zip(self.heads, (first, F.max_pool2d(first, 2)), strict=True)]
        rows = []
        for each in maps:
            batch, _, height, width = each.shape
            rows.append(each.view(batch, 3, 6, height, width).permute(0, 1, 3, 4, 2).reshape(batch, -1, 6).sigmoid())
        return torch.cat(rows, 1), maps[0]


class Segmenter(nn.Module):
    """Returns an OrderedDict at the size of the input, like torchvision's segmentation models."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone, self.head = nn.Conv2d(3, 8, 3, 2, 1), nn.Conv2d(8, 4, 1)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        y = self.head(self.backbone(x).relu())
        return OrderedDict(out=F.interpolate(y, size=x.shape[-2:], mode="bilinear", align_corners=False))


class Encoder(nn.Module):
    """Takes its inputs by name and returns a dict, like the models of transformers."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(50, 16)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor | None = None, output_pooled: bool = False
    ) -> dict[str, torch.Tensor]:
        mask = None if attention_mask is None else attention_mask == 0
        hidden = self.layer(self.embedding(input_ids), src_key_padding_mask=mask)
        return {"last_hidden_state": hidden, **({"pooler_output": hidden[:, 0].tanh()} if output_pooled else {})}


class Tutorial(nn.Module):
    """The network of PyTorch's super-resolution tutorial."""

    def __init__(self, factor: int = 2) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 8, 5, 1, 2), nn.Conv2d(8, factor**2, 3, 1, 1)
        self.shuffle = nn.PixelShuffle(factor)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.shuffle(self.conv2(self.conv1(x).relu()))


class Loop(nn.Module):
    def forward(self, x: torch.Tensor, times: int = 2) -> torch.Tensor:
        for _ in range(times):
            x = x * 2 + 1
        return x


torch.manual_seed(0)
IMAGE = torch.randn(1, 3, 16, 16)
LUMA = torch.randn(1, 1, 12, 12)
IDS, MASK = torch.randint(0, 50, (1, 7)), torch.ones(1, 7, dtype=torch.int64)
LONGER = {"input_ids": torch.randint(0, 50, (3, 9)), "attention_mask": torch.ones(3, 9, dtype=torch.int64)}


@dataclasses.dataclass
class Call:
    """``call`` exports ``model`` to a file, by the given name, or returns the bytes of the model or a program.

    ``inputs`` are arguments with which the model is compared.
    """

    model: Callable[[], Any]
    call: Callable[[Any, str], Any]
    inputs: tuple[Any, ...] | dict[str, Any] = (IMAGE,)


def stream(model: Any, name: str) -> bytes:
    f = io.BytesIO()
    opbridge.export(model, IMAGE, f, opset_version=12, input_names=["images"], output_names=["a", "b"])
    return f.getvalue()


def opened(model: Any, name: str) -> None:
    with open(name, "wb") as f:
        opbridge.export(model, (LUMA,), f)


def with_mode(model: Any, name: str) -> None:
    with torch_onnx.select_model_mode_for_export(model, torch_onnx.TrainingMode.EVAL):
        torch_onnx.export(model, LUMA, name)


def optimized(model: Any, name: str) -> None:
    onnx_program = opbridge.export(model, (LUMA,), dynamo=True)
    onnx_program.optimize()
    onnx_program.save(name)


class Exportable(torch_onnx.ExportableModule):
    def __init__(self) -> None:
        super().__init__()
        self.model = Tutorial()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.model(x)

    def example_arguments(self) -> Any:
        return (LUMA,), None

    def input_names(self) -> Any:
        return ("luma",)

    def output_names(self) -> Any:
        return ("image",)

    def dynamic_shapes(self) -> Any:
        return ({0: "batch_size"},)


BATCH_OF_3 = (torch.randn(3, 3, 16, 16),)
LUMA_OF_4 = (torch.randn(4, 1, 12, 12),)

CALLS: dict[str, Call] = {
    # Tutorials of PyTorch.
    "alexnet tutorial": Call(
        Tutorial,
        lambda model, name: opbridge.export(
            model,
            LUMA,
            name,
            verbose=True,
            input_names=["actual_input_1"] + [f"learned_{i}" for i in range(4)],
            output_names=["output1"],
        ),
        (LUMA,),
    ),
    "super resolution tutorial": Call(
        Tutorial,
        lambda model, name: opbridge.export(
            model,  # model being run
            LUMA,  # model input (or a tuple for multiple inputs)
            name,  # where to save the model (can be a file or file-like object)
            export_params=True,  # store the trained parameter weights inside the model file
            opset_version=10,  # the ONNX version to export the model to
            do_constant_folding=True,  # whether to execute constant folding for optimization
            input_names=["input"],  # the model's input names
            output_names=["output"],  # the model's output names
            dynamic_axes={"input": {0: "batch_size"}, "output": {0: "batch_size"}},
        ),
        LUMA_OF_4,
    ),
    "onnx tutorial of 2.5": Call(
        Tutorial,
        lambda model, name: opbridge.export(model, (LUMA,), dynamo=True).save(name),
        (LUMA,),
    ),
    "onnx tutorial of 2.6": Call(
        Tutorial,
        lambda model, name: opbridge.export(model, (LUMA,), name, input_names=["input"], dynamo=True, report=False),
        (LUMA,),
    ),
    "optimize, then save": Call(Tutorial, optimized, (LUMA,)),
    "dynamo with dynamic_shapes": Call(
        Tutorial,
        lambda model, name: opbridge.export(
            model,
            (LUMA,),
            name,
            dynamo=True,
            external_data=False,
            dynamic_shapes={"x": {0: torch.export.Dim("batch", min=1, max=64)}},
            optimize=True,
            verify=True,
        ),
        LUMA_OF_4,
    ),
    "dynamo with dynamic_shapes as a tuple": Call(
        Tutorial,
        lambda model, name: opbridge.export(model, (LUMA,), name, dynamo=True, dynamic_shapes=({0: "batch"},)),
        LUMA_OF_4,
    ),
    "dynamo with Dim.AUTO": Call(
        Tutorial,
        lambda model, name: opbridge.export(
            model, (LUMA.expand(2, 1, 12, 12),), name, dynamo=True, dynamic_shapes=({0: torch.export.Dim.AUTO},)
        ),
        LUMA_OF_4,
    ),
    "dynamo with fallback": Call(
        Tutorial,
        lambda model, name: opbridge.export(model, (LUMA,), name, dynamo=True, fallback=True, report=False),
        (LUMA,),
    ),
    "dynamo=False": Call(
        Tutorial,
        lambda model, name: opbridge.export(
            model,
            (LUMA,),
            name,
            dynamo=False,
            opset_version=17,
            input_names=["x"],
            output_names=["y"],
            dynamic_axes={"x": [0], "y": [0]},
        ),
        LUMA_OF_4,
    ),
    "an ExportedProgram": Call(
        Tutorial,
        lambda model, name: opbridge.export(torch.export.export(model, (LUMA,)), None, name, verify=True),
        (LUMA,),
    ),
    "an ExportedProgram without arguments": Call(
        Tutorial, lambda model, name: opbridge.export(torch.export.export(model, (LUMA,))).save(name), (LUMA,)
    ),
    "an ExportableModule": Call(Exportable, lambda model, name: torch_onnx.export(model, f=name), LUMA_OF_4),
    "to_onnx of an ExportableModule": Call(Exportable, lambda model, name: model.to_onnx().save(name), LUMA_OF_4),
    # YOLOv5, YOLOv7, YOLOX, Ultralytics.
    "yolov5": Call(
        Detector,
        lambda model, name: opbridge.export(
            model.cpu(),
            IMAGE.cpu(),
            Path(name),
            verbose=False,
            opset_version=12,
            training=torch.onnx.TrainingMode.EVAL,
            do_constant_folding=True,
            input_names=["images"],
            output_names=["output0", "output1"],
            dynamic_axes={
                "images": {0: "batch", 2: "height", 3: "width"},
                "output0": {0: "batch", 1: "anchors"},
                "output1": {0: "batch"},
            },
        ),
        (torch.randn(2, 3, 32, 24),),
    ),
    "yolov7": Call(
        Detector,
        lambda model, name: opbridge.export(
            model,
            IMAGE,
            name,
            verbose=False,
            opset_version=12,
            input_names=["images"],
            output_names=["classes", "boxes"],
            dynamic_axes=None,
        ),
    ),
    "yolox": Call(
        Detector,
        lambda model, name: opbridge.export(
            model,
            IMAGE,
            name,
            input_names=["images"],
            output_names=["output", "map"],
            dynamic_axes={"images": {0: "batch"}, "output": {0: "batch"}, "map": {0: "batch"}},
            opset_version=11,
        ),
        BATCH_OF_3,
    ),
    "ultralytics": Call(
        Detector,
        lambda model, name: opbridge.export(
            model,
            IMAGE,
            name,
            verbose=False,
            opset_version=13,
            do_constant_folding=True,
            input_names=["images"],
            output_names=["output0", "output1"],
            dynamic_axes={},
            **{"dynamo": False},
        ),
    ),
    # timm.
    "timm": Call(
        Detector,
        lambda model, name: opbridge.export(
            model,
            IMAGE,
            name,
            training=torch.onnx.TrainingMode.EVAL,
            export_params=True,
            verbose=False,
            input_names=["input0"],
            output_names=["output0", "output1"],
            keep_initializers_as_inputs=None,
            dynamic_axes={"input0": {0: "batch"}, "output0": {0: "batch"}},
            opset_version=13,
            operator_export_type=torch.onnx.OperatorExportTypes.ONNX,
        ),
        BATCH_OF_3,
    ),
    "timm with aten_fallback": Call(
        Detector,
        lambda model, name: opbridge.export(
            model,
            IMAGE,
            name,
            keep_initializers_as_inputs=True,
            operator_export_type=torch.onnx.OperatorExportTypes.ONNX_ATEN_FALLBACK,
        ),
    ),
    # transformers.
    "transformers.onnx": Call(
        Encoder,
        lambda model, name: opbridge.export(
            model,
            ({"input_ids": IDS, "attention_mask": MASK},),
            f=Path(name).as_posix(),
            input_names=["input_ids", "attention_mask"],
            output_names=["last_hidden_state"],
            dynamic_axes={
                "input_ids": {0: "batch", 1: "sequence"},
                "attention_mask": {0: "batch", 1: "sequence"},
                "last_hidden_state": {0: "batch", 1: "sequence"},
            },
            do_constant_folding=True,
            opset_version=14,
        ),
        LONGER,
    ),
    "convert_graph_to_onnx": Call(
        Encoder,
        lambda model, name: opbridge.export(
            model,
            (IDS, MASK),
            f=name,
            input_names=["input_ids", "attention_mask"],
            output_names=["output_0"],
            dynamic_axes={"input_ids": [0, 1], "attention_mask": [0, 1], "output_0": [0, 1]},
            do_constant_folding=True,
            use_external_data_format=False,
            enable_onnx_checker=True,
            opset_version=11,
        ),
        LONGER,
    ),
    "optimum": Call(
        Encoder,
        lambda model, name: opbridge.export(
            model,
            (),
            kwargs={"input_ids": IDS, "attention_mask": MASK},
            f=name,
            input_names=["input_ids", "attention_mask"],
            output_names=["last_hidden_state"],
            dynamic_axes={"input_ids": {0: "b", 1: "s"}, "attention_mask": {0: "b", 1: "s"}},
            do_constant_folding=True,
            opset_version=18,
            dynamo=False,
        ),
        LONGER,
    ),
    "a dict after the tensors": Call(
        Encoder,
        lambda model, name: opbridge.export(model, (IDS, {"attention_mask": MASK}), name, opset_version=14),
        (IDS, MASK),
    ),
    "an empty dict at the end": Call(
        Encoder, lambda model, name: opbridge.export(model, (IDS, {}), name, opset_version=14), (IDS,)
    ),
    # Segmentation.
    "segmentation": Call(
        Segmenter,
        lambda model, name: opbridge.export(
            model,
            IMAGE,
            name,
            export_params=True,
            opset_version=11,
            do_constant_folding=True,
            input_names=["input"],
            output_names=["out"],
            dynamic_axes={"input": {0: "batch", 2: "h", 3: "w"}, "out": {0: "batch"}},
        ),
        (torch.randn(2, 3, 20, 24),),
    ),
    # Scripts of 2020.
    "keep_initializers_as_inputs": Call(
        Segmenter,
        lambda model, name: opbridge.export(
            model, IMAGE, name, verbose=True, keep_initializers_as_inputs=True, opset_version=11, strip_doc_string=True
        ),
    ),
    "positional file and keywords of 1.x": Call(
        Detector,
        lambda model, name: opbridge.export(
            model,
            IMAGE,
            name,
            export_params=True,
            verbose=False,
            training=False,
            aten=False,
            export_raw_ir=False,
            _retain_param_name=True,
            do_constant_folding=False,
            strip_doc_string=False,
            custom_opsets=None,
        ),
    ),
    "example_outputs of a scripted model": Call(
        lambda: torch.jit.script(Loop()),
        lambda model, name: opbridge.export(model, (LUMA,), name, example_outputs=model(LUMA), opset_version=13),
        (LUMA,),
    ),
    "a traced model": Call(
        lambda: torch.jit.trace(Tutorial().eval(), LUMA),
        lambda model, name: opbridge.export(
            model, LUMA, name, opset_version=12, input_names=["x"], dynamic_axes={"x": {0: "batch"}}
        ),
        LUMA_OF_4,
    ),
    "a scripted function": Call(
        lambda: torch.jit.script(halved_where_positive), lambda model, name: opbridge.export(model, LUMA, name), (LUMA,)
    ),
    "a stream": Call(Detector, stream),
    "a file-like object": Call(Tutorial, opened, (LUMA,)),
    "a list of arguments": Call(Encoder, lambda model, name: opbridge.export(model, [IDS, MASK], name), (IDS, MASK)),
    "a number among the arguments": Call(Loop, lambda model, name: opbridge.export(model, (LUMA, 3), name), (LUMA, 3)),
    # Custom operators of libraries.
    "mmdeploy": Call(
        Detector,
        lambda model, name: torch_onnx.export(
            model,
            IMAGE,
            name,
            export_params=True,
            input_names=["input"],
            output_names=["dets", "labels"],
            opset_version=11,
            dynamic_axes={"input": {0: "batch", 2: "height", 3: "width"}, "dets": {0: "batch"}},
            keep_initializers_as_inputs=False,
            verbose=False,
        ),
        (torch.randn(2, 3, 24, 32),),
    ),
    "detectron2": Call(
        Detector,
        lambda model, name: opbridge.export(
            model,
            (IMAGE,),
            name,
            operator_export_type=torch.onnx.OperatorExportTypes.ONNX_FALLTHROUGH,
            opset_version=16,
            autograd_inlining=False,
        ),
    ),
    "select_model_mode_for_export": Call(Tutorial, with_mode, (LUMA,)),
}


def halved_where_positive(x: torch.Tensor) -> torch.Tensor:
    return torch.where(x > 0, x / 2, x)


@pytest.mark.parametrize("name", CALLS)
def test_call(name: str, tmp_path: Path) -> None:
    each = CALLS[name]
    model = each.model()
    if isinstance(model, nn.Module):
        model.eval()
    path = str(tmp_path / "model.onnx")
    returned = each.call(model, path)
    if isinstance(returned, bytes):
        Path(path).write_bytes(returned)
    onnx.checker.check_model(path)
    args, kwargs = ((), each.inputs) if isinstance(each.inputs, dict) else (each.inputs, {})
    with torch.no_grad():
        expected = torch.utils._pytree.tree_leaves(model(*args, **kwargs))
    running = session(path)
    tensors = [value for value in [*args, *kwargs.values()] if isinstance(value, torch.Tensor)]
    actual = run(running, dict(zip([value.name for value in running.get_inputs()], tensors, strict=True)))
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)


def test_names_of_the_example_reach_the_model(tmp_path: Path) -> None:
    path = os.fspath(tmp_path / "model.onnx")
    CALLS["alexnet tutorial"].call(Tutorial().eval(), path)
    graph = onnx.load(path).graph
    assert [value.name for value in graph.input] == ["actual_input_1"]
    assert [tensor.name for tensor in graph.initializer] == ["learned_0", "learned_1", "learned_2", "learned_3"]
    CALLS["an ExportableModule"].call(Exportable().eval(), path)
    graph = onnx.load(path).graph
    assert [value.name for value in (*graph.input, *graph.output)] == ["luma", "image"]


def test_the_script_of_mmdeploy_s_page(tmp_path: Path, monkeypatch: Any) -> None:
    pytest.importorskip("torchvision")
    page = (Path(__file__).parents[2] / "docs" / "from-mmdeploy.md").read_text()
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    try:
        exec(compile(page.split("```python\n")[1].split("```")[0], "from-mmdeploy.md", "exec"), names)
    finally:
        for name in ("::grid_sampler", "::roll"):
            torch.onnx.unregister_custom_op_symbolic(name, 11)
    with torch.no_grad():
        expected = names["model"](names["image"], names["grid"])
    torch.testing.assert_close(torch.tensor(names["result"]), expected, rtol=1e-4, atol=1e-5)
    nodes = [f"{node.domain}::{node.op_type}" for node in onnx.load(tmp_path / "model.onnx").graph.node]
    assert {"mmdeploy::MMCVModulatedDeformConv2d", "mmdeploy::grid_sampler"} <= set(nodes)


def test_the_script_of_the_page(tmp_path: Path, monkeypatch: Any) -> None:
    page = (Path(__file__).parents[2] / "docs" / "from-torch-onnx.md").read_text()
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(compile(page.split("```python\n")[1].split("```")[0], "from-torch-onnx.md", "exec"), names)
    with torch.no_grad():
        torch.testing.assert_close(torch.tensor(names["result"]), names["model"](names["image"]), rtol=1e-4, atol=1e-5)
    assert names["features"].shape == (4, 8, 30, 30)


class Encoder(torch.nn.Module):
    def forward(self, ids: torch.Tensor, types: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return ids * mask + 100 * types


@pytest.mark.parametrize("form", ["kwargs", "last argument"])
def test_names_of_keyword_arguments_in_another_order(form: str, tmp_path: Path) -> None:
    ids, mask, types = torch.tensor([5.0, 6.0]), torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0])
    call = {"ids": ids, "mask": mask, "types": types}
    path = tmp_path / "m.onnx"

    def export(*names: str) -> None:
        given: dict[str, Any] = {"kwargs": call} if form == "kwargs" else {"args": (call,)}
        opbridge.export(Encoder(), f=path, input_names=names, **given)

    export(*call)
    (result,) = opbridge.session(path).run(None, {name: value.numpy() for name, value in call.items()})
    assert result.tolist() == [5, 100]
    with pytest.raises(opbridge.InvalidArgumentError, match="not clear which order input_names has"):
        export("a", "b", "c")


def test_forms_of_dynamic_axes(tmp_path: Path) -> None:
    x = torch.rand(2, 3)

    def sizes(axes: dict[str, Any]) -> list[str | int]:
        program = opbridge.export(
            lambda a, b: a + b, (x, x), opset_version=np.int64(17), input_names=["x", "y"], dynamic_axes=axes
        )
        dims = [value.type.tensor_type.shape.dim[0] for value in program.model_proto.graph.input]
        return [dim.dim_param or dim.dim_value for dim in dims]

    assert sizes({"x": [0], "y": {np.int64(0): "batch"}}) == ["batch", "batch"]
    assert sizes({"x": [0], "y": [0]}) == ["x_dim_0", "x_dim_0"]
    assert sizes({"x": None, "y": {}}) == [2, 2]
    with pytest.raises(opbridge.InvalidArgumentError, match="it must be a list of axes, or a dict with names"):
        sizes({"x": 0})
    with pytest.raises(opbridge.InvalidArgumentError, match="calls axis 0 of 'x' 5, which is not a name"):
        sizes({"x": {0: 5}})


def test_sessions_of_bytes_and_of_sets_of_operators() -> None:
    stream = io.BytesIO()
    opbridge.export(lambda a: a + 1, torch.rand(2), stream, input_names=["x"])
    running = opbridge.session(stream.getvalue(), bundled=False, libraries=[opbridge.operators.COMPAT])
    assert running.run(None, {"x": np.zeros(2, np.float32)})[0].tolist() == [1, 1]
