"""Views of memory by ``as_strided``: what they read, and writes to them."""

import math
import subprocess

import pytest
import torch
from command import OPBRIDGE
from functionalize_check import Model
from torch import nn

import opbridge
from opbridge import UnsupportedError
from opbridge.runtime import run, session

STORED = {
    "channels-last": lambda p: p.reshape(1, 2, 3, 4).contiguous(memory_format=torch.channels_last),
    "transposed": lambda p: p.reshape(6, 4).t(),
    "behind the start": lambda p: p[4:],
    "of rows": lambda p: p.reshape(2, 3, 4).transpose(0, 1),
}


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize("stored", STORED)
def test_as_strided_reads_memory(stored, capture, tmp_path):
    class Strided(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(STORED[stored](torch.arange(24.0)))
            self.register_buffer("table", STORED[stored](torch.arange(24.0) * 2))

        def forward(self, x):
            view = torch.as_strided(self.weight, (4, 3), (3, 1))
            later = torch.as_strided(self.table, (2, 2, 3), (1, 4, 2), 5)
            ours = x * 1
            torch.as_strided(ours, (2, 2), (1, 6), 3).add_(1)
            return x.sum() + view, later + x.sum(), torch.as_strided(x, (3, 2), (5, 2)), ours

    model = Strided().eval()
    x = STORED[stored](torch.rand(24))
    path = tmp_path / "model.onnx"
    opbridge.export(model, (x,), path, capture=capture)
    for got, wanted in zip(run(session(path), {"x": x}), model(x), strict=True):
        torch.testing.assert_close(got, wanted)


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_as_strided_of_repeated_or_missing_memory_is_refused(capture, tmp_path):
    for stored in (torch.arange(4.0).expand(3, 4), torch.arange(24.0).reshape(6, 4)[:, :2], torch.arange(12.0)[4:]):

        def function(x, stored=stored):
            return x + torch.as_strided(stored, (2, 2), (2, 1), 0)

        with pytest.raises(UnsupportedError, match=r"layout in memory is not known|reads memory outside its tensor"):
            opbridge.export(function, (torch.rand(1),), tmp_path / "model.onnx", capture=capture)


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize("windows", [((3, 2), (1, 1)), ((2, 3), (2, 1))])
def test_writes_to_overlapping_windows_of_as_strided_are_refused(windows, capture, tmp_path):
    def model(x):
        own = x * 2
        own.as_strided(*windows).add_(1)
        return own

    with pytest.raises(opbridge.UnsupportedError, match="several elements of which share memory"):
        opbridge.export(model, (torch.rand(8),), tmp_path / "model.onnx", capture=capture)


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize("windows", [((3, 2), (2, 1)), ((2, 4), (1, 2)), ((1, 3), (1, 1)), ((0, 2), (1, 1))])
def test_writes_to_separate_windows_of_as_strided(windows, capture, tmp_path):
    def model(x):
        own = x * 2
        own.as_strided(*windows).add_(1)
        return own

    opbridge.export(model, (torch.rand(8),), tmp_path / "model.onnx", capture=capture, verify=True)


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_as_strided_counts_from_the_storage_of_an_input(capture, tmp_path):
    def function(x, gaps):
        scattered = torch.as_strided_scatter(x, torch.zeros(2), (2,), (3,), 5)
        columns = torch.as_strided(x.t()[1], (2,), (3,), 6)
        return torch.as_strided(x, (2, 2), (1, 3), 5), scattered, columns, x.view(-1) + 1, gaps * 2

    x = torch.arange(24.0)[4:16].view(4, 3)
    gaps = torch.arange(24.0).view(4, 6)[1:, 1:3]
    path = tmp_path / "model.onnx"
    opbridge.export(function, (x, gaps), path, capture=capture, verify=True)
    found = run(session(path), {"x": x, "gaps": gaps})
    for got, wanted in zip(found, function(x, gaps), strict=True):
        torch.testing.assert_close(got, wanted)

    saved = tmp_path / "model.pt2"
    torch.export.save(torch.export.export(Model(function), (x, gaps)), saved)
    subprocess.run([OPBRIDGE, "convert", saved, path], check=True)
    for got, wanted in zip(run(session(path), {"args_0": x, "args_1": gaps}), found, strict=True):
        torch.testing.assert_close(got, wanted)

    rows = ({0: torch.export.Dim("n", min=4)}, None)
    opbridge.export(function, (x, gaps), path, capture=capture, dynamic_shapes=rows)
    opbridge.verify(path, function, (torch.rand(25)[4:].view(7, 3), gaps))


def frames(x):
    length = 4 * math.ceil(max(x.shape[1], 8) / 4)
    rows = nn.functional.pad(x, (0, length - x.shape[1]))
    return rows.as_strided((len(rows), length // 4 - 1, 8), (rows.stride(0), 4, 1))


def pairs(x):
    rows = x[:, 2:] * 2
    return rows.as_strided((len(rows), rows.shape[1] // 2, 2), (rows.stride(0), 2, 1))


# torch's strides of such rows are Max(1, length).
@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize("function", [frames, pairs])
def test_as_strided_of_rows_of_dynamic_length(function, capture, tmp_path):
    path = tmp_path / "model.onnx"
    opbridge.export(function, (torch.rand(2, 9),), path, capture=capture, dynamic_shapes=({0: "rows", 1: "columns"},))
    for columns in (2, 3, 8, 12):
        opbridge.verify(path, function, (torch.rand(3, columns),))


PARTS = {
    "a row": lambda x: x.clone()[0],
    "a later row": lambda x: (x * 2)[1],
    "rows": lambda x: x.clone()[:-1],
    "columns": lambda x: x.clone()[:, 1:],
    "a transposed tensor": lambda x: (x * 2).t()[1:],
}
WINDOWS = {
    "of constant sizes": lambda part, x: part.as_strided((2, 2), (2, 1)),
    "of a dynamic size": lambda part, x: part.as_strided((x.shape[0] + 1,), (1,)),
    "of all": lambda part, x: part.as_strided((*x.shape, 1), (x.shape[1], 1, 1), 0),
}


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize("windows", WINDOWS)
def test_elements_beside_a_part_of_dynamic_size(windows, capture, tmp_path):
    """PyTorch reads the memory of the whole tensor."""

    def model(x):
        return [WINDOWS[windows](part(x), x) + 1 for part in PARTS.values()]

    path = tmp_path / "model.onnx"
    sizes = ({0: torch.export.Dim("n", min=2), 1: torch.export.Dim("m", min=2)},)
    opbridge.export(model, (torch.rand(4, 3),), path, capture=capture, dynamic_shapes=sizes)
    for shape in [(4, 3), (3, 2), (5, 2), (3, 7)]:
        opbridge.verify(path, model, (torch.rand(shape),))
