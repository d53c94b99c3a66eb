"""Numbers that a model computes from constants alone are known in a capture: it may use them as Python numbers."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch

import opbridge
from opbridge.runtime import run, session

CAPTURES = pytest.mark.parametrize("capture", ["export", "trace"])
SIZES = pytest.mark.parametrize("sizes", [None, ({0: torch.export.Dim("n", min=1)},)], ids=["constant", "dynamic"])


def axes(x: torch.Tensor) -> torch.Tensor:
    return x.sum(torch.arange(1, x.dim()).tolist())


def steps(x: torch.Tensor) -> torch.Tensor:
    times = torch.linspace(0, 1, 5)
    for _ in range(int(torch.ceil((times[-1] - times[0]) / 0.3 + 1).item())):
        x = x * 1.5
    return x


def count(x: torch.Tensor) -> torch.Tensor:
    counts = torch.arange(5)
    counts += 1
    return torch.cat([x] * int(counts.float().mean()))


def ascending(x: torch.Tensor) -> torch.Tensor:
    times = torch.linspace(0, 1, 4)
    if times[1] < times[0]:
        x = -x
    assert (times[1:] > times[:-1]).all()
    return x * times.sum()


def filled(x: torch.Tensor) -> torch.Tensor:
    bounds = torch.zeros(2, 3)
    bounds[1] += torch.full((3,), 2.0) - torch.ones(3)
    if (bounds[0] > bounds[1]).any() or torch.zeros(0, 3).shape != (0, 3):
        x = -x
    return x * 2 if bounds[0, 0].isclose(torch.zeros((), dtype=bounds.dtype)) else x


@CAPTURES
@SIZES
@pytest.mark.parametrize("function", [axes, steps, count, ascending, filled])
def test_constants_may_be_read(function: Any, sizes: Any, capture: Any, tmp_path: Any) -> None:
    path = tmp_path / "model.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("error", opbridge.TraceWarning)
        opbridge.export(function, (torch.rand(4, 5, 6),), path, capture=capture, dynamic_shapes=sizes)
    opbridge.verify(path, function, (torch.rand(4 if sizes is None else 3, 5, 6),))


def written(x: torch.Tensor) -> torch.Tensor:
    table = torch.arange(3.0)
    table[1:].add_(x.sum())
    return x * int(table.sum())


def summed(x: torch.Tensor) -> torch.Tensor:
    total = torch.zeros(2)
    total[:1] += x.sum()
    x = -x if torch.ones(2).sum() > 1 else x
    return x * int(total.sum())


def copied_into(x: torch.Tensor) -> torch.Tensor:
    table = torch.arange(3.0)
    torch.add(x.flatten()[:3], 1, out=table)
    return x * int(table.sum())


def reassigned(x: torch.Tensor) -> torch.Tensor:
    table = torch.arange(3.0)
    table.data = x.flatten()[:3]
    return x * int(table.sum())


def reassigned_large(x: torch.Tensor) -> torch.Tensor:
    table = torch.zeros(3000)
    table.data = torch.ones(3000)
    return x if table.sum() > 4 else -x


@pytest.mark.parametrize("sizes", [None, ({0: "n"},)])
def test_a_trace_does_not_take_what_was_assigned_for_known(sizes: Any, tmp_path: Any) -> None:
    path = tmp_path / "model.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("error", opbridge.TraceWarning)
        try:
            opbridge.export(reassigned_large, (torch.rand(4, 5),), path, capture="trace", dynamic_shapes=sizes)
        except (opbridge.TraceWarning, opbridge.UnsupportedError):
            return
    opbridge.verify(path, reassigned_large, (torch.rand(4, 5),))


@CAPTURES
@SIZES
@pytest.mark.parametrize("function", [written, copied_into, reassigned])
def test_what_is_written_to_them_is_not_constant(function: Any, sizes: Any, capture: Any, tmp_path: Any) -> None:
    path = tmp_path / "model.onnx"
    opbridge.export(function, (torch.rand(4, 5),), path, capture=capture, dynamic_shapes=sizes)
    opbridge.verify(path, function, (10 * torch.rand(4, 5),))


@SIZES
def test_what_is_written_to_zeros_is_not_constant(sizes: Any, tmp_path: Any) -> None:
    path = tmp_path / "model.onnx"
    opbridge.export(summed, (torch.rand(4, 5),), path, dynamic_shapes=sizes)
    opbridge.verify(path, summed, (10 * torch.rand(4, 5),))


class Codebook(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("initialized", torch.tensor(True))
        self.register_buffer("counts", torch.tensor([1, 2]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if self.initialized else x


class Repeated(Codebook):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(int(self.counts.sum()) if self.counts[1] > self.counts[0] else 1):
            x = x * 2
        return x


class Indexed(Codebook):
    """torch allocates the result of an index like what is indexed, of which the value is known."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        counts = self.counts[torch.arange(2)]
        return x * 2 if (counts == 2).sum() == 1 else x


class Initializing(Codebook):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x * 2 if self.initialized else x
        self.initialized.copy_(x.sum() > 0)
        return y


class Overwritten(Codebook):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.initialized.copy_(x.sum() > 0)
        return x * 2 if self.initialized else x


class Shared(Codebook):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("first", self.counts[:1])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.first.add_(x.sum() > 0)
        return x * 2 if self.counts.sum() > 3 else x


class Number(Codebook):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("share", torch.tensor(0.5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if self.share else x


class Plain(Codebook):
    """Reads tensors that are not buffers, as pytorch-tabnet does."""

    def __init__(self) -> None:
        super().__init__()
        self.flags = torch.tensor([True, False, True])
        self.bounds = [torch.tensor(0.5), torch.tensor(2.0)]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for i, flag in enumerate(self.flags):
            x = x + i if flag else x * 3
        return x if self.bounds[0] > self.bounds[1] else x - 1


class Curved(Codebook):
    """Reads parameters, as manifolds do their curvature."""

    def __init__(self) -> None:
        super().__init__()
        self.curvature = torch.nn.Parameter(torch.tensor(-1.0))
        self.scales = torch.nn.Parameter(torch.tensor([2.0, 3.0]), requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        sign = self.curvature.sign().masked_fill(self.curvature.isclose(torch.zeros(())), 0)
        x = x * self.curvature if torch.all(sign < 0) else x
        return x * self.scales[0] if self.scales[0] < self.scales[1] else x


class Counted(Codebook):
    """Needs Python numbers, without a branch on a tensor."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        names, factors = {1: "a", 2: "bb"}, (3, 4, 5)
        for _ in range(int(self.counts[1].item())):
            x = x * factors[self.counts[0].item()]
        by_name = {names[count.item()]: x[count] for count in self.counts}
        by_count = {count.item(): x[count] for count in self.counts}
        return by_name["a"] * by_count[2] + 2


@CAPTURES
@SIZES
@pytest.mark.parametrize("model", [Codebook, Repeated, Indexed, Initializing, Number, Plain, Curved, Counted])
def test_tensors_of_the_model_may_be_read(model: Any, sizes: Any, capture: Any, tmp_path: Any) -> None:
    exported, path = model(), tmp_path / "model.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("error", opbridge.TraceWarning)
        opbridge.export(
            exported, (torch.rand(4, 5),), path, dynamic_shapes=sizes, mutations_as_outputs=True, capture=capture
        )
    x = torch.rand(4 if sizes is None else 3, 5)
    torch.testing.assert_close(run(session(path), {"x": x})[0], model()(x))
    assert exported.counts.tolist() == [1, 2]


class Large(torch.nn.Module):
    """Branches by a parameter that is too large to be known."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(5000))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if self.weight.sum() == 5000 else x


def test_a_branch_by_a_large_parameter_reads_its_values(tmp_path: Any, request: Any) -> None:
    path = tmp_path / "model.onnx"
    request.addfinalizer(lambda: torch.use_deterministic_algorithms(False))
    torch.use_deterministic_algorithms(True)  # fills memory that would be uninitialized with NaN
    opbridge.export(Large(), (torch.rand(4, 5),), path, dynamic_shapes=({0: "n"},), capture="trace")
    x = torch.rand(3, 5)
    torch.testing.assert_close(run(session(path), {"x": x})[0], x * 2)


def test_the_truth_of_a_number_with_an_example_of_size_1(tmp_path: Any) -> None:
    path, rows = tmp_path / "model.onnx", ({0: torch.export.Dim("n", min=1)},)
    opbridge.export(Number(), (torch.rand(1, 5),), path, dynamic_shapes=rows, capture="trace")
    assert opbridge.verify(path, Number(), (torch.rand(3, 5),)).ok


class SharedPlain(Codebook):
    def __init__(self) -> None:
        super().__init__()
        self.sums = torch.tensor([1, 2])
        self.first = self.sums[:1]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.first.add_(x.sum() > 0)
        return x * 2 if self.sums.sum() > 3 else x


class OverwrittenParameter(Curved):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            self.scales[:1].add_(x.sum())
        return super().forward(x)


class SharedParameter(Curved):
    def __init__(self) -> None:
        super().__init__()
        self.first = self.scales.data[:1]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.first.add_(x.sum())
        return super().forward(x)


@SIZES
@pytest.mark.parametrize("model", [Overwritten, Shared, SharedPlain, OverwrittenParameter, SharedParameter])
def test_tensors_with_data_are_not_known(model: Any, sizes: Any, tmp_path: Any) -> None:
    path = tmp_path / "model.onnx"
    if model in (Shared, SharedPlain, SharedParameter):
        with pytest.raises(opbridge.UnsupportedError, match="shares memory"):
            opbridge.export(model(), (torch.rand(4, 5),), path, dynamic_shapes=sizes, mutations_as_outputs=True)
        return
    opbridge.export(model(), (torch.rand(4, 5),), path, dynamic_shapes=sizes, mutations_as_outputs=True)
    for x in (torch.rand(4, 5), -torch.rand(4, 5)):
        torch.testing.assert_close(run(session(path), {"x": x})[0], model()(x))


class Further(Codebook):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x * 2 if self.initialized else x
        return -y if y.sum() > 0 else y


def test_a_branch_by_data_behind_one_by_a_buffer(tmp_path: Any) -> None:
    path = tmp_path / "model.onnx"
    opbridge.export(Further(), (torch.rand(4, 5),), path)
    for x in (torch.rand(4, 5), -torch.rand(4, 5)):
        assert opbridge.verify(path, Further(), (x,)).ok


class Written(torch.nn.Module):
    """Branches on a buffer after a write to its memory."""

    def __init__(self, write: Any) -> None:
        super().__init__()
        self.register_buffer("table", torch.tensor([1.0, 2.0, 3.0]))
        self.register_buffer("number", torch.tensor(3.0))
        self.write = write

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first = self.table[0]
        self.write(self, x)
        return x * 2 if self.table.sum() + self.number + first > 20 else x


def set_data(model: Any, x: Any) -> None:
    model.number.data = torch.tensor(100.0)


def write_to_array(model: Any, x: Any) -> None:
    model.number.numpy()[...] = 100


def write_row(model: Any, x: Any) -> None:
    row = x[0, 0].long().item()
    torch._check(row >= 0)
    torch._check(row < 3)
    model.table[row] = 100.0


WRITES: dict[str, Any] = {
    "constant": lambda model, x: model.number.fill_(100.0),
    "sum": lambda model, x: model.number.add_(100),
    "sum into it": lambda model, x: torch.add(model.number, 100.0, out=model.number),
    "data": lambda model, x: model.number.copy_(100 + x.sum()),
    "random": lambda model, x: model.number.uniform_(100, 200),
    "element": lambda model, x: model.table[1].fill_(100.0),
    "element with data": lambda model, x: model.table[1].copy_(100 + x.sum()),
    "element by data": write_row,
    "base of a view": lambda model, x: model.table.add_(100),
    "set_data": set_data,
    "alias": lambda model, x: model.number.data.fill_(100.0),
    "array": write_to_array,
}


@pytest.mark.parametrize("write", WRITES)
def test_a_trace_does_not_take_what_is_written_to_for_constant(write: str, tmp_path: Any) -> None:
    """It knows what is written, or warns, or refuses the model."""
    path, x = tmp_path / "model.onnx", torch.rand(4, 5)
    with warnings.catch_warnings():
        warnings.simplefilter("error", opbridge.TraceWarning)
        try:
            opbridge.export(
                Written(WRITES[write]),
                (x,),
                path,
                capture="trace",
                dynamic_shapes=({0: "n"},),
                mutations_as_outputs=True,
            )
        except (opbridge.TraceWarning, opbridge.UnsupportedError):
            return
    torch.testing.assert_close(run(session(path), {"x": x})[0], Written(WRITES[write])(x))
