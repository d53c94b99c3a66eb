"""Branches, loops and regions of torch.export, by opbridge.export and by .pt2 files, against PyTorch."""

import copy
import subprocess
import warnings

import onnx
import pytest
import torch
from command import OPBRIDGE
from torch import nn
from torch._higher_order_ops import associative_scan, scan
from torch._higher_order_ops import map as map_over
from torch._higher_order_ops.while_loop import while_loop
from torch_versions import since_torch_2_15

import opbridge
from checking.models import compare, loaded
from opbridge import TraceWarning, UnsupportedError
from opbridge.runtime import run, session

DYNAMIC = torch.export.Dim.DYNAMIC
ROWS = ({0: DYNAMIC}, {0: DYNAMIC})


class Branches(nn.Module):
    """Weights and sizes from outside, another branch inside, two results."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x, y):
        def inner(a, b):
            return torch.cond(b.sum() > 3, lambda a, b: a * b.shape[0], lambda a, b: a - 1, (a, b))

        def outer(a, b):
            return self.linear(a) + b.shape[0], inner(a, b)

        return torch.cond(x.sum() > 0, outer, lambda a, b: (a * 2 - b[:1], a.clone()), (x, y))


class Loop(nn.Module):
    """The number of steps depends on data."""

    def forward(self, x, y):
        start = torch.zeros((), dtype=torch.int64)
        return while_loop(
            lambda i, a: (i < 5) & (a.sum() < 100), lambda i, a: (i + 1, a * 2 + y[0] * i), (start, x.clone())
        )


class CountingLoop(nn.Module):
    """One step for each row, counted by a Python number."""

    def forward(self, x, y):
        return while_loop(lambda i, a: i < x.shape[0], lambda i, a: (i + 1, a + x[i] * i), (0, y[0].clone()))


class NoSteps(nn.Module):
    def forward(self, x, y):
        return while_loop(lambda a: a.sum() > 1e9, lambda a: (a * 2,), (x.clone(),))[0] + y.shape[0]


class Scan(nn.Module):
    def forward(self, x, y):
        return scan(lambda carry, row: (carry + row * y[0], carry * row), torch.zeros(3), x)


class Map(nn.Module):
    def forward(self, x, y):
        return map_over(lambda row, other: row.cumsum(0) + other[0], x, y)


class Regions(nn.Module):
    def forward(self, x, y):
        with torch.no_grad():
            z = x * 2
        with torch.autocast("cpu", enabled=False):
            return z @ y.t(), torch.utils.checkpoint.checkpoint(torch.sin, x, use_reentrant=False)


MODELS = [Branches, Loop, CountingLoop, NoSteps, Scan, Map, Regions]
EXAMPLES = [(torch.ones(4, 3), torch.arange(6.0).reshape(2, 3))]
OTHERS = [(-torch.ones(2, 3), torch.arange(15.0).reshape(5, 3)), (torch.rand(7, 3), torch.zeros(3, 3))]


@pytest.mark.parametrize("kind", MODELS)
def test_exported(kind, tmp_path):
    model = kind()
    with torch.no_grad():
        opbridge.export(model, EXAMPLES[0], tmp_path / "model.onnx", dynamic_shapes=ROWS)
        compare(model, loaded(tmp_path / "model.onnx"), EXAMPLES + OTHERS)


# torch.export.save cannot write a loop that carries a Python number.
@pytest.mark.parametrize("kind", [kind for kind in MODELS if kind is not CountingLoop])
def test_saved(kind, tmp_path):
    model = kind()
    with torch.no_grad():
        torch.export.save(torch.export.export(model, EXAMPLES[0], dynamic_shapes=ROWS), tmp_path / "model.pt2")
        subprocess.run([OPBRIDGE, "convert", tmp_path / "model.pt2", tmp_path / "model.onnx"], check=True)
        compare(model, loaded(tmp_path / "model.onnx"), EXAMPLES + OTHERS)


@pytest.mark.parametrize("kind", MODELS)
def test_followed_by_trace(kind, tmp_path):
    """A trace of constant sizes takes this run's branch and steps, and warns if they depend on data."""
    model = kind()
    by_data = kind in (Branches, Loop, NoSteps)
    with torch.no_grad(), warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", TraceWarning)
        opbridge.export(model, EXAMPLES[0], tmp_path / "model.onnx", capture="trace", verify=True)
    assert any(each.category is TraceWarning for each in told) == by_data
    assert not {"If", "Loop", "Scan"} & {node.op_type for node in onnx.load(tmp_path / "model.onnx").graph.node}


@pytest.mark.filterwarnings("error::opbridge.capture.run_warnings.TraceWarning")
@pytest.mark.parametrize("kind", MODELS)
def test_traced_with_dynamic_sizes(kind, tmp_path):
    model = kind()
    with torch.no_grad():
        opbridge.export(model, EXAMPLES[0], tmp_path / "model.onnx", capture="trace", dynamic_shapes=ROWS)
        compare(model, loaded(tmp_path / "model.onnx"), EXAMPLES + OTHERS)


def test_a_branch_uses_a_constant_that_is_computed_outside(tmp_path):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("table", torch.tensor([1.0, 2.0, 3.0]))

        def forward(self, x, y):
            c = self.table * 2 + torch.arange(3)
            return torch.cond(x.sum() > 0, lambda x: x + c, lambda x: (x - c) * c.sum(), (x,)), y * c

    opbridge.export(Model(), EXAMPLES[0], tmp_path / "model.onnx", dynamic_shapes=ROWS)
    compare(Model(), loaded(tmp_path / "model.onnx"), EXAMPLES + OTHERS)


def of_constants(x, y):
    def inner(a):
        return torch.cond(a.sum() > 3, lambda a: a * torch.tensor([4.0, 5, 6]), lambda a: a + torch.tensor(7.0), (a,))

    def outer(a):
        written = torch.tensor([1.0, 2, 3])
        written[0] = a.sum()
        return inner(a) + written

    def step(i, a):
        return i + torch.tensor(1), a * torch.tensor([1.0, 2, 3])

    chosen = torch.cond(x.sum() > 0, outer, lambda a: a - torch.tensor([3.0, 2, 1]), (x,))
    over_rows = map_over(lambda row: row * torch.tensor(2) + torch.tensor([1.0, 2, 3]), x)
    return chosen, over_rows, while_loop(lambda i, a: i < torch.tensor(4), step, (torch.tensor(0), y))[1]


@pytest.mark.parametrize("dynamic_shapes", [None, ROWS])
def test_constants_that_are_made_in_bodies(dynamic_shapes, tmp_path):
    path = tmp_path / "m.onnx"
    opbridge.export(of_constants, (torch.ones(2, 3), torch.ones(2, 3)), path, dynamic_shapes=dynamic_shapes)
    for x in (torch.ones(2, 3), torch.zeros(2, 3), -torch.ones(2, 3), torch.full((2, 3), 0.1)):
        opbridge.verify(path, of_constants, (x, x + 1))


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_nested_operands(capture, tmp_path):
    def chooses(x, y):
        return torch.cond(
            torch.tensor(x.shape[0] == 2) if capture == "trace" else x.sum() > 0,
            lambda pair: pair[0] * 2 + pair[1]["y"],
            lambda pair: pair[0] - pair[1]["y"],
            ((x, {"y": y}),),
        )

    path = tmp_path / "m.onnx"
    opbridge.export(chooses, (torch.ones(2, 3), torch.ones(2, 3)), path, capture=capture)
    opbridge.verify(path, chooses, (torch.rand(2, 3), torch.rand(2, 3)))


def test_forms(tmp_path):
    for kind, operator in [(Branches, "If"), (Loop, "Loop"), (Scan, "Scan"), (Map, "Scan")]:
        opbridge.export(kind(), EXAMPLES[0], tmp_path / "model.onnx")
        assert operator in [node.op_type for node in onnx.load(tmp_path / "model.onnx").graph.node]


def test_casts_of_autocast_are_kept(tmp_path):
    class Mixed(nn.Module):
        def forward(self, x, y):
            with torch.autocast("cpu", dtype=torch.float16):
                return (x @ y.t()).float() + 1

    inputs = torch.rand(4, 3), torch.rand(2, 3)
    opbridge.export(Mixed(), inputs, tmp_path / "model.onnx", dynamic_shapes=ROWS)
    operators = [node.op_type for node in onnx.load(tmp_path / "model.onnx").graph.node]
    assert operators.count("Cast") >= 3
    compare(Mixed(), loaded(tmp_path / "model.onnx"), EXAMPLES + OTHERS)


def test_vmap(tmp_path):
    class Mapped(nn.Module):
        def forward(self, x, y):
            return torch.vmap(lambda row: (row * y[0]).sum() + row)(x)

    opbridge.export(Mapped(), EXAMPLES[0], tmp_path / "model.onnx", dynamic_shapes=ROWS)
    compare(Mapped(), loaded(tmp_path / "model.onnx"), EXAMPLES + OTHERS)


def test_writing_to_what_is_outside_of_a_branch_is_refused(tmp_path):
    class Writes(nn.Module):
        def forward(self, x, y):
            return torch.cond(x.sum() > 0, lambda a: a.add_(1), lambda a: a.clone(), (x,))

    with pytest.raises(UnsupportedError):
        opbridge.export(Writes(), EXAMPLES[0], tmp_path / "model.onnx")


class CopiedByNoSteps(nn.Module):
    """A loop of no steps returns copies, two of the same tensor."""

    def forward(self, x, y):
        first, second = while_loop(lambda a, b: a.sum() > 1e9, lambda a, b: (a * 2, b + 1), (x, x))
        _, third = while_loop(lambda i, a: i < 0, lambda i, a: (i + 1, a * 2), (0, y))
        first.mul_(3)
        x.add_(1)
        y.add_(1)
        return first, second, third


class NothingToScan(nn.Module):
    """A scan of nothing returns its initial state itself."""

    def forward(self, x, y):
        last, all_of_them = scan(lambda c, a: (c + a, torch.stack((c, a))), y[0], x[:0])
        other, _ = scan(lambda c, a: (c + a, c * 2), y[1], x[:0])
        last.add_(1)
        y.mul_(2)
        return last, all_of_them, other


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize(
    "kind", [CopiedByNoSteps, pytest.param(NothingToScan, marks=since_torch_2_15("scan refuses no rows"))]
)
def test_results_that_may_be_operands(kind, capture, tmp_path):
    path, inputs = tmp_path / "model.onnx", (torch.rand(3, 2), torch.rand(2, 2))
    options = {"capture": capture, "mutations_as_outputs": True}
    opbridge.export(kind(), copy.deepcopy(inputs), path, **options)
    running, given = session(path), copy.deepcopy(inputs)
    with torch.no_grad():
        expected = [*kind()(*given), *given]
    names = [output.name for output in running.get_outputs()]
    written = [given[("x_out", "y_out").index(name)] for name in names[3:]]
    actual = run(running, dict(zip(("x", "y"), inputs, strict=True)))
    for got, wanted in zip(actual, [*expected[:3], *written], strict=True):
        torch.testing.assert_close(got, wanted)


class ScanOfRest(nn.Module):
    def forward(self, x, y):
        return scan(lambda c, a: (c + a, (c * a).repeat(2)), x[0] * 2, x[1:]), y * 2


class ScanOfPairs(nn.Module):
    def forward(self, x, y):
        return associative_scan(lambda a, b: a + b, x, 0), associative_scan(lambda a, b: a * b, y, 0, reverse=True)


@since_torch_2_15("scan and associative_scan are stricter")
@pytest.mark.parametrize("kind", [ScanOfRest, ScanOfPairs])
def test_scans_of_one_row(kind, tmp_path):
    """ONNX does not define a Scan of no slices; ONNX Runtime's fails."""
    opbridge.export(kind(), EXAMPLES[0], tmp_path / "model.onnx", dynamic_shapes=ROWS)
    compare(kind(), loaded(tmp_path / "model.onnx"), [*EXAMPLES, (torch.rand(1, 3), torch.rand(1, 3))])


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_a_scan_of_trees(capture, tmp_path):
    def step(carry, row):
        total, product = carry
        return (total + row["a"], product * row["b"][0]), [total * row["b"][0] + product, product.exp()]

    def model(x):
        return scan(step, (x[0], x[0] * 2), {"a": x, "b": (x / 2,)})

    opbridge.export(model, (torch.rand(4, 3),), tmp_path / "model.onnx", capture=capture)
    opbridge.verify(tmp_path / "model.onnx", model, (torch.randn(4, 3),))


@pytest.mark.filterwarnings("error::opbridge.capture.run_warnings.TraceWarning")
def test_constant_sizes_in_loops_stay_constant(tmp_path):
    """torch.export lets Dynamo assume that every size is dynamic, also those of other loops."""

    def gated(weight):
        def step(carry, row):
            first, second, third = (row @ weight.t()).chunk(3, -1)
            after = carry + torch.cat([first * second, third], -1)
            return after, after * 2

        return step

    def model(x, y):
        weights = torch.linspace(0, 1, 18).view(6, 3), torch.linspace(0, 1, 36).view(9, 4)
        states = torch.zeros(4), torch.zeros(6)
        return tuple(scan(gated(w), state, xs)[1] for w, state, xs in zip(weights, states, (x, y), strict=True))

    rows = {0: torch.export.Dim("rows", max=99)}
    opbridge.export(model, (torch.rand(5, 3), torch.rand(5, 4)), tmp_path / "model.onnx", dynamic_shapes=(rows, rows))
    for length in (2, 7):
        opbridge.verify(tmp_path / "model.onnx", model, (torch.rand(length, 3), torch.rand(length, 4)))


def chosen(index, x):
    switch = pytest.importorskip("torch._higher_order_ops.switch", reason="torch 2.13 has no torch.switch").switch
    branches = (lambda x: (x.cos(), x + x.shape[0]), lambda x: (x.sin(), x * 3), lambda x: (x.abs(), x - 1))
    return switch(index, branches, [x])


def test_a_choice_of_several_branches(tmp_path):
    def model(x, index):
        return chosen(index, x)

    opbridge.export(model, (EXAMPLES[0][0], torch.tensor(1)), tmp_path / "model.onnx", dynamic_shapes=(ROWS[0], None))
    for rows, index in ((1, 0), (3, 1), (4, 2), (5, 9), (2, -3)):
        opbridge.verify(tmp_path / "model.onnx", model, (torch.randn(rows, 3), torch.tensor(index)))


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_a_choice_by_a_size(capture, tmp_path):
    def model(x):
        return chosen(x.shape[0] - 2, x)

    opbridge.export(model, (torch.randn(3, 3),), tmp_path / "model.onnx", dynamic_shapes=ROWS[:1], capture=capture)
    for rows in (1, 2, 3, 4, 5):
        opbridge.verify(tmp_path / "model.onnx", model, (torch.randn(rows, 3),))


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_a_nested_region_of_torch_compile(capture, tmp_path):
    region = torch.compiler.nested_compile_region(lambda x: torch.sin(x) * x.shape[0])

    def model(x):
        return region(x) + region(x * 2)

    opbridge.export(model, (torch.rand(3, 2),), tmp_path / "model.onnx", capture=capture, dynamic_shapes=ROWS[:1])
    opbridge.verify(tmp_path / "model.onnx", model, (torch.rand(5, 2),))
