"""NumPy arrays of the tensors that a model holds: a capture knows their values, and refuses writes to them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from dynamic_check import CAPTURES
from torch import nn

import opbridge
from checking.models import compare, loaded

Function = Callable[[Any, torch.Tensor], torch.Tensor]
OUTSIDE = torch.arange(1.0, 4.0)


class Holder(nn.Module):
    def __init__(self, function: Function) -> None:
        super().__init__()
        self.table = torch.arange(1.0, 4.0)
        self.register_buffer("buffer", torch.arange(2.0, 5.0))
        self.weight = nn.Parameter(torch.arange(3.0, 6.0))
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(self, x)


def from_array_of_outside(_: Any, x: torch.Tensor) -> torch.Tensor:
    return x[:, :3] * torch.tensor(OUTSIDE.numpy())


def chosen_by_array(model: Any, x: torch.Tensor) -> torch.Tensor:
    return x * 2 if np.allclose(model.table, [1.0, 2.0, 3.0]) else x


READS: dict[str, Function] = {
    "tensor": lambda model, x: x[:, :3] * torch.tensor(model.table.numpy()),
    "from_numpy": lambda model, x: x[:, :3] * torch.from_numpy(model.table.numpy()),
    "as_tensor": lambda model, x: x[:, :3] * torch.as_tensor(model.table.cpu().numpy()),
    "new_tensor": lambda model, x: x[:, :3] * x.new_tensor(model.table.numpy()),
    "asarray": lambda model, x: x[:, :3] * torch.tensor(np.asarray(model.table, dtype=np.float32)),
    "function": lambda model, x: x[:, :3] * torch.tensor(np.sqrt(model.table)),
    "item": lambda model, x: x * float(model.table.numpy()[1]),
    "sum": lambda model, x: x * float(np.sum(model.table.numpy())),
    "index": lambda model, x: x[:, torch.tensor(model.table.numpy().astype(int) - 1)],
    "loop": lambda model, x: torch.stack([x[:, int(i) - 1] for i in model.table.numpy()]),
    "copy": lambda model, x: x[:, :3] * torch.from_numpy(model.table.numpy().copy()).mul_(2) + model.table,
    "result": lambda model, x: x[:, :3] * torch.tensor((1 - model.table).clamp(min=-1).numpy()),
    "made": lambda model, x: x[:, :3] * torch.tensor(np.flip(torch.linspace(0, 1, 3).numpy()).copy()),
    "view": lambda model, x: x[:, :2] * torch.tensor(model.table[1:].numpy()),
    "buffer": lambda model, x: x[:, :3] * torch.tensor(model.buffer.numpy()),
    "parameter": lambda model, x: x[:, :3] * torch.tensor(model.weight.detach().cpu().numpy()),
    "forced": lambda model, x: x[:, :3] * torch.tensor(model.weight.numpy(force=True)),
    "from_dlpack": lambda model, x: x[:, :3] * torch.from_dlpack(model.table),
    "outside": from_array_of_outside,
    "branch": chosen_by_array,
}


@CAPTURES
@pytest.mark.parametrize("sizes", [None, ({0: "n"},)], ids=["constant", "dynamic"])
@pytest.mark.parametrize("read", READS)
def test_values_are_known(read: str, sizes: Any, capture: Any, tmp_path: Path) -> None:
    model, path = Holder(READS[read]), tmp_path / "m.onnx"
    opbridge.export(model, (torch.rand(4, 5),), path, capture=capture, dynamic_shapes=sizes)
    compare(model, loaded(path), [(torch.rand(n, 5),) for n in ((4, 1, 7) if sizes else (4,))])


def to_element(model: Any, x: torch.Tensor) -> torch.Tensor:
    model.table.numpy()[1] = 7.0
    return x[:, :3] * model.table


def through_tensor(model: Any, x: torch.Tensor) -> torch.Tensor:
    torch.from_numpy(model.table.numpy()).add_(x.sum())
    return x[:, :3] * model.table


def through_part(model: Any, x: torch.Tensor) -> torch.Tensor:
    torch.as_tensor(model.table.numpy()[1:])[0] = 9.0
    return x[:, :3] * model.table


def of_made(_: Any, x: torch.Tensor) -> torch.Tensor:
    made = torch.tensor([1.0, 2.0, 3.0])
    array = made.numpy()
    made.add_(x.sum())
    return x[:, :3] * torch.tensor(array)


def read_before(model: Any, x: torch.Tensor) -> torch.Tensor:
    array = model.table.numpy()
    model.table.mul_(2)
    return x[:, :3] * torch.tensor(array)


@CAPTURES
@pytest.mark.parametrize("sizes", [None, ({0: "n"},)], ids=["constant", "dynamic"])
@pytest.mark.parametrize("write", [to_element, through_tensor, through_part, of_made, read_before])
def test_writes_are_refused(write: Function, sizes: Any, capture: Any, tmp_path: Path) -> None:
    model = Holder(write)
    with pytest.raises(opbridge.UnsupportedError, match=r"memory that a tensor and its NumPy array.* share"):
        opbridge.export(model, (torch.rand(4, 5),), tmp_path / "m.onnx", capture=capture, dynamic_shapes=sizes)
    assert torch.equal(model.table, torch.arange(1.0, 4.0))
