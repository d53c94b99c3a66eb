"""The steps of optimizers in one kernel, and of the gradient scaling of automatic mixed precision."""

from __future__ import annotations

import itertools
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from functionalize_check import Model
from lowering_check import check
from torch_versions import since_torch_2_14

import opbridge

aten = torch.ops.aten

GIVEN = object()  # an input of the model
SHAPES: tuple[tuple[int, ...], ...] = ((5, 7), (), (3,))
ADAM = {"lr": 0.1, "beta1": 0.9, "beta2": 0.95, "weight_decay": 0.0, "eps": 1e-8, "amsgrad": False, "maximize": False}
SGD = {
    "weight_decay": 0.0,
    "momentum": 0.0,
    "lr": 0.1,
    "dampening": 0.0,
    "nesterov": False,
    "maximize": False,
    "is_first_step": False,
}
ADAGRAD = {"lr": 0.1, "lr_decay": 0.0, "weight_decay": 0.0, "eps": 1e-8, "maximize": False}


def lists_of(name: str, options: dict[str, Any], dtype: torch.dtype = torch.float32) -> list[list[torch.Tensor]]:
    """The lists of tensors of a call: parameters, gradients, and the state."""

    def signed() -> list[torch.Tensor]:
        return [torch.randn(shape).to(dtype) for shape in SHAPES]

    def positive() -> list[torch.Tensor]:
        return [torch.rand(shape).to(dtype) for shape in SHAPES]

    steps = [torch.tensor(float(3 + i)) for i in range(len(SHAPES))]
    if name == "_fused_sgd":
        return [signed(), signed(), signed() if options["momentum"] else []]
    if name == "_fused_adagrad":
        return [signed(), signed(), positive(), steps]
    return [signed(), signed(), signed(), positive(), positive() if options["amsgrad"] else [], steps]


class Steps(torch.nn.Module):
    """Calls of one operator with several options, each with its own tensors."""

    def __init__(self, name: str, calls: list[dict[str, Any]], in_place: bool) -> None:
        super().__init__()
        self.packet = getattr(aten, name + "_" if in_place else name)
        self.in_place, self.calls = in_place, calls

    def forward(self, lists: list[list[list[torch.Tensor]]], scale: torch.Tensor, found: torch.Tensor) -> Any:
        results = []
        for each, options in zip(lists, self.calls, strict=True):
            overload = "tensor_lr" if isinstance(options["lr"], torch.Tensor) else "default"
            tensors = {"grad_scale": scale, "found_inf": found}
            filled = {name: tensors[name] if value is GIVEN else value for name, value in options.items()}
            result = getattr(self.packet, overload)(*each, **filled)
            results.append(each if self.in_place else result)
        return results


def options_of(name: str) -> Iterator[dict[str, Any]]:
    base = {"_fused_sgd": SGD, "_fused_adagrad": ADAGRAD}.get(name, ADAM)
    yield base
    for decay, maximize in itertools.product((0.0, 0.2), (False, True)):
        more = {"weight_decay": decay, "maximize": maximize}
        if name == "_fused_sgd":
            for momentum, nesterov, first in ((0.9, False, True), (0.9, False, False), (0.9, True, False)):
                yield base | more | {"momentum": momentum, "nesterov": nesterov, "is_first_step": first}
            yield base | more | {"momentum": 0.9, "dampening": 0.25}
        elif name == "_fused_adagrad":
            yield base | more | {"lr_decay": 0.5}
        else:
            yield base | more | {"amsgrad": maximize}
    more = {"weight_decay": 0.2, "grad_scale": GIVEN}
    yield base | more
    yield base | more | {"found_inf": GIVEN, "lr": torch.tensor(0.2)}
    yield base | {"found_inf": GIVEN, "lr": torch.tensor([0.3], dtype=torch.float64)}


NAMES = ("_fused_adam", "_fused_adamw", "_fused_sgd", "_fused_adagrad")


@pytest.mark.parametrize("found", [0.0, 1.0, 2.0])
@pytest.mark.parametrize("in_place", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_every_option(name: str, in_place: bool, found: float, tmp_path: pathlib.Path) -> None:
    calls = list(options_of(name))
    model = Steps(name, calls, in_place)
    args = ([lists_of(name, options) for options in calls], torch.tensor(4.0), torch.tensor(found))
    for capture in ("export", "trace"):
        opbridge.export(
            model, args, tmp_path / "model.onnx", capture=capture, mutations_as_outputs=in_place, verify=True
        )


def _type_cases() -> Iterator[Any]:
    for name, dtype in itertools.product(NAMES, [torch.float64, torch.float16, torch.bfloat16]):
        is_mixed_up = name == "_fused_sgd" and dtype.itemsize == 2
        yield pytest.param(name, dtype, marks=[since_torch_2_14("it mixes elements up")] if is_mixed_up else [])


@pytest.mark.parametrize(("name", "dtype"), [*_type_cases()])
def test_other_element_types(name: str, dtype: torch.dtype, tmp_path: pathlib.Path) -> None:
    calls = list(options_of(name))
    args = ([lists_of(name, options, dtype) for options in calls], torch.tensor([4.0]), torch.tensor([0.0]))
    opbridge.export(Steps(name, calls, False), args, tmp_path / "model.onnx", verify=True)


def test_gradients_are_returned_only_if_they_are_scaled(tmp_path: pathlib.Path) -> None:
    def outputs(**scale: torch.Tensor) -> int:
        def step(parameter: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
            aten._fused_sgd_([parameter], [gradient], [], **SGD, **scale)
            return parameter * gradient

        args = (torch.rand(3), torch.rand(3))
        opbridge.export(Model(step), args, tmp_path / "model.onnx", mutations_as_outputs=True, verify=True)
        return len(opbridge.session(tmp_path / "model.onnx").get_outputs())

    assert outputs() == 2
    assert outputs(grad_scale=torch.tensor(2.0)) == 3


def test_parts_of_one_tensor_and_a_tensor_given_twice(tmp_path: pathlib.Path) -> None:
    def step(x: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
        x = x.clone()
        aten._fused_sgd_([x[0], x[2], x[0]], [gradient, gradient * 2, gradient * 3], [], **SGD | {"weight_decay": 0.5})
        return x

    opbridge.export(Model(step), (torch.rand(4, 3), torch.rand(3)), tmp_path / "model.onnx", verify=True)


def test_lists_that_do_not_fit_are_refused(tmp_path: pathlib.Path) -> None:
    def step(x: torch.Tensor, y: torch.Tensor) -> Any:
        return aten._fused_sgd([x, x], [y, y], [], **SGD)

    program = torch.export.export(Model(step), (torch.rand(3), torch.rand(3)))
    node = next(node for node in program.graph.nodes if "fused_sgd" in str(node.target))
    lists = node.args
    node.args = (lists[0], lists[1][:1], lists[2])
    with pytest.raises(opbridge.UnsupportedError, match=r"_fused_sgd: its lists of tensors differ in length"):
        opbridge.export(program, (torch.rand(3), torch.rand(3)), tmp_path / "model.onnx")
    with pytest.raises(opbridge.UnsupportedError, match=r"_fused_sgd: a tensor has another size than its parameter"):
        check(step, torch.rand(3), torch.rand(1))
    with pytest.raises(opbridge.UnsupportedError, match=r"_fused_sgd: a tensor has another size than its parameter"):
        check(step, torch.rand(3), torch.rand(1, 3))


class Training(torch.nn.Module):
    def __init__(self, make: Callable[..., torch.optim.Optimizer], **options: Any) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(3, 2)
        self.optimizer = make(self.layer.parameters(), fused=True, **options)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        self.optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(self.layer(x), y)
        loss.backward()
        self.optimizer.step()
        return loss


OPTIMIZERS: list[tuple[Callable[..., torch.optim.Optimizer], dict[str, Any]]] = [
    (torch.optim.Adam, {"weight_decay": 0.1}),
    (torch.optim.AdamW, {"amsgrad": True}),
    (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}),
    (torch.optim.Adagrad, {"lr_decay": 0.1}),
]


@pytest.mark.parametrize(("make", "options"), OPTIMIZERS)
@pytest.mark.parametrize("capture", ["export", "trace"])
def test_a_step_of_training(
    make: Callable[..., torch.optim.Optimizer], options: dict[str, Any], capture: Any, tmp_path: pathlib.Path
) -> None:
    model, args = Training(make, **options), (torch.randn(4, 3), torch.randn(4, 2))
    model(*args)  # makes the state
    opbridge.export(model, args, tmp_path / "model.onnx", capture=capture, mutations_as_outputs=True)
    session = opbridge.session(tmp_path / "model.onnx")
    names = [output.name for output in session.get_outputs()]
    results = dict(zip(names, session.run(None, {"x": args[0].numpy(), "y": args[1].numpy()}), strict=True))
    loss = model(*args)
    torch.testing.assert_close(torch.as_tensor(results[names[0]]), loss.detach())
    torch.testing.assert_close(torch.as_tensor(results["layer.weight_out"]), model.layer.weight.detach())
    torch.testing.assert_close(torch.as_tensor(results["layer.bias_out"]), model.layer.bias.detach())


class Unscaling(torch.nn.Module):
    def __init__(self, in_place: bool) -> None:
        super().__init__()
        self.in_place = in_place

    def forward(self, tensors: list[torch.Tensor], found: torch.Tensor, inverse: torch.Tensor) -> Any:
        if not self.in_place:
            return aten._amp_foreach_non_finite_check_and_unscale(tensors, found, inverse)
        aten._amp_foreach_non_finite_check_and_unscale_(tensors, found, inverse)
        return [*tensors, found]


@pytest.mark.parametrize("in_place", [True, False])
@pytest.mark.parametrize("capture", ["export", "trace"])
def test_unscaled_gradients(in_place: bool, capture: Any, tmp_path: pathlib.Path) -> None:
    model = Unscaling(in_place)
    tensors = [torch.randn(3, 2), torch.tensor(1.5), torch.zeros(0), torch.randn(4).half(), torch.randn(4).double()]
    for found, inverse in ((torch.zeros(1), torch.tensor(0.25)), (torch.tensor(3.0), torch.tensor([1.0]))):
        args = (tensors, found, inverse)
        opbridge.export(
            model, args, tmp_path / "model.onnx", capture=capture, mutations_as_outputs=in_place, verify=True
        )
        for index, wrong in itertools.product((0, 1, 3, 4), (torch.inf, -torch.inf, torch.nan)):
            changed = [tensor.clone() for tensor in tensors]
            changed[index].view(-1)[0] = wrong
            opbridge.verify(tmp_path / "model.onnx", model, (changed, found.clone(), inverse))


@pytest.mark.parametrize("in_place", [True, False])
def test_updated_scale(in_place: bool, tmp_path: pathlib.Path) -> None:
    def update(scale: torch.Tensor, steps: torch.Tensor, found: torch.Tensor) -> Any:
        if not in_place:
            return aten._amp_update_scale(scale, steps, found, 2.1, 0.3, 2)
        return aten._amp_update_scale_(scale, steps, found, 2.1, 0.3, 2) * 1, scale, steps

    def step(steps: int) -> torch.Tensor:
        return torch.tensor(steps, dtype=torch.int32)

    model = Model(update)
    for shape in ((), (1,)):
        args = (torch.full(shape, 8.1), step(0), torch.zeros(shape))
        opbridge.export(model, args, tmp_path / "model.onnx", mutations_as_outputs=in_place, verify=True)
        for scale, steps, found in itertools.product((8.1, 3e38), (0, 1, 2), (0.0, 1.0, -2.0, torch.nan)):
            args = (torch.full(shape, scale), step(steps), torch.full(shape, found))
            opbridge.verify(tmp_path / "model.onnx", model, args)
