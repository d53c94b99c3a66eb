"""State that a model keeps between calls is returned, refused by name, or without effect; a capture restores it."""

from __future__ import annotations

import array
import collections
import contextlib
import copy
import dataclasses
import pathlib
import subprocess
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import opbridge
from opbridge.runtime import run, session

CAPTURES = pytest.mark.parametrize("capture", ["export", "trace"])
SIZES = pytest.mark.parametrize("dynamic", [None, ({0: "n"},)], ids=["fixed", "dynamic"])


@dataclasses.dataclass
class Hidden:
    h: Any = None
    count: int = 0


@dataclasses.dataclass(slots=True)
class Slotted:
    h: Any = None


class Shared:
    table: dict[str, Any] = {}  # noqa: RUF012 - of the class
    last = None


class Cell(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total = self.total * 0.5 + x.sum(0)
        return x + self.total


class Model(nn.Module):
    """A model with various kinds of state; its ``forward`` is ``function(self, x)``."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.function = function
        self.linear = nn.Linear(4, 4)
        self.register_buffer("h", torch.ones(1, 4))
        self.register_buffer("g", torch.zeros(1, 4))
        self.register_buffer("late", None)
        self.cell = Cell()
        self.plain = torch.ones(4)
        self.hidden: Any = None
        self.step = 0
        self.cache: dict[str, Any] = {}
        self.seen: list[Any] = []
        self.recent: Any = collections.deque(maxlen=2)
        self.names: set[str] = set()
        self.holder, self.slotted, self.shared = Hidden(), Slotted(), Shared()

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(self, x)


def everything(value: Any, known: set[int] | None = None) -> Any:
    """Everything reachable from a model's attributes, with tensors by their content."""
    known = set() if known is None else known
    if isinstance(value, torch.Tensor):
        assert type(value) in (torch.Tensor, nn.Parameter)
        return id(value), value.tolist(), value.requires_grad, None if value.grad is None else value.grad.tolist()
    if isinstance(value, dict):
        return [(key, everything(each, known)) for key, each in value.items()]
    if isinstance(value, (list, tuple, set, collections.deque)):
        return [everything(each, known) for each in value]
    if isinstance(value, (nn.Module, Hidden, Shared)) and id(value) not in known:
        known.add(id(value))
        return everything({**vars(type(value)).get("__annotations__", {}), **vars(value)}, known)
    if isinstance(value, Slotted):
        return everything(value.h)
    return value


def exported(function: Callable[..., Any], folder: pathlib.Path, **options: Any) -> list[str]:
    """Exports a model of ``function``, and compares its outputs with eager at the sizes that the model takes: the
    results, and the tensors that it writes to. Returns the names of the outputs."""
    model, x = Model(function).eval(), torch.randn(3, 4)
    path, before = folder / "model.onnx", (everything(model), x.clone())
    try:
        opbridge.export(model, (x,), path, **options)
    finally:
        assert everything(model) == before[0]
        assert torch.equal(x, before[1])
        assert Shared.table == {}
        assert Shared.last is None
    session = opbridge.session(path)
    names = [output.name for output in session.get_outputs()]
    for size in (3, 1, 5) if options.get("dynamic_shapes") else (3,):
        x, eager = torch.randn(size, 4), copy.deepcopy(model)
        results = session.run(None, {"x": x.numpy()})
        with torch.no_grad():
            returned = eager(given := x.clone())
        Shared.table, Shared.last = {}, None
        expected = list(returned) if isinstance(returned, tuple) else [returned]
        kept = dict(eager.named_buffers()) | dict(eager.named_parameters()) | {"x": given, "plain": eager.plain}
        expected += [kept[name.removesuffix("_out")] for name in names[len(expected) :]]
        assert len(results) == len(expected)
        for result, value in zip(results, expected, strict=True):
            torch.testing.assert_close(torch.from_numpy(result), value.detach(), rtol=1e-5, atol=1e-5)
    return names


WRITTEN: dict[str, tuple[Callable[..., Any], list[str]]] = {}
KEPT: dict[str, tuple[Callable[..., Any], str]] = {}
WITHOUT_EFFECT: dict[str, Callable[..., Any]] = {}


def written(*names: str) -> Callable[[Callable[..., Any]], Any]:
    return lambda function: WRITTEN.setdefault(function.__name__, (function, [*names]))[0]


def kept(name: str) -> Callable[[Callable[..., Any]], Any]:
    return lambda function: KEPT.setdefault(function.__name__, (function, name))[0]


def without_effect(function: Callable[..., Any]) -> Callable[..., Any]:
    WITHOUT_EFFECT[function.__name__] = function
    return function


@written("h")
def a_buffer_assigned_anew(self: Model, x: torch.Tensor) -> Any:
    self.h = self.h * 0.5 + x.sum(0, keepdim=True)
    return x + self.h


@written("cell.total")
def a_buffer_of_a_submodule(self: Model, x: torch.Tensor) -> Any:
    return self.cell(x) * self.cell.total


@written("h", "g")
def buffers_exchanged(self: Model, x: torch.Tensor) -> Any:
    self.h, self.g = self.g, self.h
    return x * self.h


@written("h")
def a_buffer_returned_and_assigned(self: Model, x: torch.Tensor) -> Any:
    old = self.h
    self.h = self.h * 0.5 + x.sum(0, keepdim=True)
    return old, self.h, old.view(4)


@written("h")
def a_buffer_returned_as_it_was(self: Model, x: torch.Tensor) -> Any:
    old = self.h
    self.h = self.h * 0.5 + x.sum(0, keepdim=True)
    return old


@written("linear.weight")
def data_of_a_parameter_written(self: Model, x: torch.Tensor) -> Any:
    self.linear.weight.data.clamp_(-0.1, 0.1)
    return self.linear(x)


@written("h")
def a_buffer_that_becomes_a_part_of_the_input(self: Model, x: torch.Tensor) -> Any:
    self.h = x[:1]
    return x * 2


@written("h")
def a_buffer_assigned_a_constant(self: Model, x: torch.Tensor) -> Any:
    self.h = torch.full((1, 4), 3.0)
    return x * self.h


@written("h")
def a_buffer_assigned_and_written(self: Model, x: torch.Tensor) -> Any:
    self.h.add_(1)
    self.h = self.h * 2
    self.h += x.sum(0)
    return x * self.h


@written("h")
def data_of_a_buffer(self: Model, x: torch.Tensor) -> Any:
    self.h.data = self.h * 0.5 + x.sum(0)
    return x + self.h


@written("x")
def an_input_written_and_returned(self: Model, x: torch.Tensor) -> Any:
    x[:, 0] = 5
    return x, x.sum(0)


@written("x")
def data_of_an_input(self: Model, x: torch.Tensor) -> Any:
    y = x * 2
    x.data = self.h + x
    return x + y


@written("plain")
def a_tensor_written_in_place(self: Model, x: torch.Tensor) -> Any:
    self.plain.mul_(0.5).add_(x.sum(0))
    return x + self.plain


@SIZES
@CAPTURES
@pytest.mark.parametrize("name", WRITTEN)
def test_what_is_written_is_returned_or_refused(name: str, capture: Any, dynamic: Any, tmp_path: pathlib.Path) -> None:
    function, changed = WRITTEN[name]
    options: Any = {"capture": capture, "dynamic_shapes": dynamic}
    with pytest.raises(
        opbridge.UnsupportedError, match=r"writes to the .*(%h|%g|%x|%plain|%cell\.total|%linear\.weight)"
    ):
        exported(function, tmp_path, **options)
    names = exported(function, tmp_path, mutations_as_outputs=True, **options)
    assert {name.removesuffix("_out") for name in names if name.endswith("_out")} == set(changed)


@SIZES
@CAPTURES
@pytest.mark.parametrize("change", [lambda h, x: torch.cat([h, x]), lambda h, x: (h + x.sum(0)).double()])
def test_a_buffer_of_another_form_is_refused(change: Any, capture: Any, dynamic: Any, tmp_path: pathlib.Path) -> None:
    def grows(self: Model, x: torch.Tensor) -> Any:
        self.h = change(self.h, x)
        return x + self.h.sum(0)

    with pytest.raises(opbridge.UnsupportedError, match=r"assigns to its buffer 'h', of torch\.float32 and shape"):
        exported(grows, tmp_path, capture=capture, dynamic_shapes=dynamic, mutations_as_outputs=True)


@kept("plain")
def a_tensor(self: Model, x: torch.Tensor) -> Any:
    self.plain = self.plain * 0.5 + x.sum(0)
    return x + self.plain


@kept("hidden")
def a_pair(self: Model, x: torch.Tensor) -> Any:
    h, c = (torch.zeros(4), torch.zeros(4)) if self.hidden is None else self.hidden
    self.hidden = h * 0.5 + x.sum(0), c + 1
    return x + self.hidden[0] * self.hidden[1]


@kept("step")
def a_number(self: Model, x: torch.Tensor) -> Any:
    self.step += 1
    return x * self.step


@kept("cache")
def an_entry_of_a_dict(self: Model, x: torch.Tensor) -> Any:
    self.cache["sum"] = self.cache.get("sum", 0) + x.sum(0)
    return x * self.cache["sum"]


@kept("recent")
def a_queue(self: Model, x: torch.Tensor) -> Any:
    self.recent.append(x.mean(0))
    return x - torch.stack([*self.recent]).mean(0)


@kept("holder.h")
def an_attribute_of_an_object(self: Model, x: torch.Tensor) -> Any:
    self.holder.h = x.sum(0) if self.holder.h is None else self.holder.h + 1
    return x + self.holder.h


@kept("slotted.h")
def an_attribute_of_an_object_with_slots(self: Model, x: torch.Tensor) -> Any:
    self.slotted.h = x.sum(0) if self.slotted.h is None else self.slotted.h + 1
    return x + self.slotted.h


@kept("l")
def a_layer_made_once(self: Model, x: torch.Tensor) -> Any:
    if not hasattr(self, "l"):
        self.l = torch.rand(4)
    return x * self.l


@kept("late")
def a_buffer_without_a_value(self: Model, x: torch.Tensor) -> Any:
    self.late = x.mean(0) if self.late is None else self.late * 0.5 + x.mean(0)
    return x - self.late


@kept("linear.weight")
def a_parameter_assigned_anew(self: Model, x: torch.Tensor) -> Any:
    self.linear.weight = nn.Parameter(self.linear.weight * 0.5)
    return self.linear(x)


@kept("hidden")
def statistics_of_the_first_batch(self: Model, x: torch.Tensor) -> Any:
    if self.hidden is None:
        self.hidden = x.mean(0)
    return x - self.hidden


@kept("step")
def something_done_once(self: Model, x: torch.Tensor) -> Any:
    self.step += 1
    return x * 2 if self.step == 1 else x


@kept("step")
def something_done_at_every_third_call(self: Model, x: torch.Tensor) -> Any:
    self.step += 1
    return x * 2 if self.step % 3 == 0 else x


@SIZES
@CAPTURES
@pytest.mark.parametrize("name", KEPT)
def test_what_the_next_call_depends_on_is_refused(
    name: str, capture: Any, dynamic: Any, tmp_path: pathlib.Path
) -> None:
    function, kept = KEPT[name]
    with pytest.raises(opbridge.UnsupportedError, match=f"the model keeps '{kept}.* from one call to the next"):
        exported(function, tmp_path, capture=capture, dynamic_shapes=dynamic)


@pytest.mark.parametrize("scale", [0.5, 1.0])
@SIZES
@CAPTURES
def test_data_of_a_parameter(capture: Any, dynamic: Any, scale: float, tmp_path: pathlib.Path) -> None:
    """Renormalized rows do not change when they are renormalized again."""

    def renormalized(self: Model, x: torch.Tensor) -> Any:
        self.linear.weight.data = torch.renorm(self.linear.weight.data, 2, 0, 0.1) * scale
        return self.linear(x)

    if scale == 1:
        exported(renormalized, tmp_path, capture=capture, dynamic_shapes=dynamic)
    else:
        with pytest.raises(opbridge.UnsupportedError, match=r"the model keeps 'linear\.weight\.data'"):
            exported(renormalized, tmp_path, capture=capture, dynamic_shapes=dynamic)


@CAPTURES
def test_gradients_are_taken_back(capture: Any, tmp_path: pathlib.Path) -> None:
    def trained(self: Model, x: torch.Tensor) -> Any:
        with torch.enable_grad():
            self.linear(x).sum().backward()
        return x @ self.linear.weight.grad

    with pytest.raises(opbridge.UnsupportedError, match=r"the model keeps .*'linear\.weight\.grad'"):
        exported(trained, tmp_path, capture=capture)


@without_effect
def a_result_to_look_at(self: Model, x: torch.Tensor) -> Any:
    self.hidden = self.attention = self.linear(x).softmax(-1)
    self.holder = Hidden(x, 1)
    self.shared.table["x"] = type(self.shared).last = x
    return self.hidden * 2


@without_effect
def a_counter(self: Model, x: torch.Tensor) -> Any:
    self.step += 1
    self.holder.count = self.cell.calls = self.step
    self.names.add("counted")
    return x * 2


@without_effect
def a_constant_made_once(self: Model, x: torch.Tensor) -> Any:
    if "positions" not in self.cache:
        self.cache["positions"] = torch.arange(4.0)
    return x + self.cache["positions"]


@without_effect
def a_mask_made_for_each_size(self: Model, x: torch.Tensor) -> Any:
    if self.hidden is None or self.hidden.size(0) != x.size(0):
        self.hidden = torch.ones(x.size(0), x.size(0)).tril()
    return self.hidden @ x


@without_effect
def a_state_begun_anew(self: Model, x: torch.Tensor) -> Any:
    self.plain, self.seen = torch.zeros(4), []
    for i in range(3):
        self.plain = self.plain * 0.5 + self.linear(x).sum(0) + i
        self.seen.append(self.plain)
    return torch.stack(self.seen)


@without_effect
def a_buffer_assigned_itself(self: Model, x: torch.Tensor) -> Any:
    self.h = self.h
    return x * self.h


@without_effect
def data_of_what_is_computed(self: Model, x: torch.Tensor) -> Any:
    y = x + 1
    z, view = y * 2, y[:1]
    y.data = x * 3
    y.mul_(2)
    return y + z, view


@without_effect
def memory_exchanged(self: Model, x: torch.Tensor) -> Any:
    y = x + 1
    z = y * 2
    y.set_(x * 3)
    return y + z


@SIZES
@CAPTURES
@pytest.mark.parametrize("name", WITHOUT_EFFECT)
def test_what_no_later_call_reads_is_let_go(name: str, capture: Any, dynamic: Any, tmp_path: pathlib.Path) -> None:
    names = exported(WITHOUT_EFFECT[name], tmp_path, capture=capture, dynamic_shapes=dynamic)
    assert not any(name.endswith("_out") for name in names)


def test_what_an_input_holds_is_taken_back(tmp_path: pathlib.Path) -> None:
    def counts(x: torch.Tensor, holder: Hidden) -> torch.Tensor:
        holder.count += 1
        return x * holder.count

    given = Hidden()
    with pytest.raises(opbridge.UnsupportedError, match="the model keeps 'count'"):
        opbridge.export(counts, (torch.rand(3), given), tmp_path / "model.onnx", capture="trace")
    assert given == Hidden()


@SIZES
@CAPTURES
def test_a_model_that_fails_is_as_before(capture: Any, dynamic: Any, tmp_path: pathlib.Path) -> None:
    def fails(self: Model, x: torch.Tensor) -> Any:
        self.h = self.h + x.sum(0, keepdim=True)
        self.g.add_(1)
        self.hidden, self.more = x, self.linear(x)
        self.step += 1
        self.holder.h = self.cache["x"] = x
        self.linear.bias.data = self.linear.bias.data * 2
        raise ValueError("of the model's own")

    with pytest.raises((opbridge.InvalidArgumentError, ValueError), match="of the model's own"):
        exported(fails, tmp_path, capture=capture, dynamic_shapes=dynamic)


@SIZES
@CAPTURES
def test_weights_of_a_closure_keep_their_memory(capture: Any, dynamic: Any, tmp_path: pathlib.Path) -> None:
    weight = torch.nn.Parameter(torch.rand(4))

    def model(x: torch.Tensor) -> torch.Tensor:
        weight.data = weight.data.to(x.dtype)
        return x * weight

    expectation: Any = contextlib.nullcontext()
    if capture == "export":
        expectation = pytest.raises(opbridge.UnsupportedError, match="neither a parameter nor a buffer")
    before = weight.tolist()
    with expectation:
        opbridge.export(model, (torch.rand(3, 4),), tmp_path / "model.onnx", capture=capture, dynamic_shapes=dynamic)
    assert weight.tolist() == before


@pytest.mark.parametrize("function", [data_of_what_is_computed, memory_exchanged, data_of_a_buffer])
def test_programs_in_files(function: Any, tmp_path: pathlib.Path) -> None:
    model, x, path = Model(function).eval(), torch.randn(3, 4), tmp_path / "model.onnx"
    torch.export.save(torch.export.export(model, (x,), strict=False), tmp_path / "model.pt2")
    command = pathlib.Path(__file__).parents[2] / "build" / "release" / "opbridge"
    arguments = ["convert", tmp_path / "model.pt2", path, "--mutations-as-outputs"]
    subprocess.run([command, *arguments], check=True, capture_output=True)
    with torch.no_grad():
        returned = model(x)
    expected = list(returned) if isinstance(returned, tuple) else [returned]
    expected += [model.h] if function is data_of_a_buffer else []
    results = opbridge.session(path).run(None, {"x": x.numpy()})
    for result, value in zip(results, expected, strict=True):
        torch.testing.assert_close(torch.from_numpy(result), value)


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_running_statistics_that_an_operator_moves_are_put_back(capture: Any, tmp_path: pathlib.Path) -> None:
    class Norms(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("mean", torch.zeros(3))
            self.register_buffer("var", torch.ones(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = nn.functional.batch_norm(x, self.mean, self.var, training=True)
            y = torch.ops.aten.instance_norm(y, None, None, None, None, True, 0.1, 1e-5, True)  # without statistics
            return nn.functional.instance_norm(y + x, self.mean, self.var, use_input_stats=True)

    model, path = Norms(), tmp_path / "model.onnx"
    opbridge.export(model, (torch.randn(4, 3, 5),), path, capture=capture, mutations_as_outputs=True, verify=True)
    assert torch.equal(model.mean, torch.zeros(3))
    assert torch.equal(model.var, torch.ones(3))


class _Inferring(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(4)  # its operator may write to the running statistics

    @torch.inference_mode()
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x).add_(1)


@CAPTURES
def test_inference_mode_in_the_model(capture: Any, tmp_path: pathlib.Path) -> None:
    model = _Inferring().eval()
    path = tmp_path / "m.onnx"
    opbridge.export(model, (torch.rand(3, 4),), path, capture=capture)
    opbridge.verify(path, model, (torch.rand(3, 4),))


def test_infinite_running_statistics_of_instance_norm(tmp_path: pathlib.Path) -> None:
    class Norm(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("mean", torch.tensor([1.0, float("inf"), 2.0]))
            self.register_buffer("var", torch.ones(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return nn.functional.instance_norm(x, self.mean, self.var, use_input_stats=True)

    path, x, model = tmp_path / "model.onnx", torch.randn(4, 3, 5), Norm()
    opbridge.export(model, (x,), path, mutations_as_outputs=True, verify=True)
    running = session(path)
    got = run(running, {running.get_inputs()[0].name: x})
    model(x)
    torch.testing.assert_close(got[1:], [model.mean, model.var])


def test_data_of_a_copy_of_a_buffer_that_was_written(tmp_path: pathlib.Path) -> None:
    class Written(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("state", torch.zeros(2))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.state[:1] = x.mean()
            return self.state.clone().data * 2

    path = tmp_path / "model.onnx"
    opbridge.export(Written(), (torch.rand(3),), path, capture="trace", mutations_as_outputs=True)
    opbridge.verify(path, Written(), (torch.rand(3),))


@SIZES
def test_data_of_an_input_that_an_operator_returns(dynamic: Any, tmp_path: pathlib.Path) -> None:
    def function(self: Model, x: torch.Tensor) -> Any:
        y, _ = torch.broadcast_tensors(x, self.h)
        x.data = self.h + x
        return x + y * 2

    names = exported(function, tmp_path, capture="trace", dynamic_shapes=dynamic, mutations_as_outputs=True)
    assert "x_out" in names


@CAPTURES
@pytest.mark.parametrize("dynamic", [None, ({0: "rows"},)], ids=["constant", "dynamic"])
def test_an_expanded_tensor_of_the_model(capture: Any, dynamic: Any, tmp_path: pathlib.Path) -> None:
    """Detectors have such grids. torch cannot write to an expanded tensor, so it cannot be restored as a whole."""

    class Grids(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.grid = torch.rand(1, 2).expand(3, 2)
            self.grids = [torch.rand(3, 1).expand(3, 2), torch.arange(5.0).unfold(0, 3, 1).T[:, :2]]

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x[:, None] * self.grid + self.grids[0] - self.grids[1]

    model = Grids()
    before = [tensor.clone() for tensor in (model.grid, *model.grids)]
    opbridge.export(model, (torch.rand(4, 2),), tmp_path / "m.onnx", capture=capture, dynamic_shapes=dynamic)
    opbridge.verify(tmp_path / "m.onnx", model, (torch.rand(4, 2),))
    assert all(map(torch.equal, before, (model.grid, *model.grids)))


class Arrays(nn.Module):
    def __init__(self, resets: bool) -> None:
        super().__init__()
        self.resets = resets
        self.calls, self.parts, self.seen = np.zeros(2), array.array("d", [0.0]), bytearray(1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.resets:
            self.calls[:] = 0
        self.calls[0] += 1
        self.parts[0] = self.calls[0]
        self.seen[0] = int(self.calls[0])
        return x * float(self.calls[0])


@CAPTURES
@SIZES
def test_arrays_are_put_back(capture: Any, dynamic: Any, tmp_path: pathlib.Path) -> None:
    model, x = Arrays(resets=True), torch.randn(3, 4)
    opbridge.export(model, (x,), tmp_path / "model.onnx", capture=capture, dynamic_shapes=dynamic, verify=True)
    assert (model.calls.tolist(), model.parts.tolist(), model.seen) == ([0, 0], [0], bytearray(1))
    with pytest.raises(opbridge.UnsupportedError, match="'calls' from one call"):
        opbridge.export(Arrays(resets=False), (x,), tmp_path / "model.onnx", capture=capture, dynamic_shapes=dynamic)
