"""Branches and loops of TorchScript, which capture="trace" records where data or dynamic sizes decide them."""

from __future__ import annotations

import functools
import inspect
import pathlib
import warnings
from collections.abc import Callable
from typing import Any

import onnx
import pytest
import torch
from torch import nn

import opbridge
from checking.models import compare, loaded
from opbridge import TraceWarning, UnsupportedError

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.*:FutureWarning", "ignore:.*torch.jit.*:DeprecationWarning")

X = torch.arange(6.0).reshape(2, 3) - 1
OTHERS = [X, -X, X * 10, torch.ones(5, 3), -torch.ones(1, 3), torch.arange(12.0).reshape(4, 3) - 20]


class Branch(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if bool(x.sum() > 0):
            x = self.linear(x)
        else:
            z = nn.functional.relu(x)
            x = z - x.size(0)
        return x * 2


class TensorCondition(nn.Module):
    """The condition has a dim and is not a bool; one branch returns the input as it is."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x[:1, 1] > 0:
            x = x + 1
        return x * 2


class EarlyReturn(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        if bool(x.sum() > 10):
            return x + 1, x.sum()
        y = x.abs()
        if bool(y.max() > 2) and bool(x.min() < 0):
            return y, y.mean()
        return x - y, x.mean()


class NestedBranch(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        flag = False
        if bool(x.sum() > 0):
            flag = True
            if bool(y.max() > 10):
                y = y - x
        if flag:
            y = y + 1
        if not flag:
            y = y * 3
        return y


class OtherSizes(nn.Module):
    """One branch returns a longer result."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.cat([x, x]) if bool(x.sum() > 0) else x
        return y * y.size(0)


class Rows(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        r = torch.zeros_like(x[0])
        for i in range(x.size(0)):
            r = r * 0.5 + x[i] * i
        return r


class CountedRows(nn.Module):
    """The loop carries a number, and has a branch in it."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, int]:
        r, n = x[0], 3
        for i in range(1, x.size(0)):
            if bool(x[i].sum() > 0):
                r = r + x[i]
            n = n + i * 2
        return r / x.size(1), n


class WhileData(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x.abs() + 1
        while bool(y.sum() < 100):
            y = y * 2
        return y


class Broken(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y, steps = x.abs(), torch.zeros((), dtype=torch.int64)
        for _ in range(10):
            if bool(y.sum() > 50):
                break
            if bool(y.max() > 9):
                y = y + 3
                continue
            y = y * 2
            steps = steps + 1
        return y, steps


class WhileSize(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        i, y = 0, x
        while i * 2 < x.size(0):
            y = y + i
            i += 1
        return y


class WhileSizeOrData(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, int]:
        i, y = 0, x.abs() + 1
        while i < x.size(0) and bool(y.sum() < 1000):
            if i > 2:
                y = y - x[i] / 2
            y = y * 2
            i += 1
        return y, i


@torch.jit.script_if_tracing
def summed(x: torch.Tensor) -> torch.Tensor:
    r = torch.zeros_like(x[0])
    for i in range(x.size(0)):
        r = r + x[i] * i
    return r


class ScriptedIfTracing(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return summed(x) * 2


class Growing(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x
        for _ in range(x.size(0)):
            y = torch.cat([y, x])
        return y


RECORDED: dict[Any, tuple[str, ...]] = {
    Branch: ("If",),
    TensorCondition: ("If",),
    EarlyReturn: ("If",),
    NestedBranch: ("If",),
    OtherSizes: ("If",),
    Rows: ("Loop",),
    CountedRows: ("Loop",),
    WhileData: ("Loop",),
    Broken: ("Loop",),
    WhileSize: ("Loop",),
    WhileSizeOrData: ("Loop",),
    Growing: ("Loop",),
}


def told(export: Callable[[], Any]) -> list[warnings.WarningMessage]:
    with warnings.catch_warnings(record=True) as messages:
        warnings.simplefilter("always", TraceWarning)
        export()
    return [each for each in messages if each.category is TraceWarning]


@pytest.mark.parametrize("dynamic", [True, False])
@pytest.mark.parametrize("kind", RECORDED)
def test_recorded(kind: Any, dynamic: bool, tmp_path: pathlib.Path) -> None:
    module, path = kind().eval(), tmp_path / "model.onnx"
    axes = {"x": {0: "n"}} if dynamic else None
    script = torch.jit.script(module)
    assert not told(lambda: opbridge.export(script, X, path, input_names=["x"], dynamic_axes=axes))
    with torch.no_grad():
        compare(module, loaded(path), [(x,) for x in (OTHERS if dynamic else OTHERS[:3])])
    operators = {node.op_type for node in onnx.load(path).graph.node}
    assert operators & {"If", "Loop"} or (not dynamic and RECORDED[kind] == ("Loop",))


def test_script_if_tracing(tmp_path: pathlib.Path) -> None:
    module, path = ScriptedIfTracing(), tmp_path / "model.onnx"
    opbridge.export(torch.jit.trace(module, X), X, path, input_names=["x"], dynamic_axes={"x": {0: "n"}})
    compare(module, loaded(path), [(x,) for x in OTHERS])


@pytest.mark.parametrize("kind", [Branch, EarlyReturn, CountedRows])
@pytest.mark.parametrize("form", ["loaded", "frozen", "a part", "traced"])
def test_forms(kind: Any, form: str, tmp_path: pathlib.Path) -> None:
    module, path = kind().eval(), tmp_path / "model.onnx"
    scripted: Any = torch.jit.script(module)
    if form == "loaded":
        scripted.save(tmp_path / "model.pt")
        scripted = torch.jit.load(tmp_path / "model.pt")
    elif form == "frozen":
        scripted = torch.jit.freeze(scripted)
    elif form == "a part":
        scripted = nn.Sequential(nn.Identity(), scripted)
    elif kind is CountedRows:
        pytest.skip("torch.jit.trace returns no numbers")
    else:
        scripted = torch.jit.trace(nn.Sequential(nn.Identity(), scripted), X, check_trace=False)
    assert not told(lambda: opbridge.export(scripted, X, path, input_names=["x"], dynamic_axes={"x": {0: "n"}}))
    with torch.no_grad():
        compare(module, loaded(path), [(x,) for x in OTHERS])


class WritesInPlace(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        if bool(x.sum() > 0):
            y.mul_(2)
        return y


class ChangesList(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = [x]
        if bool(x.sum() > 0):
            parts.append(x * 2)
        return torch.cat(parts)


class ChangesAttribute(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x
        if bool(x.sum() > 0):
            self.calls += 1
            y = x + self.calls
        return y


class OtherType(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1 if bool(x.sum() > 0) else x.to(torch.int64)


class Raises(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if bool(x.sum() < 0):
            raise ValueError("negative")
        return x * 2


FOLLOWED = {WritesInPlace: 2, ChangesList: 2, ChangesAttribute: 2, OtherType: 1}  # the lines of the branches


@pytest.mark.parametrize("dynamic", [True, False])
@pytest.mark.parametrize("kind", FOLLOWED)
def test_followed_with_a_warning_at_the_line(kind: Any, dynamic: bool, tmp_path: pathlib.Path) -> None:
    module, path = kind(), tmp_path / "model.onnx"
    axes = {"x": {0: "n"}} if dynamic else None
    line = inspect.getsourcelines(kind.forward)[1] + FOLLOWED[kind]
    messages = told(lambda: opbridge.export(torch.jit.script(module), X, path, input_names=["x"], dynamic_axes=axes))
    assert {(each.filename, each.lineno) for each in messages} == {(__file__, line)}
    if kind is not ChangesAttribute:
        compare(module, loaded(path), [(X,), (X + 1,)])


@pytest.mark.parametrize("dynamic", [True, False])
def test_a_check_that_only_raises_an_error_is_left_out(dynamic: bool, tmp_path: pathlib.Path) -> None:
    """As in a model that is not compiled."""
    module, path = Raises(), tmp_path / "model.onnx"
    axes = {"x": {0: "n"}} if dynamic else None
    for model in (module, torch.jit.script(module)):
        options = {"input_names": ["x"], "dynamic_axes": axes, "capture": "trace"}
        assert not told(functools.partial(opbridge.export, model, X, path, **options))
        compare(module, loaded(path), [(X,), (X + 1,)])


class Listed(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts: list[torch.Tensor] = []
        for i in range(x.size(0)):
            parts.append(x[i] * i)
        return torch.stack(parts)


def test_a_loop_that_a_graph_cannot_have_is_refused(tmp_path: pathlib.Path) -> None:
    kind, line = Listed, inspect.getsourcelines(Listed.forward)[1] + 2
    with pytest.raises(UnsupportedError, match=rf"loop of TorchScript runs 'n' times(.|\n)*control_flow\.py:{line} in"):
        opbridge.export(torch.jit.script(kind()), X, input_names=["x"], dynamic_axes={"x": {0: "n"}})
    opbridge.export(torch.jit.script(kind()), X, tmp_path / "model.onnx", verify=True)


class WritesAfter(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        z = y if bool(x.sum() > 0) else y + 1
        z.mul_(3)
        return y


class WritesInABranch(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        if bool(x.min() < 0):
            z = y if bool(x.sum() > 0) else y + 1
            z.mul_(3)
        return y


class SharedByWay(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        if bool(x.sum() > 0):
            y = x * 2
            z = y[0]
        else:
            y = x * 3
            z = x[0] * 4
        y.add_(1)
        return y, z


class SharedByStep(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y, z = x * 1, x * 5
        for _ in range(x.size(0)):
            y = x * 2
            z = y
        y.add_(1)
        return y, z


class Swapped(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y, z = x * 1, x * 5
        a, b = y, z
        for _ in range(x.size(0)):
            a, b = b, a
        a.add_(1)
        return y, z


class WritesOwn(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        z = x * 2 if bool(x.sum() > 0) else x + 1
        z.mul_(3)
        return z, x


@pytest.mark.parametrize("kind", [WritesAfter, WritesInABranch, SharedByWay, SharedByStep, Swapped])
def test_refuses_writes_to_what_may_be_shared(kind: Any) -> None:
    with pytest.raises(
        UnsupportedError, match="the model writes to a tensor that a branch or a loop returns unchanged"
    ):
        opbridge.export(torch.jit.script(kind()), X, input_names=["x"], dynamic_axes={"x": {0: "n"}})


def test_writes_to_what_a_branch_makes(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "model.onnx"
    opbridge.export(torch.jit.script(WritesOwn()), X, path, input_names=["x"], dynamic_axes={"x": {0: "n"}})
    compare(WritesOwn(), loaded(path), [(x,) for x in OTHERS])


class BySize(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.size(0) > 4:
            return x + 1
        return x[[0, 1][x.dim() - 2]]


def test_a_branch_by_a_size_is_told_at_its_line() -> None:
    script = torch.jit.script(BySize())
    messages = told(lambda: opbridge.export(script, X, input_names=["x"], dynamic_axes={"x": {0: "n"}}))
    assert [(each.filename, each.lineno) for each in messages] == [
        (__file__, inspect.getsourcelines(BySize.forward)[1] + 1)
    ]
    assert "a branch by a dynamic size" in str(messages[0].message)
