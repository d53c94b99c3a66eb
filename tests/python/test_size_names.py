"""The names of dynamic sizes in the model."""

from __future__ import annotations

import pathlib
from typing import Any

import onnx
import pytest
import torch
from torch import nn
from torch.export import Dim

import opbridge

CAPTURES = pytest.mark.parametrize("capture", ["export", "trace"])


def sizes_of(path: pathlib.Path) -> dict[str, list[str | int]]:
    graph = onnx.load(path).graph
    return {
        value.name: [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for value in [*graph.input, *graph.output]
    }


class Detector(nn.Module):
    """Boxes with their scores, the indices of the positive ones, and twice as many rows."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        kept = torch.nonzero(x[:, 4] > 0.5).squeeze(1)
        boxes = x[kept]
        return boxes, kept, torch.cat([boxes, boxes])


@CAPTURES
def test_a_size_that_depends_on_data_has_the_name_of_the_outputs_axis(capture: Any, tmp_path: pathlib.Path) -> None:
    path, x = tmp_path / "model.onnx", torch.rand(20, 5)
    axes = {"x": {0: "candidates"}, "boxes": {0: "detections"}, "kept": {-1: "others"}, "twice": {0: "rows"}}
    names = ["boxes", "kept", "twice"]
    opbridge.export(Detector(), x, path, input_names=["x"], output_names=names, dynamic_axes=axes, capture=capture)
    assert sizes_of(path) == {
        "x": ["candidates", 5],
        "boxes": ["detections", 5],
        "kept": ["detections"],
        "twice": ["2*detections", 5],
    }
    for n in (1, 7, 40):
        opbridge.verify(path, Detector(), (torch.rand(n, 5),))


@CAPTURES
def test_a_name_of_an_inputs_size_stays_with_it(capture: Any, tmp_path: pathlib.Path) -> None:
    path, x = tmp_path / "model.onnx", torch.rand(20, 5)
    axes = {"x": {0: "n"}, "boxes": {0: "n"}}
    opbridge.export(Detector(), x, path, output_names=["boxes"], dynamic_axes=axes, capture=capture)
    sizes = sizes_of(path)
    assert sizes["x"] == ["n", 5]
    assert sizes["boxes"][0] != "n"


def test_an_axis_that_an_output_lacks_is_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(opbridge.InvalidArgumentError, match="the output 'boxes' has 2 axes; axis 2 cannot be dynamic"):
        opbridge.export(
            Detector(),
            torch.rand(20, 5),
            tmp_path / "model.onnx",
            output_names=["boxes"],
            dynamic_axes={"boxes": {2: "detections"}},
        )


class Scaled(nn.Module):
    def forward(self, x: torch.Tensor, *, factors: dict[str, torch.Tensor]) -> torch.Tensor:
        return x * factors["a"]


def scaled_program() -> torch.export.ExportedProgram:
    """A program whose second axis is constant."""
    n = Dim("n")
    return torch.export.export(
        Scaled(),
        (torch.rand(3, 4),),
        {"factors": {"a": torch.rand(3, 1)}},
        dynamic_shapes={"x": {0: n}, "factors": {"a": {0: n}}},
    )


@pytest.mark.parametrize(
    "declared",
    [
        {"dynamic_shapes": {"x": {0: "batch"}}},
        {"dynamic_shapes": ({0: Dim("batch")}, {"a": {0: Dim("batch")}})},
        {"dynamic_axes": {"x": {0: "batch"}}},
        {"dynamic_axes": {"left": {0: "batch"}}, "input_names": ["left", "right"]},
        {"dynamic_axes": {"factors_a": {0: "batch"}}},
    ],
)
def test_the_sizes_of_an_exported_program_are_named(tmp_path: pathlib.Path, declared: dict[str, Any]) -> None:
    path = tmp_path / "model.onnx"
    opbridge.export(scaled_program(), f=path, **declared)
    assert [sizes[0] for sizes in sizes_of(path).values()] == ["batch"] * 3


def test_a_constant_size_of_an_exported_program_is_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(opbridge.InvalidArgumentError, match="axis 1 of the input 'x' is 4 in the ExportedProgram"):
        opbridge.export(scaled_program(), f=tmp_path / "m.onnx", dynamic_shapes={"x": {0: "batch", 1: "width"}})
    program = scaled_program()
    program.example_inputs = None
    with pytest.raises(opbridge.InvalidArgumentError, match="has no example inputs"):
        opbridge.export(program, f=tmp_path / "m.onnx", dynamic_shapes={"x": {0: "batch"}})
