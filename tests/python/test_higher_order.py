"""torch's own branches, loops and scans by data and dynamic sizes, in captures that record Python loops too."""

import pathlib
from typing import Any

import pytest
import torch
from dynamic_check import agrees
from torch import nn
from torch._higher_order_ops import associative_scan, scan, while_loop
from torch._higher_order_ops import map as map_over
from torch_versions import since_torch_2_14

import opbridge
from opbridge import UnsupportedError

pytestmark = pytest.mark.filterwarnings("error::opbridge.capture.run_warnings.TraceWarning")
CAPTURES = pytest.mark.parametrize("capture", ["export", "trace"])
SINCE_2_14 = since_torch_2_14("an associative scan of nothing, or by pointwise functions on a CPU, is refused")
DYNAMIC: Any = ({0: torch.export.Dim("n")},)
SHAPES = [[(size, 2)] for size in (4, 1, 2, 3, 8, 9)]
WEIGHT = torch.tensor([[0.5, -1.0], [1.0, 0.25]])


def combined(first: Any, second: Any) -> Any:
    """Two steps of a linear recurrence."""
    return first[0] * second[0], second[0] * first[1] + second[1]


def in_pairs(combine: Any, xs: Any, dim: int = 0, **options: Any) -> Any:
    return associative_scan(combine, xs, dim, combine_mode="generic", **options)


def of_sums(x: torch.Tensor) -> Any:
    return in_pairs(torch.add, x)


def of_a_recurrence(x: torch.Tensor) -> Any:
    return in_pairs(combined, (torch.sigmoid(x), x))[1]


def of_matrices(x: torch.Tensor) -> Any:
    return in_pairs(torch.matmul, torch.tanh(x)[:, :, None] * WEIGHT, reverse=True)


def of_trees(x: torch.Tensor) -> Any:
    def combine(first: Any, second: Any) -> Any:
        return {"sum": first["sum"] + second["sum"], "most": torch.maximum(first["most"], second["most"])}

    return in_pairs(combine, {"sum": x, "most": x[:, 0]})


def of_an_inner_axis(x: torch.Tensor) -> Any:
    return in_pairs(torch.add, x.t(), 1), in_pairs(torch.mul, x, 1)


def of_bools(x: torch.Tensor) -> Any:
    return in_pairs(torch.logical_or, x > 0.5)


def of_more_rows(x: torch.Tensor) -> Any:
    return in_pairs(torch.add, torch.cat([x, x[:-1]]))


def again_and_again(x: torch.Tensor) -> Any:
    out = x
    for _ in range(x.shape[0]):
        out = in_pairs(torch.add, out * 0.5)
    return out


def by_pointwise_functions(x: torch.Tensor) -> Any:
    return associative_scan(lambda a, b: a + b, x, 0)


@CAPTURES
@pytest.mark.parametrize(
    "model",
    [
        of_sums,
        of_a_recurrence,
        of_matrices,
        of_trees,
        of_an_inner_axis,
        of_bools,
        of_more_rows,
        again_and_again,
        pytest.param(by_pointwise_functions, marks=SINCE_2_14),
    ],
)
def test_associative_scans(model: Any, capture: Any, tmp_path: pathlib.Path) -> None:
    agrees(model, SHAPES, DYNAMIC, capture, tmp_path)


@SINCE_2_14
@CAPTURES
def test_an_associative_scan_of_nothing(capture: Any, tmp_path: pathlib.Path) -> None:
    opbridge.export(of_sums, (torch.rand(4, 2),), tmp_path / "m.onnx", dynamic_shapes=DYNAMIC, capture=capture)
    opbridge.verify(tmp_path / "m.onnx", of_sums, (torch.rand(0, 2),))


def of_two_types(x: torch.Tensor) -> Any:
    return in_pairs(combined, (x.double(), x.long()))


def that_is_written(x: torch.Tensor) -> Any:
    x = x * 1
    out = in_pairs(torch.add, x)
    out.mul_(2)
    return x, out


def in_a_transform(x: torch.Tensor) -> Any:
    return torch.func.grad(lambda x: in_pairs(torch.mul, x).sum())(x)


@CAPTURES
@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (of_two_types, "combines rows of torch.int64 to torch.float64"),
        (that_is_written, "writes to a tensor that a branch or a loop returns unchanged"),  # for one row
        (in_a_transform, "a scan of a dynamic axis inside of a transform"),
    ],
)
def test_associative_scans_that_are_refused(model: Any, reason: str, capture: Any, tmp_path: pathlib.Path) -> None:
    with pytest.raises(UnsupportedError, match=reason):
        opbridge.export(model, (torch.rand(4, 2),), tmp_path / "m.onnx", dynamic_shapes=DYNAMIC, capture=capture)


def sums_or_differences(x: torch.Tensor) -> Any:
    total = torch.zeros(2)
    for row in x:
        total = torch.cond(row.sum() > 0, lambda a, b: a + b, lambda a, b: a - b, (total, row))
    return total


def until_large(x: torch.Tensor) -> Any:
    rows = []
    for row in x:
        start = torch.tensor(0), row
        rows.append(while_loop(lambda i, a: (i < 5) & (a.sum() < 3), lambda i, a: (i + 1, a + 1), start)[1])
    return torch.stack(rows)


def by_numbers(x: torch.Tensor) -> Any:
    total = torch.zeros(())
    for k in range(x.shape[0]):
        last = while_loop(lambda i, a: i < x.shape[0], lambda i, a: (i + 1, a + x[i] * i), (k, x[k]))
        total = total + last[1].sum()
    return total


def scans_in_a_loop(x: torch.Tensor) -> Any:
    def step(carry: torch.Tensor, row: torch.Tensor) -> Any:
        signed = torch.cond(row.sum() > 0.5, lambda a, b: a + b, lambda a, b: a - b, (carry, row))
        return torch.tanh(signed @ WEIGHT), carry * row

    out = x
    for row in x:
        last, rows = scan(step, row, out)
        out = out + rows + last
    return out


def maps_in_a_loop(x: torch.Tensor) -> Any:
    out = x
    for row in x:
        out = map_over(lambda each, other: (each - other).cumsum(0), out, row.clone())
    return out


@CAPTURES
@pytest.mark.parametrize("model", [sums_or_differences, until_large, by_numbers, scans_in_a_loop, maps_in_a_loop])
def test_in_python_loops(model: Any, capture: Any, tmp_path: pathlib.Path) -> None:
    agrees(model, SHAPES, DYNAMIC, capture, tmp_path)


class StateSpace(nn.Module):
    """A diagonal linear recurrence with gates that the input decides."""

    def __init__(self) -> None:
        super().__init__()
        self.gates, self.values, self.out = nn.Linear(6, 8), nn.Linear(6, 8), nn.Linear(8, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        decay = torch.exp(-nn.functional.softplus(self.gates(x)))
        _, states = in_pairs(combined, (decay, self.values(x) * (1 - decay)), 1)
        return x + self.out(states)


@CAPTURES
def test_a_state_space_model(capture: Any, tmp_path: pathlib.Path) -> None:
    torch.manual_seed(0)
    shapes = [[(2, 5, 6)], [(1, 1, 6)], [(3, 12, 6)], [(1, 33, 6)]]
    dims: Any = ({0: torch.export.Dim("batch"), 1: torch.export.Dim("length")},)
    agrees(nn.Sequential(StateSpace(), StateSpace()).eval(), shapes, dims, capture, tmp_path)
