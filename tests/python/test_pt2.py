"""`opbridge inspect` reads what torch.export.save writes, and refuses everything else in one line."""

from __future__ import annotations

import random
import re
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import command
import pytest
import torch
from command import opbridge
from torch import nn
from torch.export import Dim


def run(path: Path) -> subprocess.CompletedProcess[str]:
    return opbridge("inspect", path)


def inspect(path: Path) -> str:
    done = run(path)
    assert done.returncode == 0, done.stderr
    return done.stdout


def refusal(path: Path) -> str:
    return command.refusal("inspect", path)


Save = Callable[..., Path]


@pytest.fixture
def save(tmp_path: Path) -> Save:
    def export_and_save(model: nn.Module, *args: Any, **options: Any) -> Path:
        path = tmp_path / "model.pt2"
        torch.export.save(torch.export.export(model.eval(), args, **options), path)
        return path

    return export_and_save


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 3, padding=1)
        self.bn = nn.BatchNorm2d(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.bn(self.conv(x)) + x)


class SmallResnet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3, stride=2)
        self.blocks = nn.Sequential(Residual(), Residual())
        self.fc = nn.Linear(4, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(self.blocks(self.stem(x)).mean((2, 3)))


@pytest.fixture(scope="module")
def resnet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pt2") / "resnet.pt2"
    torch.export.save(torch.export.export(SmallResnet().eval(), (torch.randn(2, 3, 9, 9),)), path)
    return path


def test_a_convolutional_model(resnet: Path) -> None:
    text = inspect(resnet)
    assert text.startswith("graph main(%x: float32[2, 3, 9, 9]) {\n")
    assert "weight %blocks.1.bn.running_var: float32[4]" in text
    assert "num_batches_tracked" not in text  # nothing uses it
    assert re.search(
        r"%conv2d_2: float32\[2, 4, 4, 4\] = aten::conv2d\(input=%\w+, weight=%blocks.1.conv.weight, "
        r"bias=%blocks.1.conv.bias, stride=\[1, 1\], padding=\[1, 1\]\)  # blocks.1.conv\n",
        text,
    )
    assert text.endswith("  return %linear\n}\n")


def test_sizes_are_expressions_and_their_nodes_are_left_out(save: Save) -> None:
    class Sizes(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
            batch, time, channels = x.shape
            flat = x.reshape(batch * time, channels)
            return flat, torch.cat([x, y], 1), x.new_zeros(max(batch, 3), time + 1), batch * 2

    shapes = {"x": {0: Dim("batch"), 1: Dim("time")}, "y": {0: Dim("batch"), 1: Dim("more")}}
    text = inspect(save(Sizes(), torch.randn(4, 6, 5), torch.randn(4, 3, 5), dynamic_shapes=shapes))
    header = re.match(r"graph main\(%x: float32\[(\w+), (\w+), 5\], %y: float32\[(\w+), (\w+), 5\]\)", text)
    assert header
    batch, time, batch_of_y, more = header.groups()
    assert batch == batch_of_y
    assert "sym_size" not in text
    assert "_operator::" not in text
    assert f"aten::reshape(self=%x, shape=[{batch}*{time}, 5])" in text
    assert f"%cat: float32[{batch}, {time} + {more}, 5]" in text
    assert re.search(rf"aten::new_zeros\(self=%x, size=\[Max\((3, {batch}|{batch}, 3)\), {time} \+ 1\]", text)
    assert f"int64[] = aten::scalar_tensor(s=2*{batch}, dtype=int64)" in text


def test_list_results_are_several_outputs(save: Save) -> None:
    class Lists(nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            a, b, c = x.split([2, 3, 5], 1)
            values, _ = torch.topk(x, 3)
            return a, b, c, values, x[:, torch.tensor([1, 2])]

    text = inspect(save(Lists(), torch.randn(4, 10)))
    assert re.search(
        r"%(\w+): float32\[4, 2\], %(\w+): float32\[4, 3\], %(\w+): float32\[4, 5\] = "
        r"aten::split_with_sizes\(self=%x, split_sizes=\[2, 3, 5\], dim=1\)",
        text,
    )
    assert re.search(r"%\w+: float32\[4, 3\], %\w+: int64\[4, 3\] = aten::topk\(self=%x, k=3\)", text)
    assert re.search(r"aten::index.Tensor\(self=%x, indices=\[None, %\w+\]\)", text)


def test_tied_weights_are_one(save: Save) -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(10, 6)
            self.head = nn.Linear(6, 10, bias=False)
            self.head.weight = self.embedding.weight
            self.unused = nn.Parameter(torch.zeros(3))
            self.register_buffer("scale", torch.arange(20.0)[5:11])
            self.register_buffer("turned", torch.ones(10, 2).t(), persistent=False)

        def forward(self, i: torch.Tensor) -> torch.Tensor:
            y = self.head(self.embedding(i) * self.scale)
            return y @ self.turned.t() + torch.tensor([1.0, 2.0])

    text = inspect(save(Tied(), torch.tensor([[1, 2]])))
    weights = re.findall(r"weight %(\S+): (\w+\[.*?\])", text)
    assert sorted(weights) == [
        ("head.weight", "float32[10, 6]"),
        ("lifted_tensor_0", "float32[2]"),
        ("scale", "float32[6]"),
        ("turned", "float32[2, 10]"),
    ]


def test_a_number_out_of_a_tensor_keeps_its_node(save: Save) -> None:
    class Item(nn.Module):
        def forward(self, x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
            size = n.item()
            torch._check(size >= 2)
            torch._check(size < 100)
            return torch.zeros(size, 3) + x

    text = inspect(save(Item(), torch.randn(3), torch.tensor(4)))
    assert "%item: int64 u0 = aten::item(self=%n)" in text
    assert "aten::zeros(size=[u0, 3]" in text
    assert "assert" not in text
    assert "_operator::" not in text


def test_regions_and_branches(save: Save) -> None:
    class Regions(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(3, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with torch.no_grad():
                x = x + x.shape[0]
            with torch.autocast("cpu", enabled=False):
                x = x * 2
            return torch.cond(x.sum() > 0, lambda x: self.linear(x), lambda x: x - 1, (x,))

    text = inspect(save(Regions(), torch.randn(2, 3), dynamic_shapes={"x": {0: Dim("batch")}}))
    assert "wrap_with" not in text
    assert re.search(r"aten::add.Tensor\(self=%x, other=s\d+\)", text)
    assert re.search(r"higher_order::cond\(arg0=%gt, arg1=graph true_graph_0, arg2=graph false_graph_0, arg3=\[", text)
    assert re.search(r"\n {6}%\w+: float32\[s\d+, 3\] = aten::sub.Tensor\(", text)


def test_autocast_is_refused_with_advice_that_works(tmp_path: Path) -> None:
    class Cast(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(3, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                return self.linear(x)

    program = torch.export.export(Cast(), (torch.randn(2, 3),))
    path = tmp_path / "cast.pt2"
    torch.export.save(program, path)
    done = run(path)
    assert done.returncode == 2
    assert "run_decompositions({})" in done.stderr
    torch.export.save(program.run_decompositions({}), path)
    assert "aten::_to_copy(self=%x, dtype=bfloat16)" in inspect(path)


def test_what_a_program_changes_is_written_back(tmp_path: Path) -> None:
    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.count += 1
            return x * self.count

    path = tmp_path / "counter.pt2"
    program = torch.export.export(Counter(), (torch.randn(2),))
    torch.export.save(program.run_decompositions({}), path)
    assert "aten::copy_(self=%count, src=%add)" in inspect(path)


def repack(source: Path, target: Path, change: dict[str, bytes | None], **options: Any) -> Path:
    """Writes the archive again, with entries (named without the root folder) replaced or left out."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w", **options) as new:
        for name in old.namelist():
            content = change.get(name.split("/", 1)[1], old.read(name))
            if content is not None:
                new.writestr(name, content)
    return target


def test_a_compressed_archive_reads_alike(resnet: Path, tmp_path: Path) -> None:
    packed = repack(resnet, tmp_path / "packed.pt2", {}, compression=zipfile.ZIP_DEFLATED)
    assert inspect(packed) == inspect(resnet)
    foreign = repack(resnet, tmp_path / "bz2.pt2", {}, compression=zipfile.ZIP_BZIP2)
    assert "unsupported compression method" in refusal(foreign)


def test_pickles_are_never_opened(resnet: Path, tmp_path: Path) -> None:
    poison = b"cos\nsystem\n(S'touch %s'\ntR." % str(tmp_path / "executed").encode()
    with zipfile.ZipFile(resnet) as archive:
        weights = archive.read("resnet/data/weights/model_weights_config.json")
    pickled = weights.replace(b'"use_pickle": false', b'"use_pickle": true')
    change = {"data/weights/model_weights_config.json": pickled, "data/weights/weight_0": poison}
    assert "stored as a pickle" in refusal(repack(resnet, tmp_path / "a.pt2", change))
    assert inspect(repack(resnet, tmp_path / "b.pt2", {"data/sample_inputs/model.pt": poison}))
    assert not (tmp_path / "executed").exists()


def test_a_newer_schema(resnet: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(resnet) as archive:
        program = archive.read("resnet/models/model.json")
    newer = re.sub(rb'"schema_version": \{"major": \d+', b'"schema_version": {"major": 99', program)
    line = refusal(repack(resnet, tmp_path / "newer.pt2", {"models/model.json": newer}))
    assert "schema version 99." in line
    assert torch.__version__ in line
    assert "a newer opbridge may know it" in line


def test_files_that_are_something_else(tmp_path: Path) -> None:
    path = tmp_path / "other.pt2"
    assert "no such file" in refusal(path)
    assert "a directory" in refusal(tmp_path)
    assert "not a regular file" in refusal(Path("/dev/null"))
    path.write_bytes(b"")
    assert "the file is empty" in refusal(path)
    path.write_bytes(b"\x08\x07 no zip at all")
    assert "not a zip archive" in refusal(path)
    torch.save(nn.Linear(2, 2).state_dict(), path)
    assert "torch.save" in refusal(path)
    torch.jit.save(torch.jit.trace(nn.ReLU(), torch.randn(2)), path)
    assert "TorchScript archive" in refusal(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme.txt", "hello")
    assert "torch.export.save" in refusal(path)


def test_truncations(resnet: Path, tmp_path: Path) -> None:
    whole = resnet.read_bytes()
    path = tmp_path / "cut.pt2"
    sizes = {1, 3, 4, 29, 30, 64, len(whole) - 1, len(whole) - 21, len(whole) - 22, len(whole) - 23}
    sizes |= {len(whole) * i // 40 for i in range(1, 40)}
    for size in sizes:
        path.write_bytes(whole[:size])
        assert "zip archive" in refusal(path), size


def test_changed_bytes(resnet: Path, tmp_path: Path) -> None:
    """Each changed byte is reported or, if it is in a weight or in padding, does not change the output."""
    whole = resnet.read_bytes()
    expected = inspect(resnet)
    path = tmp_path / "changed.pt2"
    chance = random.Random(0)
    tail = len(whole) - 2500  # the central directory
    for i in range(150):
        at = chance.randrange(tail, len(whole)) if i % 3 == 0 else chance.randrange(len(whole))
        changed = bytearray(whole)
        changed[at] ^= 1 << chance.randrange(8)
        path.write_bytes(changed)
        done = run(path)
        assert done.returncode in (0, 2), (at, done.returncode, done.stderr)
        if done.returncode == 0:
            assert done.stdout == expected, at
