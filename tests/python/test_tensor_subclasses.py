"""A model may make tensors of a class of its own, as libraries of Lie groups and of transforms do."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import opbridge


class Rotation(torch.Tensor):
    """An angle, with an attribute that operators do not keep."""

    unit: float

    @staticmethod
    def __new__(cls, angle: torch.Tensor, unit: float) -> Any:
        return torch.Tensor.as_subclass(angle, cls)

    def __init__(self, angle: torch.Tensor, unit: float) -> None:
        self.unit = unit

    def scaled(self) -> Any:
        return self * self.unit

    def rotated(self, point: torch.Tensor) -> torch.Tensor:
        x, y = point.unbind(-1)
        return torch.stack((x * self.cos() - y * self.sin(), x * self.sin() + y * self.cos()), -1)


class Counting(Rotation):
    """Sees the functions that are called with it."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = super().__torch_function__(func, types, args, kwargs or {})
        return result + 1 if func is torch.sin else result


class Rotating(torch.nn.Module):
    def __init__(self, of: Any) -> None:
        super().__init__()
        self.of = of
        self.register_buffer("offset", torch.tensor([0.5]))
        self.scale = torch.nn.Parameter(torch.tensor([2.0]))

    def forward(self, angle: torch.Tensor, point: torch.Tensor) -> Any:
        rotation = self.of(angle, 0.5).scaled() + self.of(self.offset, 1.0) * self.scale.as_subclass(self.of)
        assert isinstance(rotation, self.of)
        assert not hasattr(rotation, "unit")
        rotation[:1] *= 2
        plain = torch.sin(rotation).as_subclass(torch.Tensor)
        assert not isinstance(plain, self.of)
        return rotation.rotated(point), plain, rotation[1:] if rotation.shape[0] > 3 else rotation


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize("sizes", [None, ({0: "n"}, {0: "n"})], ids=["constant", "dynamic"])
@pytest.mark.parametrize("of", [Rotation, Counting])
def test_tensors_of_a_class_of_the_model(of: Any, sizes: Any, capture: Any, tmp_path: Any) -> None:
    path, model = tmp_path / "model.onnx", Rotating(of)
    opbridge.export(model, (torch.rand(3), torch.rand(3, 2)), path, dynamic_shapes=sizes, capture=capture)
    for count in (3,) if sizes is None else (3, 1, 5):
        opbridge.verify(path, model, (torch.rand(count), torch.rand(count, 2)))


def test_tensors_of_torchvision(tmp_path: Any) -> None:
    image_of = pytest.importorskip("torchvision.tv_tensors").Image
    model: Any = lambda x: image_of(x * 2) + 1  # noqa: E731
    opbridge.export(model, (torch.rand(2, 3),), tmp_path / "model.onnx", verify=True)
