"""Written models, checked by onnx and ONNX Runtime."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from torch import nn

import opbridge
from checking.runtime import run_plain

OPSETS = [9, 11, 13, 14, 15, 16, 17, 18, 19, 20, 21]


class Perceptron(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(20, 30)
        self.second = nn.Linear(30, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.relu(self.first(x)))


@pytest.fixture(scope="module")
def model() -> nn.Module:
    torch.manual_seed(0)
    return Perceptron().eval()


def export(model: nn.Module, path: Path, **options: object) -> opbridge.ONNXProgram:
    return opbridge.export(model, (torch.zeros(3, 20),), path, input_names=["x"], output_names=["y"], **options)


@pytest.mark.parametrize("opset", OPSETS)
def test_the_checker_and_the_runtime_accept_it(model: nn.Module, opset: int, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    export(model, path, opset_version=opset)
    onnx.checker.check_model(path, full_check=True)
    x = torch.randn(3, 20)
    np.testing.assert_allclose(run_plain(path, x)[0], model(x).detach().numpy(), rtol=1e-4, atol=1e-6)


def test_the_bytes_are_those_that_protobuf_itself_writes(model: nn.Module, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    export(model, path)
    assert onnx.load(path).SerializeToString() == path.read_bytes()


def test_the_same_model_gives_the_same_bytes(model: nn.Module, tmp_path: Path) -> None:
    export(model, tmp_path / "a.onnx")
    export(model, tmp_path / "b.onnx")
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()


def test_external_data(model: nn.Module, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    report = export(model, path, external_data=True)
    assert report.external_file == str(tmp_path / "m.onnx.data")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.onnx", "m.onnx.data"]
    onnx.checker.check_model(path, full_check=True)
    x = torch.randn(3, 20)
    np.testing.assert_allclose(run_plain(path, x)[0], model(x).detach().numpy(), rtol=1e-4, atol=1e-6)

    raw = onnx.load(path, load_external_data=False)
    external = {t.name: {e.key: e.value for e in t.external_data} for t in raw.graph.initializer if t.external_data}
    assert external
    for entry in external.values():
        assert entry["location"] == "m.onnx.data"
        assert int(entry["offset"]) % 64 == 0
    weights = {name: p.detach().numpy() for name, p in model.named_parameters()}
    for tensor in onnx.load(path).graph.initializer:
        if tensor.name in weights:
            np.testing.assert_array_equal(onnx.numpy_helper.to_array(tensor), weights[tensor.name])


def test_nodes_tell_where_they_come_from(model: nn.Module, tmp_path: Path) -> None:
    export(model, tmp_path / "m.onnx")
    nodes = onnx.load(tmp_path / "m.onnx").graph.node
    sources = [{p.key: p.value for p in node.metadata_props} for node in nodes]
    assert any("test_writer.py" in s.get("pytorch.source", "") for s in sources)
    assert {"first", "second"} <= {s.get("pytorch.scope") for s in sources}

    export(model, tmp_path / "old.onnx", opset_version=17)
    old = onnx.load(tmp_path / "old.onnx").graph.node
    assert any("test_writer.py" in node.doc_string for node in old)
    assert not any(node.metadata_props for node in old)

    export(model, tmp_path / "bare.onnx", source_lines=False)
    assert b"test_writer.py" not in (tmp_path / "bare.onnx").read_bytes()


class NoWeights(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


def test_external_data_is_written_where_no_weight_is_large(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    report = export(NoWeights(), path, external_data=True)
    assert report.external_file == str(tmp_path / "m.onnx.data")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.onnx", "m.onnx.data"]
    x = torch.randn(3, 20)
    np.testing.assert_array_equal(run_plain(path, x)[0], (x * 2).numpy())


def test_links_are_written_through(model: nn.Module, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    for name in ("m.onnx", "m.onnx.data"):
        (tmp_path / name).symlink_to(Path("real") / name)  # to nothing yet
    for _ in range(2):
        export(model, tmp_path / "m.onnx", external_data=True)
        assert all((tmp_path / name).is_symlink() for name in ("m.onnx", "m.onnx.data"))
        assert sorted(p.name for p in (tmp_path / "real").iterdir()) == ["m.onnx", "m.onnx.data"]
    x = torch.randn(3, 20)
    np.testing.assert_allclose(
        run_plain(tmp_path / "real/m.onnx", x)[0], model(x).detach().numpy(), rtol=1e-4, atol=1e-6
    )


def test_links_that_lead_nowhere(model: nn.Module, tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    (tmp_path / "c").symlink_to("missing/m.onnx")
    with pytest.raises(opbridge.FileError, match="Too many levels of symbolic links"):
        export(model, tmp_path / "a")
    with pytest.raises(opbridge.FileError, match="No such file or directory"):
        export(model, tmp_path / "c")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "b", "c"]


def test_external_data_that_would_be_the_model(model: nn.Module, tmp_path: Path) -> None:
    (tmp_path / "m.onnx.data").symlink_to("m.onnx")
    with pytest.raises(opbridge.FileError, match=r"its weight file .*m\.onnx\.data is the same file"):
        export(model, tmp_path / "m.onnx", external_data=True)
    (tmp_path / "m.onnx.data").unlink()
    (tmp_path / "m.onnx.data").mkdir()
    with pytest.raises(opbridge.FileError, match=r"cannot write .*m\.onnx\.data: Is a directory"):
        export(model, tmp_path / "m.onnx", external_data=True)
    assert [p.name for p in tmp_path.iterdir()] == ["m.onnx.data"]


def test_a_full_disk_leaves_nothing(model: nn.Module, tmp_path: Path) -> None:
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", tmp_path], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip("needs the right to mount a file system")
    try:
        (tmp_path / "m.onnx").write_bytes(b"what stood here")
        wide = nn.Linear(100, 200)
        for external in (False, True):
            with pytest.raises(opbridge.FileError, match=r"cannot write .*No space left on device"):
                opbridge.export(wide, (torch.zeros(1, 100),), tmp_path / "m.onnx", external_data=external)
        assert [p.name for p in tmp_path.iterdir()] == ["m.onnx"]
        assert (tmp_path / "m.onnx").read_bytes() == b"what stood here"
    finally:
        subprocess.run(["umount", tmp_path], check=True)


ENTRIES: dict[str, Callable[[str], object]] = {
    "export": lambda path: opbridge.export(NoWeights(), (torch.zeros(3),), path),
    "verify": lambda path: opbridge.verify(path, NoWeights(), (torch.zeros(3),)),
    "session": opbridge.session,
    "library of a session": lambda path: opbridge.session("m.onnx", libraries=[path]),
    "load_operators": opbridge.load_operators,
    "build": lambda path: opbridge.build([path]),
}


@pytest.mark.parametrize("entry", ENTRIES)
def test_a_path_with_a_zero_byte(entry: str, tmp_path: Path) -> None:
    with pytest.raises(opbridge.InvalidArgumentError, match="a path with a zero byte"):
        ENTRIES[entry](str(tmp_path / "m.onnx\0.onnx"))
    assert list(tmp_path.iterdir()) == []


def test_a_target_that_cannot_be_written(model: nn.Module, tmp_path: Path) -> None:
    with pytest.raises(opbridge.Error, match="Is a directory"):
        export(model, tmp_path)
    with pytest.raises(opbridge.Error, match="No such file or directory"):
        export(model, tmp_path / "missing" / "m.onnx")
    assert list(tmp_path.iterdir()) == []
