"""The operators `_foreach_*` on lists of tensors."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
import torch
from functionalize_check import Model

import opbridge

NAMESPACE = "aten::_foreach_"
LEFT_OUT = ("powsum.Scalar",)  # it has no operator for one tensor
SCHEMAS = {
    f"{schema.name}.{schema.overload_name}".rstrip(".").removeprefix(NAMESPACE): schema
    for schema in torch._C._jit_get_all_schemas()
    if schema.name.startswith(NAMESPACE) and not any(argument.is_out for argument in schema.arguments)
}
ROWS = (torch.tensor([[1.5, -2.0], [0.25, 3.0]]), torch.tensor([-1.0, 0.5, 2.5]), torch.tensor(0.75))


def argument(name: str, kind: str, rows: list[torch.Tensor]) -> Any:
    """A value of the type ``kind`` for a list of three tensors."""
    if kind == "List[Tensor]":
        return rows if name == "self" else [row.flip(-1) * 2 + 0.125 if row.dim() else row + 1 for row in rows]
    if name == "scalars" and kind == "Tensor":
        return rows[0].flatten()[:3] * 0.5
    return {"List[number]": [0.5, 2.0, 3.0], "number": 0.5, "Tensor": torch.tensor(1.5)}[kind]


def result_of(name: str, tensors: tuple[torch.Tensor, ...]) -> Any:
    """What the operator returns for a list of three tensors, or writes to them."""
    packet, _, overload = name.partition(".")
    operator = getattr(getattr(torch.ops.aten, "_foreach_" + packet), overload or "default")
    needed = [each for each in SCHEMAS[name].arguments if not each.has_default_value() or each.name == "value"]
    rows = [tensors[0], tensors[0] + 1, tensors[0] * 2] if packet == "mm" else [tensor.clone() for tensor in tensors]
    return operator(*(argument(each.name, str(each.type), rows) for each in needed)) or rows


class EveryOperator(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.names = sorted(SCHEMAS.keys() - set(LEFT_OUT))

    def forward(self, *tensors: torch.Tensor) -> dict[str, Any]:
        return {name: result_of(name, tensors) for name in self.names}


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_every_operator(capture: Any, tmp_path: pathlib.Path) -> None:
    model = EveryOperator()
    opbridge.export(model, ROWS, tmp_path / "model.onnx", capture=capture, verify=True)
    opbridge.verify(tmp_path / "model.onnx", model, tuple(row * 0.5 + 0.25 for row in ROWS))


class Mixed(torch.nn.Module):
    """Lists of different element types, and a write to an input."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
        torch._foreach_add_([x, y], [2.5, 3])
        return torch._foreach_mul([x, y.int()], [y, y]), torch._foreach_sub([x, y.int()], 2)


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_dynamic_sizes_element_types_and_writes(capture: Any, tmp_path: pathlib.Path) -> None:
    options: dict[str, Any] = {"dynamic_shapes": {"x": {0: "n"}, "y": {0: "n"}}, "mutations_as_outputs": True}
    args = (torch.randn(3, 2), torch.randn(3, 1))
    opbridge.export(Mixed(), args, tmp_path / "model.onnx", capture=capture, **options)
    for rows in (1, 2, 7):
        opbridge.verify(tmp_path / "model.onnx", Mixed(), (torch.randn(rows, 2), torch.randn(rows, 1)))


class Clipped(torch.nn.Module):
    """The gradients of a loss, with a norm of at most 0.1, and that norm before."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(3, 2)

    def forward(self, x: torch.Tensor) -> Any:
        self.zero_grad()
        self.layer(x).square().sum().backward()
        norm = torch.nn.utils.clip_grad_norm_(self.parameters(), 0.1)
        return norm, *(parameter.grad for parameter in self.parameters())


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_clipped_gradients(capture: Any, tmp_path: pathlib.Path) -> None:
    args = (torch.randn(4, 3),)
    opbridge.export(Clipped(), args, tmp_path / "model.onnx", capture=capture, verify=True)


def test_lists_of_different_lengths_are_refused(tmp_path: pathlib.Path) -> None:
    program = torch.export.export(Model(lambda x, y: torch._foreach_add([x, y], [y, x])), ROWS[1:])
    node = next(node for node in program.graph.nodes if "foreach" in str(node.target))
    node.args = (node.args[0], node.args[1][:1])
    with pytest.raises(opbridge.UnsupportedError, match="aten::_foreach_add"):
        opbridge.export(program, ROWS[1:], tmp_path / "model.onnx")


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize("optimizer", [torch.optim.Adam, torch.optim.AdamW, torch.optim.NAdam])
def test_a_step_of_an_optimizer_inside_of_a_model(optimizer: Any, capture: Any, tmp_path: pathlib.Path) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        weight = torch.nn.Parameter(torch.ones(4, 2))
        with torch.enable_grad():
            (x @ weight).square().sum().backward()
        optimizer([weight], lr=0.1, foreach=True).step()
        return x @ weight.detach()

    opbridge.export(model, (torch.randn(3, 4),), tmp_path / "model.onnx", capture=capture, dynamic_shapes=({0: "n"},))
    for rows in (3, 1, 5):
        opbridge.verify(tmp_path / "model.onnx", model, (torch.randn(rows, 4),))
