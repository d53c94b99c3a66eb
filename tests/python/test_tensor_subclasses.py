"""A model may make tensors of a class of its own, as libraries of Lie groups and of transforms do."""

from __future__ import annotations

from typing import Any

import onnx
import pytest
import torch
from torch.utils._python_dispatch import return_and_correct_aliasing

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


class Scaled(torch.Tensor):
    """A weight of int8, which operators see as float32, as libraries of quantization write it."""

    def __new__(cls, whole: torch.Tensor, scale: torch.Tensor) -> Any:
        return torch.Tensor._make_wrapper_subclass(cls, whole.shape, dtype=scale.dtype)  # type: ignore[attr-defined]

    def __init__(self, whole: torch.Tensor, scale: torch.Tensor) -> None:
        self.whole, self.scale = whole, scale

    @classmethod
    def of(cls, weight: torch.Tensor) -> Any:
        scale = weight.detach().abs().amax(1, keepdim=True) / 127
        return torch.nn.Parameter(cls((weight.detach() / scale).round().to(torch.int8), scale), requires_grad=False)

    def __tensor_flatten__(self) -> Any:
        return ["whole", "scale"], None

    @classmethod
    def __tensor_unflatten__(cls, inner: Any, meta: Any, size: Any, stride: Any) -> Any:
        return cls(inner["whole"], inner["scale"])

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        aten: Any = torch.ops.aten
        if func in (aten.detach.default, aten.t.default):
            return return_and_correct_aliasing(func, args, kwargs or {}, cls(func(args[0].whole), func(args[0].scale)))
        plain = [each.whole * each.scale if isinstance(each, cls) else each for each in args]
        return func(*plain, **(kwargs or {}))


class Quantized(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table = Scaled.of(torch.randn(1000, 32))
        self.linear = torch.nn.Linear(32, 64)
        self.linear.weight = Scaled.of(self.linear.weight)
        self.last = torch.nn.Linear(64, 5)

    def forward(self, indices: torch.Tensor) -> Any:
        rows = torch.nn.functional.embedding(indices, self.table)
        return self.last(self.linear(rows).relu()), self.table.mean() * self.table.shape[0]


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize("sizes", [None, ({0: "n"},)], ids=["constant", "dynamic"])
def test_weights_of_a_class_of_the_user(sizes: Any, capture: Any, tmp_path: Any) -> None:
    path, model = tmp_path / "model.onnx", Quantized()
    program = opbridge.export(model, (torch.tensor([1, 3, 7]),), path, dynamic_shapes=sizes, capture=capture)
    for count in (3,) if sizes is None else (3, 1, 5):
        opbridge.verify(path, model, (torch.randint(0, 1000, (count,)),))
    stored = [weight.data_type for weight in program.model_proto.graph.initializer]
    assert stored.count(onnx.TensorProto.INT8) == 2
