"""Sizes and numbers that depend on the data, by both captures, against PyTorch."""

import warnings

import pytest
import torch
from torch import nn

import opbridge
from opbridge.runtime import run, session

X = torch.tensor([[3.0, 1.0, 2.0], [0.0, 1.0, 4.0], [0.0, 1.0, 4.0], [2.0, 2.0, 2.0]])
OTHER = torch.tensor([[5.0, 0.0, 1.0], [1.0, 1.0, 1.0]])


def items(x):
    total, first = x.sum().item(), x.long()[0, 0].item()
    torch._check(first >= 0)
    torch._check(first < 10)
    return x * total, torch.zeros(first), total * 2 + 1, torch.arange(first), x.new_full((first, 2), total)


def sizes_of_found(x):
    found = x[x > 0.5]
    indices = (x > 0.5).nonzero()
    return found.sum(), found.shape[0], torch.cat([found, found * 2]), indices.t(), found.new_ones(found.shape[0], 2)


def assigned(x):
    x = x.clone()
    mask = x > 1
    x[mask] = x[mask] * 2
    x[x.sum(1) > 6] = -1
    return x


def uniques(x):
    values, inverse, counts = torch.unique(x, return_inverse=True, return_counts=True)
    rows, where = torch.unique(x, dim=0, return_inverse=True)
    return values, inverse, counts, rows, where, torch.unique(x.int()), torch.unique(x > 1)


def consecutive(x):
    flat, inverse, counts = torch.unique_consecutive(x, return_inverse=True, return_counts=True)
    rows, _, lengths = torch.unique_consecutive(x, return_inverse=True, return_counts=True, dim=0)
    # For slices PyTorch returns all results, requested or not.
    everything = torch.ops.aten.unique_consecutive.default(x, dim=1)
    return flat, inverse, counts, rows, lengths, everything, torch.unique_consecutive(x[:, 0], dim=0)


def repeated(x):
    times = x[:, 0].long()
    return (
        torch.repeat_interleave(times),
        torch.repeat_interleave(times.int()),
        torch.repeat_interleave(x, times, 0),
        x.repeat_interleave(2),
        x.repeat_interleave(3, 1),
        x.repeat_interleave(0),
        x.repeat_interleave(0, 1),
        x.repeat_interleave(torch.tensor([2]), 0),
    )


def negative_numbers(x):
    number = (x.sum() - 25).long().item()
    return x + number // 2, x * (number % 3)


def nothing_found(x):
    pairs = torch.stack([x, x + 1])
    few = pairs[pairs.sum((1, 2)) > 22]  # none, one or two
    return few.flatten(1), few.reshape(-1, 3), few.reshape(few.shape[0] * 3, few.shape[1]), few.mT.flatten(0, 1)


def narrowed(x):
    start = (x.sum().long() % 2 - 2).item()
    torch._check(start >= -2)
    torch._check(start < 0)
    return x.narrow(1, start, 1), x + x.sum().item() % 0.1


def by_scalar_masks(x):
    """Each mask is true of one of the inputs and false of another."""
    total, mask = x.sum(), x.sum() > 7
    scores, filled = torch.ones_like(total), x.clone()
    scores[mask] = total[mask] / x.amax()[mask]
    scores[~mask] = 0
    filled[mask] = -1.5
    rest = ~mask
    filled[rest] += x[rest]
    return scores, filled, x[mask], x[rest].sum(0)


def by_scalar_masks_beside_others(x):
    mask, written = x.sum() > 7, x.clone()
    number = mask.to(torch.uint8)
    written[..., mask, 0] = -1.0
    written[1 - number] += 2
    return written, x[mask, 0], x[:, ~mask], x[None, ..., mask], x[number], x[..., 1 - number], x[0, number, [1, 0][:1]]


FUNCTIONS = [
    by_scalar_masks,
    by_scalar_masks_beside_others,
    items,
    sizes_of_found,
    assigned,
    uniques,
    consecutive,
    repeated,
    negative_numbers,
    nothing_found,
    narrowed,
]


class Model(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


@pytest.mark.parametrize("how", ["export", "trace"])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_function(function, how, tmp_path):
    path = tmp_path / "model.onnx"
    rows = ({0: torch.export.Dim.DYNAMIC},)
    opbridge.export(Model(function), (X,), path, capture=how, dynamic_shapes=rows)
    running = session(path)
    for x in (X, OTHER, X[:1] + 1):
        expected = torch.utils._pytree.tree_leaves(function(x))
        for got, wanted in zip(run(running, {"x": x}), expected, strict=True):
            torch.testing.assert_close(got, torch.as_tensor(wanted))


def test_nan_differs_from_itself(tmp_path):
    def function(x):
        return torch.unique(x), torch.unique(x, return_inverse=True, return_counts=True)

    path = tmp_path / "model.onnx"
    nan = float("nan")
    rows = ({0: torch.export.Dim.DYNAMIC},)
    opbridge.export(Model(function), (X,), path, dynamic_shapes=rows)
    running = session(path)
    for x in (X, torch.tensor([[nan, 1, nan], [2, 1, nan]]), torch.full((2, 3), nan), torch.zeros(0, 3)):
        expected = torch.utils._pytree.tree_leaves(function(x))
        for got, wanted in zip(run(running, {"x": x}), expected, strict=True):
            torch.testing.assert_close(got, wanted, equal_nan=True)


def test_a_found_size_stays_one_where_torch_asks_the_data(tmp_path):
    """cummax asks whether there are elements, so that the data are computed beside the fake tensors."""
    path = tmp_path / "model.onnx"
    rows = ({0: torch.export.Dim.DYNAMIC},)
    opbridge.export(lambda x: x[x > 1].cummax(0).values, (X,), path, capture="trace", dynamic_shapes=rows)
    running = session(path)
    assert not isinstance(running.get_outputs()[0].shape[0], int)
    for x in (X, OTHER):
        torch.testing.assert_close(run(running, {running.get_inputs()[0].name: x})[0], x[x > 1].cummax(0).values)


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_what_is_found_has_the_size_of_a_view(capture, tmp_path):
    """As where a mask selects elements that were padded before."""
    functions = [
        lambda x, mask: x[mask].view_as(x) * 2,
        lambda x, mask: torch.masked_select(x, mask).view(x.shape[0], 3),
        lambda x, mask: x[mask].view(x.shape).flip(0) + x,
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error", opbridge.TraceWarning)
        for i, function in enumerate(functions):
            path, sizes = tmp_path / f"{i}.onnx", ({0: "n"}, {0: "n"})
            opbridge.export(function, (X, X >= 0), path, capture=capture, dynamic_shapes=sizes)
            opbridge.verify(path, function, (OTHER, OTHER >= 0))


def test_an_axis_that_is_squeezed_in_this_run_is_refused(tmp_path):
    """The branch makes the capture compute the data too, in which the axis is gone."""

    def best(x):
        found = x[x == x.max()]
        return x * found.squeeze() if [*filter(None, (found.sum() > 0,))] else x

    with pytest.raises(
        opbridge.UnsupportedError, match=r"squeeze\(\) keeps the axis of the size 'u\d+', which depends"
    ):
        opbridge.export(best, (torch.arange(6.0),), tmp_path / "m.onnx", capture="trace", dynamic_shapes=({0: "n"},))


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_an_axis_of_chosen_rows_that_is_squeezed_in_the_example_is_refused(capture, tmp_path):
    def chosen(x):
        rows = [x[0] * 2]
        for row in x:
            if row.sum() > 1:
                rows.append(row)
        return torch.stack(rows).squeeze()

    few, more = torch.zeros(3, 2), torch.ones(3, 2)
    path, sizes = tmp_path / "m.onnx", ({0: "n"},)
    with pytest.raises(opbridge.UnsupportedError, match=r"squeeze\(\) keeps an axis of a size, which depends"):
        opbridge.export(chosen, (few,), path, capture=capture, dynamic_shapes=sizes)
    with pytest.warns(opbridge.TraceWarning, match=r"squeeze\(\) keeps the axis"):
        opbridge.export(chosen, (more,), path, capture=capture, dynamic_shapes=sizes)
    opbridge.verify(path, chosen, (torch.ones(4, 2),))


def test_a_branch_on_data_is_warned_of_once(tmp_path, capfd):
    """torch would also log what the branch depends on."""
    rows = ({0: torch.export.Dim.DYNAMIC},)
    with pytest.warns(opbridge.TraceWarning, match="read as the number True"):
        opbridge.export(
            lambda x: x if x.sum() > 0 else -x, (X,), tmp_path / "m.onnx", capture="trace", dynamic_shapes=rows
        )
    assert not capfd.readouterr().err


def test_instance_norm_of_none_found(tmp_path):
    path = tmp_path / "model.onnx"
    opbridge.export(lambda x: torch.nn.functional.instance_norm(x[None, :, x[0] > 1]), (X,), path, capture="trace")
    running = session(path)
    assert run(running, {running.get_inputs()[0].name: X * 0})[0].shape == (1, 4, 0)
