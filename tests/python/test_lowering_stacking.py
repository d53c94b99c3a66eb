"""Joining and splitting under NumPy's names, and flips."""

import pytest
import torch
from lowering_check import check
from torch import nn
from torch.export import Dim

import opbridge


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (2, 4, 3)])
def test_at_least_and_stacks(shape):
    functions = {name: getattr(torch, name) for name in ("atleast_1d", "atleast_2d", "atleast_3d")} | {
        name: lambda x, name=name: getattr(torch, name)((x, x.double(), x))
        for name in ("hstack", "vstack", "dstack", "column_stack")
    }
    check(functions, torch.randn(shape))


@pytest.mark.parametrize("opset", [13, 21])
def test_splits(opset):
    functions = {
        "hsplit": lambda x: torch.hsplit(x, 2),
        "hsplit at": lambda x: torch.hsplit(x, [1, 3]),
        "vsplit": lambda x: torch.vsplit(x, [0, 1]),
        "dsplit": lambda x: torch.dsplit(x, 3),
        "tensor_split": lambda x: torch.tensor_split(x, 3, dim=1),
        "tensor_split at": lambda x: torch.tensor_split(x, (1, 2), dim=-1),
        "tensor_split behind the end, and back": lambda x: torch.tensor_split(x, (2, 9, 1, -1), dim=-1),
        "copies": lambda x: torch.ops.aten.split_copy.Tensor(x, 3, 1),
    }
    check(functions, torch.randn(2, 4, 6), opset=opset)


@pytest.mark.parametrize("dtype", [torch.float32, torch.uint8, torch.bool, torch.bfloat16])
def test_products(dtype):
    functions = {
        "cartesian_prod": lambda x, y: torch.cartesian_prod(x, y, x),
        "combinations": lambda x, y: torch.combinations(x, 3),
        "with replacement": lambda x, y: torch.combinations(y, 2, with_replacement=True),
        "kron": lambda x, y: torch.kron(x.view(2, 2), y),
    }
    check(functions, torch.randint(0, 9, (4,)).to(dtype), torch.randint(0, 9, (3,)).to(dtype))


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize("opset", [11, 21])
def test_combinations_of_a_dynamic_size(opset, capture, tmp_path):
    counts = range(3 if capture == "export" else 5)  # torch.export fails on more

    def model(x):
        return [torch.combinations(x, count, again) for count in counts for again in (False, True)]

    path = tmp_path / "model.onnx"
    sizes = ({0: torch.export.Dim("n", min=0)},)
    opbridge.export(model, (torch.randn(5),), path, opset_version=opset, capture=capture, dynamic_shapes=sizes)
    for size in (5, 0, 1, 2, 7):
        opbridge.verify(path, model, (torch.randn(size),))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bool])
def test_flips_and_strides(dtype):
    functions = {
        "flip": lambda x: x.flip(0, -1),
        "flip nothing": lambda x: x.flip(()),
        "fliplr": torch.fliplr,
        "flipud": torch.flipud,
        "expand_copy": lambda x: torch.ops.aten.expand_copy(x[:, None], (4, 2, 5)),
    }
    check(functions, torch.randint(0, 5, (4, 5)).to(dtype))


@pytest.mark.parametrize("indexing", ["ij", "xy"])
def test_meshgrid(indexing):
    check(
        {
            "one": lambda a, b: torch.meshgrid(a, indexing=indexing),
            "two": lambda a, b: torch.meshgrid(a, b, indexing=indexing),
            "three": lambda a, b: torch.meshgrid(a, b, b[0], indexing=indexing),
        },
        torch.arange(3),
        torch.arange(4),
        dynamic=({0: torch.export.Dim.DYNAMIC}, {0: torch.export.Dim.DYNAMIC}),
        also=[(torch.arange(5), torch.arange(2))],
    )


def test_repeat():
    check(
        {
            "same rank": lambda x: x.repeat(2, 3),
            "more": lambda x: x.repeat(2, 1, 2),
            "none": lambda x: x.repeat(1, 0),
            "0-d": lambda x: x[0, 0].repeat(3),
            "nothing": lambda x: x[0, 0].repeat(()),
            "by size": lambda x: x.repeat(x.shape[0], 1),
            "bool": lambda x: (x > 1).repeat(1, 2),
        },
        torch.randn(2, 3),
        dynamic=({0: torch.export.Dim.DYNAMIC},),
        also=[(torch.randn(4, 3),)],
    )


def test_tile():
    check(
        {
            "fewer": lambda x: x.tile(2),
            "more": lambda x: x.tile((2, 1, 3)),
            "none": lambda x: x.tile(()),
            "ravel": lambda x: torch.ravel(x.t()),
            "by size": lambda x: x.tile((1, x.shape[0])),
        },
        torch.randn(2, 3),
        dynamic=({0: torch.export.Dim.DYNAMIC},),
        also=[(torch.randn(4, 3),)],
    )


@pytest.mark.parametrize("turns", [-1, 0, 1, 2, 3, 6])
def test_quarter_turns(turns):
    check(lambda x: torch.rot90(x, turns, (0, -1)), torch.arange(24).reshape(2, 3, 4))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_chunk_cat(dtype):
    x = torch.randn(3, 4, 2, dtype=dtype)
    check(lambda x: torch._chunk_cat([x, x[:2, 1:], x[:, :, 0]], 0, 2), x)
    check(lambda x: torch._chunk_cat([x, x[:, :1]], -2, 3), x)


def test_split_at_places_in_a_tensor():
    indices = torch.tensor([1, -1])
    check(lambda x, indices: torch.tensor_split(x, indices, 1), torch.randn(2, 5), indices, also=[
        (torch.randn(2, 5), torch.tensor([4, 2]))
    ])  # fmt: skip


@pytest.mark.parametrize("opset", [13, 21])
def test_sequences_of_several_lengths(opset):
    def pad(side, batch_first, value):
        return lambda *sequences: nn.utils.rnn.pad_sequence(sequences, batch_first, value, side)

    functions = {
        f"{side} {batch_first}": pad(side, batch_first, -1.5)
        for side in ("left", "right")
        for batch_first in (False, True)
    }
    sequences = tuple(torch.randn(length, 2) for length in (3, 5, 1))
    others = tuple(torch.randn(length, 2) for length in (2, 4, 7))
    check(functions, *sequences, dynamic=[{0: Dim.DYNAMIC}] * 3, also=[others], opset=opset)
    check(pad("right", True, 2), *(torch.arange(length) for length in (2, 2, 4)), opset=opset)


class Parts(nn.Module):
    def forward(self, x):
        first, second, third = torch.tensor_split(x, 3)
        return first.sum(), second + 1, third * 2, *x.tensor_split(sections=2, dim=1)


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_equal_parts_of_a_dynamic_size(capture, tmp_path):
    path = tmp_path / "model.onnx"
    opbridge.export(Parts(), (torch.ones(5, 3),), path, dynamic_shapes=({0: "n", 1: "m"},), capture=capture)
    for sizes in ((5, 3), (7, 4), (9, 1), (2, 6)):
        x = torch.randn(sizes)
        for got, wanted in zip(opbridge.runtime.run(opbridge.session(path), {"x": x}), Parts()(x), strict=True):
            torch.testing.assert_close(got, wanted)


def test_parts_of_a_dynamic_size_whose_remainder_decides_are_refused(tmp_path):
    """torch.export assumes the remainder of the example for every size."""
    program = torch.export.export(Parts(), (torch.ones(5, 3),), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},))
    with pytest.raises(opbridge.UnsupportedError, match="depend on a dynamic size; split at indices"):
        opbridge.export(program, None, tmp_path / "x.onnx")


def test_negative_repetitions_of_nothing_are_refused(tmp_path):
    with pytest.raises(opbridge.UnsupportedError, match="count of repetitions is negative"):
        opbridge.export(lambda x: x.tile(0, -1), (torch.ones(1, 0),), tmp_path / "x.onnx", capture="trace")
