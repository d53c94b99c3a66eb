"""Weights in files: ``weights=``, ``external_data="reference"``, and the readers of ``.safetensors`` files."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from command import opbridge as command
from torch import nn

import opbridge
from checking.runtime import run_plain
from opbridge import _core
from opbridge.weights import WeightFiles

DTYPES = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.int64: "I64", torch.float64: "F64"}


def bytes_of(tensor: torch.Tensor) -> bytes:
    return tensor.detach().contiguous().view(-1).view(torch.uint8).numpy().tobytes()


def with_header(header: str, data: bytes, length: int | None = None) -> bytes:
    return struct.pack("<Q", len(header) if length is None else length) + header.encode() + data


def safetensors(tensors: dict[str, torch.Tensor], padding: int = 8) -> bytes:
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    data = b""
    for name, tensor in tensors.items():
        content = bytes_of(tensor)
        offsets = [len(data), len(data) + len(content)]
        header[name] = {"dtype": DTYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": offsets}
        data += content
    text = json.dumps(header)
    return with_header(text + " " * (-len(text) % padding), data)


class Perceptron(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(32, 48)
        self.second = nn.Linear(48, 24)
        self.register_buffer("shift", torch.arange(48.0), persistent=False)  # in no file

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.relu(self.first(x) + self.shift))


X = torch.linspace(-1, 1, 96).reshape(3, 32)


@pytest.fixture
def model() -> Perceptron:
    torch.manual_seed(0)
    return Perceptron().eval()


def on_meta(build: Callable[[], nn.Module] = Perceptron) -> nn.Module:
    with opbridge.meta_parameters():
        return build().eval()


def shard(folder: Path, tensors: dict[str, torch.Tensor]) -> None:
    """Each tensor in a file of its own."""
    names = {name: f"model-{i}.safetensors" for i, name in enumerate(tensors)}
    for name, file in names.items():
        (folder / file).write_bytes(safetensors({name: tensors[name]}))
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": names}))


def run(path: Path, x: torch.Tensor = X) -> np.ndarray:
    return run_plain(path, x)[0]


def locations(path: Path) -> dict[str, str]:
    initializers = onnx.load(path, load_external_data=False).graph.initializer
    return {t.name: e.value for t in initializers for e in t.external_data if e.key == "location"}


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_a_model_points_into_the_file(model: Perceptron, capture: str, tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(safetensors(model.state_dict()))
    program = opbridge.export(
        on_meta(),
        (X,),
        tmp_path / "m.onnx",
        weights=tmp_path,
        external_data="reference",
        capture=capture,
        verify=True,
    )
    np.testing.assert_allclose(run(tmp_path / "m.onnx"), model(X).detach(), rtol=1e-5, atol=1e-6)
    assert set(locations(tmp_path / "m.onnx").values()) == {"model.safetensors"}
    assert program.referenced_files == [str(tmp_path / "model.safetensors")]
    assert program.referenced_bytes == 4 * (48 * 32 + 24 * 48)  # the biases are small
    assert program.model_bytes < 8000
    assert program.external_file is None
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.onnx", "model.safetensors"]
    onnx.checker.check_model(tmp_path / "m.onnx", full_check=True)


def test_a_model_points_into_shards_in_a_folder_below(model: Perceptron, tmp_path: Path) -> None:
    (tmp_path / "weights").mkdir()
    shard(tmp_path / "weights", model.state_dict())
    for weights in ("weights", "weights/model.safetensors.index.json"):
        path = tmp_path / "m.onnx"
        opbridge.export(on_meta(), (X,), path, weights=tmp_path / weights, external_data="reference")
        np.testing.assert_allclose(run(path), model(X).detach(), rtol=1e-5, atol=1e-6)
        assert set(locations(path).values()) == {"weights/model-0.safetensors", "weights/model-2.safetensors"}


@pytest.mark.parametrize("external_data", [None, True, False])
def test_weights_of_files_are_copied_otherwise(model: Perceptron, external_data: bool | None, tmp_path: Path) -> None:
    weights = tmp_path / "w.safetensors"
    weights.write_bytes(safetensors(model.state_dict()))
    before = weights.read_bytes()
    path = tmp_path / "out.onnx"
    program = opbridge.export(on_meta(), (X,), path, weights=weights, external_data=external_data)
    assert (program.external_file is not None) == (external_data is True)
    assert program.referenced_bytes == 0
    assert weights.read_bytes() == before
    weights.unlink()
    np.testing.assert_allclose(run(path), model(X).detach(), rtol=1e-5, atol=1e-6)


def test_the_model_stays_on_the_meta_device(model: Perceptron, tmp_path: Path) -> None:
    weights = tmp_path / "w.safetensors"
    weights.write_bytes(safetensors(model.state_dict()))
    meta = on_meta()
    parameters = dict(meta.named_parameters())
    opbridge.export(meta, (X,), tmp_path / "m.onnx", weights=weights)
    with pytest.raises(opbridge.Error):
        opbridge.export(meta, (X, X), tmp_path / "m.onnx", weights=weights)
    assert all(parameters[name] is parameter for name, parameter in meta.named_parameters())
    assert all(parameter.is_meta for parameter in meta.parameters())


def test_an_exported_program_on_the_meta_device(model: Perceptron, tmp_path: Path) -> None:
    (tmp_path / "w.safetensors").write_bytes(safetensors(model.state_dict()))
    program = torch.export.export(model, (X,))
    for name, tensor in program.state_dict.items():
        program.state_dict[name] = nn.Parameter(tensor.detach().to("meta"))
    path = tmp_path / "m.onnx"
    opbridge.export(program, (), path, weights=tmp_path, external_data="reference")
    np.testing.assert_allclose(run(path), model(X).detach(), rtol=1e-5, atol=1e-6)
    assert set(locations(path).values()) == {"w.safetensors"}


def test_a_model_with_values_refers_to_files_with_the_same(model: Perceptron, tmp_path: Path) -> None:
    (tmp_path / "w.safetensors").write_bytes(safetensors(model.state_dict()))
    path = tmp_path / "m.onnx"
    program = opbridge.export(model, (X,), path, weights=tmp_path, external_data="reference")
    assert program.referenced_bytes > 0
    np.testing.assert_allclose(run(path), model(X).detach(), rtol=1e-5, atol=1e-6)
    with torch.no_grad():
        model.second.bias[3] += 1
    with pytest.raises(opbridge.InvalidArgumentError, match=r"'second\.bias' has other values .* than in the model"):
        opbridge.export(model, (X,), path, weights=tmp_path, external_data="reference")


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(64, 32)
        self.head = nn.Linear(32, 64, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.embedding(x))


@pytest.mark.parametrize("stored", ["embedding.weight", "head.weight"])
def test_tied_weights_need_one_of_their_names(stored: str, tmp_path: Path) -> None:
    model = Tied().eval()
    (tmp_path / "w.safetensors").write_bytes(safetensors({stored: model.head.weight}))
    x = torch.tensor([[1, 5, 63]])
    path = tmp_path / "m.onnx"
    opbridge.export(on_meta(Tied), (x,), path, weights=tmp_path, external_data="reference")
    np.testing.assert_allclose(run(path, x), model(x).detach(), rtol=1e-5, atol=1e-6)


class Normalized(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(3, 40, 3, bias=False)
        self.normalization = nn.BatchNorm2d(40)
        self.last = nn.Conv2d(40, 8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(torch.relu(self.normalization(self.convolution(x))))


def test_weights_that_a_simplification_changes_are_in_the_model(tmp_path: Path) -> None:
    model = Normalized().eval()
    nn.init.uniform_(model.normalization.weight, 0.5, 2)
    nn.init.uniform_(model.normalization.running_mean)
    x = torch.rand(1, 3, 8, 8)
    (tmp_path / "w.safetensors").write_bytes(safetensors(model.state_dict()))
    path = tmp_path / "m.onnx"
    program = opbridge.export(model, (x,), path, weights=tmp_path, external_data="reference")
    assert [node.op_type for node in onnx.load(path).graph.node] == ["Conv", "Relu", "Conv"]
    assert program.referenced_bytes == model.last.weight.nbytes
    np.testing.assert_allclose(run(path, x), model(x).detach(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("external_data", [None, "reference"])
def test_buffers_of_a_model_on_the_meta_device_are_those_of_the_files(
    external_data: str | None, tmp_path: Path
) -> None:
    model = Normalized().eval()
    nn.init.uniform_(model.normalization.running_mean)
    nn.init.uniform_(model.normalization.running_var, 0.5, 2)
    x = torch.rand(1, 3, 8, 8)
    state = model.state_dict()
    (tmp_path / "w.safetensors").write_bytes(safetensors(state))
    path = tmp_path / "m.onnx"
    meta = on_meta(Normalized)
    opbridge.export(meta, (x,), path, weights=tmp_path, external_data=external_data, verify=True)
    np.testing.assert_allclose(run(path, x), model(x).detach(), rtol=1e-4, atol=1e-5)
    assert not meta.normalization.running_mean.any()  # as before

    del state["normalization.running_mean"]
    (tmp_path / "w.safetensors").write_bytes(safetensors(state))
    with pytest.raises(opbridge.InvalidArgumentError, match=r"lacks the buffer 'normalization\.running_mean'"):
        opbridge.export(meta, (x,), path, weights=tmp_path, external_data=external_data)


def test_tied_weights_that_differ_in_the_files(tmp_path: Path) -> None:
    weight = torch.rand(64, 32)
    x = torch.tensor([[1, 5, 63]])
    for other in (weight.clone(), weight + 1):
        (tmp_path / "w.safetensors").write_bytes(safetensors({"embedding.weight": weight, "head.weight": other}))
        if torch.equal(weight, other):
            opbridge.export(on_meta(Tied), (x,), tmp_path / "m.onnx", weights=tmp_path)
        else:
            with pytest.raises(opbridge.InvalidArgumentError, match="are one tensor in the model, and have different"):
                opbridge.export(on_meta(Tied), (x,), tmp_path / "m.onnx", weights=tmp_path)


@pytest.mark.parametrize("kind", ["elsewhere", "symbolic link", "hard link"])
def test_files_outside_of_the_models_folder(model: Perceptron, kind: str, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "model").mkdir()
    weights = tmp_path / "elsewhere/w.safetensors"
    weights.write_bytes(safetensors(model.state_dict()))
    link = tmp_path / "model/w.safetensors"
    if kind == "symbolic link":
        link.symlink_to(weights)
    elif kind == "hard link":
        link.hardlink_to(weights)

    path = tmp_path / "model/m.onnx"

    def export() -> None:
        given = weights if kind == "elsewhere" else link
        opbridge.export(on_meta(), (X,), path, weights=given, external_data="reference")

    if kind == "hard link":
        export()
        np.testing.assert_allclose(run(path), model(X).detach(), rtol=1e-5, atol=1e-6)
        return
    with pytest.raises(opbridge.InvalidArgumentError, match="outside of its folder: runtimes refuse such data; write"):
        export()
    assert not path.exists()


def test_a_link_within_the_folder_is_followed(model: Perceptron, tmp_path: Path) -> None:
    (tmp_path / "blobs").mkdir()
    (tmp_path / "blobs/abc").write_bytes(safetensors(model.state_dict()))
    (tmp_path / "w.safetensors").symlink_to("blobs/abc")
    path = tmp_path / "m.onnx"
    opbridge.export(on_meta(), (X,), path, weights=tmp_path, external_data="reference")
    assert set(locations(path).values()) == {"blobs/abc"}  # onnx refuses symbolic links
    onnx.checker.check_model(path)
    np.testing.assert_allclose(run(path), model(X).detach(), rtol=1e-5, atol=1e-6)


REFUSED: dict[str, tuple[Callable[[dict[str, torch.Tensor]], None], str]] = {
    "type": (
        lambda t: t.update({"first.weight": t["first.weight"].half()}),
        r"'first.weight' is float32 in the model and F16 in .*; convert the model",
    ),
    "shape": (
        lambda t: t.update({"first.weight": t["first.weight"].T}),
        r"'first.weight' has the shape \[48, 32\] in the model and \[32, 48\] in",
    ),
    "missing": (
        lambda t: t.update({"model.first.weight": t.pop("first.weight")}),
        r"'first.weight' is on the meta device, and .* lacks it \(it has model\.first\.weight.*save_file\(",
    ),
}


@pytest.mark.parametrize("external_data", [None, "reference"])
@pytest.mark.parametrize("case", REFUSED)
def test_tensors_that_do_not_fit_the_model(
    model: Perceptron, case: str, external_data: str | None, tmp_path: Path
) -> None:
    change, message = REFUSED[case]
    tensors = dict(model.state_dict())
    change(tensors)
    (tmp_path / "w.safetensors").write_bytes(safetensors(tensors))
    with pytest.raises(opbridge.Error, match=message):
        opbridge.export(on_meta(), (X,), tmp_path / "m.onnx", weights=tmp_path, external_data=external_data)
    assert [p.name for p in tmp_path.iterdir()] == ["w.safetensors"]


def test_tensors_that_are_not_aligned(model: Perceptron, tmp_path: Path) -> None:
    content = next(c for c in (safetensors(model.state_dict(), padding) for padding in (7, 9, 11)) if len(c) % 4)
    (tmp_path / "w.safetensors").write_bytes(content)
    path = tmp_path / "m.onnx"
    with pytest.raises(opbridge.UnsupportedError, match=r"is not aligned for its elements .*save the file anew"):
        opbridge.export(on_meta(), (X,), path, weights=tmp_path, external_data="reference")
    opbridge.export(on_meta(), (X,), path, weights=tmp_path)
    np.testing.assert_allclose(run(path), model(X).detach(), rtol=1e-5, atol=1e-6)


def test_a_buffer_that_no_file_has(model: Perceptron, tmp_path: Path) -> None:
    (tmp_path / "w.safetensors").write_bytes(safetensors(model.state_dict()))
    with torch.device("meta"):
        meta = Perceptron()
    with pytest.raises(opbridge.InvalidArgumentError, match=r"the buffer 'shift' .*opbridge\.meta_parameters\(\)"):
        opbridge.export(meta, (X,), tmp_path / "m.onnx", weights=tmp_path)


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_a_model_without_values(capture: str, tmp_path: Path) -> None:
    meta = on_meta()
    with pytest.raises(opbridge.Error, match=r"on the meta device, without .*: pass weights="):
        opbridge.export(meta, (X,), tmp_path / "m.onnx", capture=capture)
    opbridge.export(Perceptron(), (X,), tmp_path / "m.onnx")
    with pytest.raises(opbridge.Error, match=r"on the meta device, without .*: pass weights="):
        opbridge.verify(tmp_path / "m.onnx", meta, (X,))


def test_inputs_without_values(model: Perceptron, tmp_path: Path) -> None:
    (tmp_path / "w.safetensors").write_bytes(safetensors(model.state_dict()))
    with pytest.raises(opbridge.Error, match="The inputs are on the meta device: pass inputs on the CPU"):
        opbridge.export(on_meta(), (X.to("meta"),), tmp_path / "m.onnx", weights=tmp_path)


def test_the_weights_are_not_overwritten(model: Perceptron, tmp_path: Path) -> None:
    weights = tmp_path / "m.onnx.data"  # where the model's own would be
    weights.write_bytes(before := safetensors(model.state_dict()))
    for path, external_data in ((weights, False), (tmp_path / "m.onnx", True)):
        with pytest.raises(opbridge.InvalidArgumentError, match="is both the input and the output"):
            opbridge.export(on_meta(), (X,), path, weights=weights, external_data=external_data)
    assert weights.read_bytes() == before
    assert list(tmp_path.iterdir()) == [weights]


ARGUMENTS: dict[str, tuple[dict[str, object], str]] = {
    "reference without weights": ({"external_data": "reference"}, "needs weights="),
    "weights that are not a path": ({"weights": {}}, "weights must be the path of a file or a folder, not a dict"),
    "unknown": ({"external_data": "symlink"}, 'external_data must be True, False, None or "reference"'),
}


@pytest.mark.parametrize("case", ARGUMENTS)
def test_arguments(case: str, tmp_path: Path) -> None:
    arguments, message = ARGUMENTS[case]
    with pytest.raises(opbridge.InvalidArgumentError, match=message):
        opbridge.export(on_meta(), (X,), tmp_path / "m.onnx", **arguments)


def test_a_reference_needs_a_path(tmp_path: Path) -> None:
    with pytest.raises(opbridge.InvalidArgumentError, match="needs a path"):
        opbridge.export(on_meta(), (X,), weights=tmp_path, external_data="reference")


@pytest.mark.parametrize("as_folder", [False, True])
@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "model.ckpt", "pytorch_model.bin.index.json"])
def test_pickles_are_not_opened(name: str, as_folder: bool, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"anything")
    if as_folder and name.endswith(".json"):
        (tmp_path / "pytorch_model.bin").write_bytes(b"anything")
    with pytest.raises(opbridge.UnsupportedError, match=r"is a pickle, which is not opened.*safetensors\.torch"):
        opbridge.export(on_meta(), (X,), tmp_path / "m.onnx", weights=tmp_path if as_folder else tmp_path / name)


def entry(shape: list[int], begin: int, end: int, dtype: str = "F32") -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


HOSTILE: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "the file is empty"),
    "no header": (b"\1\0\0", "it has no header"),
    "truncated header": (with_header("{}", b"", 100), "its header would take 100 bytes"),
    "huge header": (with_header("{}", b"", 2**63), "its header would take 9223372036854775808 bytes"),
    "the longest header": (with_header("{}", b"", 2**64 - 1), "its header would take 18446744073709551615 bytes"),
    "no JSON": (with_header("{,}", b""), "its header is not valid JSON"),
    "no object": (with_header("[]", b""), "wrong kind"),
    "deep": (with_header("[" * 5000, b""), "its header is not valid JSON"),
    "no dtype": (with_header('{"a": {"shape": [], "data_offsets": [0, 0]}}', b""), "the field 'dtype' is missing"),
    "no offsets": (with_header('{"a": {"shape": [], "dtype": "F32"}}', b""), "the field 'data_offsets' is missing"),
    "outside": (with_header(json.dumps({"a": entry([2], 0, 8)}), b"\0" * 7), "'a' reaches outside the file"),
    "far outside": (with_header(json.dumps({"a": entry([2], 2**62, 2**62 + 8)}), b""), "'a' reaches outside the file"),
    "backwards": (with_header(json.dumps({"a": entry([2], 8, 0)}), b"\0" * 8), "'a' reaches outside the file"),
    "negative": (with_header(json.dumps({"a": entry([2], -8, 0)}), b"\0" * 8), "is not a natural number"),
    "too large a number": (with_header(json.dumps({"a": entry([2**64], 0, 0)}), b""), "its header is not valid JSON"),
    "negative shape": (with_header(json.dumps({"a": entry([-1, -2], 0, 8)}), b"\0" * 8), "is not a natural number"),
    "a wrong shape": (with_header(json.dumps({"a": entry([3], 0, 8)}), b"\0" * 8), "which contradicts its shape"),
    "an overflowing shape": (
        with_header(json.dumps({"a": entry([2**32, 2**32, 4], 0, 0)}), b""),
        "which contradicts its shape",
    ),
    "overlap": (
        with_header(json.dumps({"a": entry([2], 0, 8), "b": entry([2], 4, 12)}), b"\0" * 12),
        "'b' overlaps another tensor",
    ),
    "the same bytes": (
        with_header(json.dumps({"a": entry([2], 0, 8), "b": entry([2], 0, 8)}), b"\0" * 8),
        "overlaps another tensor",
    ),
    "a hole": (
        with_header(json.dumps({"a": entry([1], 0, 4), "b": entry([1], 8, 12)}), b"\0" * 12),
        "the bytes before 'b' belong to no tensor",
    ),
    "bytes at the end": (with_header(json.dumps({"a": entry([1], 0, 4)}), b"\0" * 9), "9 bytes of tensors, but"),
    "one name twice": (
        with_header('{"a": %s, "a": %s}' % ((json.dumps(entry([0], 0, 0)),) * 2), b""),
        "two tensors are named 'a'",
    ),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_damaged_files(case: str, tmp_path: Path) -> None:
    content, message = HOSTILE[case]
    path = tmp_path / "w.safetensors"
    path.write_bytes(content)
    with pytest.raises(opbridge.FileError, match=message):
        opbridge.export(on_meta(), (X,), tmp_path / "m.onnx", weights=path)
    assert list(tmp_path.iterdir()) == [path]


def test_every_truncation_is_refused(tmp_path: Path) -> None:
    content = safetensors({"a": torch.ones(3), "b": torch.ones(2, 2, dtype=torch.int64)})
    path = tmp_path / "w.safetensors"
    for size in range(len(content)):
        path.write_bytes(content[:size])
        with pytest.raises(opbridge.FileError):
            _core.WeightFile(str(path)).tensors  # noqa: B018


def test_a_type_that_is_not_known_is_refused_only_if_it_is_used(model: Perceptron, tmp_path: Path) -> None:
    content = with_header(json.dumps({"x": entry([5], 0, 3, "F5_NEW")}), b"\0" * 3)
    (tmp_path / "w.safetensors").write_bytes(content)
    assert _core.WeightFile(str(tmp_path / "w.safetensors")).tensors["x"][:2] == ("F5_NEW", 0)
    content = with_header(json.dumps({"second.weight": entry([24, 48], 0, 3, "F5_NEW")}), b"\0" * 3)
    (tmp_path / "w.safetensors").write_bytes(content)
    with pytest.raises(opbridge.UnsupportedError, match="is float32 in the model and F5_NEW in"):
        opbridge.export(model, (X,), tmp_path / "m.onnx", weights=tmp_path)


INDICES: dict[str, tuple[str, str]] = {
    "a path": ('{"weight_map": {"first.weight": "../w.safetensors"}}', "is not the name of a file in the folder"),
    "an absolute path": ('{"weight_map": {"first.weight": "/etc/passwd"}}', "is not the name of a file in the folder"),
    "no name": ('{"weight_map": {"first.weight": 3}}', "is not the name of a file in the folder"),
    "a pickle": ('{"weight_map": {"first.weight": "a.bin"}}', "is a pickle, which is not opened"),
    "a missing file": ('{"weight_map": {"first.weight": "a.safetensors"}}', "no such file"),
    "a missing tensor": ('{"weight_map": {"other": "w.safetensors"}}', "has no tensor 'other'"),
    "no map": ("{}", "is not an index of .safetensors files"),
    "an empty map": ('{"weight_map": {}}', "it has no weight_map"),
    "a list": ("[]", "is not an index of .safetensors files"),
    "no JSON": ("{", "is not an index of .safetensors files"),
    "deep": ("[" * 100_000, "is not an index of .safetensors files"),
}


@pytest.mark.parametrize("case", INDICES)
def test_damaged_indices(model: Perceptron, case: str, tmp_path: Path) -> None:
    text, message = INDICES[case]
    (tmp_path / "w.safetensors").write_bytes(safetensors({"first.weight": model.first.weight}))
    (tmp_path / "model.safetensors.index.json").write_text(text)
    with pytest.raises(opbridge.Error, match=message):
        opbridge.export(on_meta(), (X,), tmp_path / "m.onnx", weights=tmp_path)


def test_folders_that_do_not_say_which_file(tmp_path: Path) -> None:
    with pytest.raises(opbridge.FileError, match=r"has no \.safetensors file"):
        opbridge.export(on_meta(), (X,), tmp_path / "m.onnx", weights=tmp_path)
    for name in ("a", "b"):
        (tmp_path / f"{name}.safetensors").write_bytes(safetensors({name: torch.ones(1)}))
    with pytest.raises(opbridge.InvalidArgumentError, match=r"several models \(a\.safetensors, b\.safetensors\)"):
        opbridge.export(on_meta(), (X,), tmp_path / "m.onnx", weights=tmp_path)
    with pytest.raises(opbridge.FileError, match="no such file"):
        opbridge.export(on_meta(), (X,), tmp_path / "m.onnx", weights=tmp_path / "c.safetensors")


def test_a_program_with_references_can_be_saved_elsewhere(model: Perceptron, tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model/w.safetensors").write_bytes(safetensors(model.state_dict()))
    program = opbridge.export(
        on_meta(),
        (X,),
        tmp_path / "model/m.onnx",
        weights=tmp_path / "model",
        external_data="reference",
        simplify=False,
    )
    torch.testing.assert_close(program(X)[0], model(X), check_device=False)
    program.save(tmp_path / "copy.onnx")
    program.optimize()
    program.save(tmp_path / "simplified.onnx")
    for name in ("copy", "simplified"):
        assert locations(tmp_path / f"{name}.onnx") == {}
        np.testing.assert_allclose(run(tmp_path / f"{name}.onnx"), model(X).detach(), rtol=1e-5, atol=1e-6)


def test_the_place_of_the_model_is_checked_before_the_capture(model: Perceptron, tmp_path: Path) -> None:
    class Fails(Perceptron):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise AssertionError("the model was captured")

    (tmp_path / "w").mkdir()
    (tmp_path / "w/w.safetensors").write_bytes(safetensors(model.state_dict()))
    for path, error in (("other/m.onnx", opbridge.FileError), ("w/below/m.onnx", opbridge.InvalidArgumentError)):
        if error is opbridge.InvalidArgumentError:
            (tmp_path / path).parent.mkdir()
        with pytest.raises(error, match=r"No such file or directory|outside of its folder"):
            opbridge.export(on_meta(Fails), (X,), tmp_path / path, weights=tmp_path / "w", external_data="reference")


def test_a_saved_program_has_its_weights(model: Perceptron, tmp_path: Path) -> None:
    program = opbridge.export(model, (X,), tmp_path / "m.onnx")
    with pytest.raises(opbridge.InvalidArgumentError, match="external_data must be True, False or None"):
        program.save(tmp_path / "n.onnx", external_data="reference")


def test_files_that_the_package_safetensors_writes(tmp_path: Path) -> None:
    package = pytest.importorskip("safetensors.torch")
    dtypes = [*dtypes_of_torch(), torch.bool, torch.complex64]
    tensors = {str(dtype): (torch.arange(24) % 5).to(dtype).reshape(2, 3, 4) for dtype in dtypes}
    tensors |= {"scalar": torch.tensor(3.5), "empty": torch.ones(0, 3)}
    package.save_file(tensors, tmp_path / "w.safetensors")
    files = WeightFiles(tmp_path, refers=True)
    for name, tensor in tensors.items():
        found = files.find([name], tensor)
        assert found is not None
        assert (found.dtype, found.shape) == (tensor.dtype, tensor.shape)
        assert bytes_of(found) == bytes_of(tensor)


def dtypes_of_torch() -> list[torch.dtype]:
    integers = [getattr(torch, f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)]
    floats = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
    eights = [torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz]
    return [*integers, *floats, *eights]


class Transposed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(40, 32).T)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.weight


def convert(*arguments: object) -> tuple[int, str]:
    done = command("convert", *arguments)
    return done.returncode, done.stdout + done.stderr


def test_the_command_refers_to_the_pt2(model: Perceptron, tmp_path: Path) -> None:
    torch.export.save(torch.export.export(model, (X,)), tmp_path / "m.pt2")
    path = tmp_path / "m.onnx"
    status, text = convert(tmp_path / "m.pt2", path, "--external-data", "reference")
    assert status == 0, text
    assert f"{tmp_path / 'm.pt2'}: weights" in text
    assert set(locations(path).values()) == {"m.pt2"}
    np.testing.assert_allclose(run(path), model(X).detach(), rtol=1e-5, atol=1e-6)

    (tmp_path / "other").mkdir()
    status, text = convert(tmp_path / "m.pt2", tmp_path / "other/m.onnx", "--external-data", "reference")
    assert status == 2
    assert "outside of its folder: runtimes refuse such data" in text
    assert list((tmp_path / "other").iterdir()) == []
    status, text = convert(tmp_path / "m.pt2", tmp_path / "m.pt2")
    assert status == 2
    assert "is both the input and the output" in text


def test_the_command_refuses_weights_in_another_layout(tmp_path: Path) -> None:
    model = Transposed()
    torch.export.save(torch.export.export(model, (X,)), tmp_path / "m.pt2")
    path = tmp_path / "m.onnx"
    status, text = convert(tmp_path / "m.pt2", path, "--external-data", "reference")
    assert status == 2
    assert "weight 'weight' is stored not contiguous (transposed or expanded), so the model cannot point to it" in text
    assert not path.exists()
    status, text = convert(tmp_path / "m.pt2", path)
    assert status == 0, text
    np.testing.assert_allclose(run(path), model(X).detach(), rtol=1e-5, atol=1e-6)
