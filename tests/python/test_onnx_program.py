"""The program that opbridge.export returns: its call, its files, its forms as protobuf and onnx_ir, its session."""

from __future__ import annotations

import gc
import io
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
import pytest
import torch
from torch import nn

import opbridge

X = torch.randn(2, 3, 8, 8)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.head = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Linear(6, 64)
        self.norm.running_mean = torch.randn(8)

    def forward(self, x: torch.Tensor, scale: float = 2.0, *, shift: torch.Tensor | None = None) -> Any:
        y = self.head(self.norm(self.conv(x)).relu() * scale)
        return {"y": y if shift is None else y + shift, "sizes": y.sum()}


MODEL = Net().eval()


def expected(*args: Any, **kwargs: Any) -> list[torch.Tensor]:
    with torch.no_grad():
        return list(MODEL(*args, **kwargs).values())


def close(actual: Any, wanted: Any) -> None:
    torch.testing.assert_close(list(actual), wanted, rtol=1e-4, atol=1e-4)


def ran(path: Any) -> list[torch.Tensor]:
    running = opbridge.session(path)
    return [torch.from_numpy(array) for array in running.run(None, {"x": X.numpy()})]


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_a_program_is_called_like_the_model(capture: Any) -> None:
    program = opbridge.export(MODEL, (X, 3.0), kwargs={"shift": torch.ones(64)}, capture=capture)
    close(program(X * 2, 3.0, shift=torch.randn(64) * 0 + 5), expected(X * 2, 3.0, shift=torch.full((64,), 5.0)))
    close(program(X, shift=torch.ones(64)), expected(X, 3.0, shift=torch.ones(64)))  # 3.0 is part of the model
    close(program(shift=torch.ones(64), x=X), expected(X, 3.0, shift=torch.ones(64)))
    assert isinstance(program(X, shift=torch.ones(64)), tuple)
    for args, kwargs, message in (
        ((X, 2.0), {"shift": torch.ones(64)}, "'scale' is the constant 3.0 in the exported model, and cannot be 2.0"),
        ((X,), {}, "exported with a tensor 'shift'"),
        ((X, torch.ones(1)), {"shift": torch.ones(64)}, "exported without a tensor 'scale'"),
        ((), {}, "the inputs do not fit Net.forward"),
    ):
        with pytest.raises(opbridge.InvalidArgumentError, match=message):
            program(*args, **kwargs)


def test_a_constant_that_is_nan() -> None:
    program = opbridge.export(torch.nan_to_num, (X, float("nan")))
    close(program(X, float("nan")), [X])
    with pytest.raises(opbridge.InvalidArgumentError, match=r"the constant nan in the exported model, and cannot be 1"):
        program(X, 1.0)


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_inputs_with_the_same_name(capture: Any) -> None:
    def combine(x: Any, x_a: Any, x_a_0: torch.Tensor) -> torch.Tensor:
        return x["a"][0] - 2 * x_a[0] + 5 * x_a_0

    args = {"a": [torch.randn(3)]}, [torch.randn(3)], torch.randn(3)
    axes = {name: {0: "n"} for name in ("x_a_0", "x_a_0_1", "x_a_0_2")}
    program = opbridge.export(combine, args, capture=capture, dynamic_axes=axes, verify=True)
    close(program(*args), [combine(*args)])


def test_nested_inputs_and_a_dict_as_the_last_one() -> None:
    class Nested(nn.Module):
        def forward(self, pair: Any, named: dict[str, torch.Tensor]) -> torch.Tensor:
            return pair[0] - pair[1] + named["b"] * 2 - named["a"]

    a, b, c, d = (torch.full((2,), float(i)) for i in range(4))
    program = opbridge.export(Nested(), ((a, b), {"b": c, "a": d}))
    close(program((a, b), {"a": d, "b": c}), [a - b + c * 2 - d])
    with pytest.raises(opbridge.InvalidArgumentError, match="exported without a tensor 'named_c'"):
        program((a, b), {"a": d, "b": c, "c": c})


def test_an_exported_program_is_called_like_its_module() -> None:
    exported = torch.export.export(MODEL, (X,), {"shift": torch.ones(64)})
    program = opbridge.export(exported, verify=True)
    assert program.verification is not None
    assert program.verification.ok
    close(program(X * 2, shift=torch.ones(64)), expected(X * 2, shift=torch.ones(64)))
    with pytest.raises(opbridge.InvalidArgumentError, match="exported with a tensor"):
        program(X)


def test_without_a_file_the_model_is_temporary() -> None:
    program = opbridge.export(MODEL, X, external_data=True)
    path = program.path
    assert program.external_file is not None
    assert os.path.exists(path)
    close(program(X), expected(X))
    model = program.model
    del program
    gc.collect()
    assert os.path.exists(path)  # the onnx_ir model reads its weights
    assert model.graph.initializers["conv.weight"].const_value.numpy().shape == (8, 3, 3, 3)
    del model
    gc.collect()
    assert not os.path.exists(os.path.dirname(path))


@torch.library.custom_op("nobody::lost", mutates_args=())
def lost(x: torch.Tensor) -> torch.Tensor:
    return x.clone()


lost.register_fake(lambda x: torch.empty_like(x))


def test_a_failed_export_leaves_nothing(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    stream = io.BytesIO()
    for target in (None, stream):
        with pytest.raises(opbridge.UnsupportedError):
            opbridge.export(lambda x: lost(x), X, target)
    gc.collect()
    assert not list(tmp_path.iterdir())
    assert not stream.getvalue()


@pytest.mark.parametrize("was_external", [True, False])
@pytest.mark.parametrize("external", [True, False, None])
def test_save(tmp_path: Path, was_external: bool, external: bool | None) -> None:
    program = opbridge.export(MODEL, X, tmp_path / "first.onnx", external_data=was_external)
    path = tmp_path / "second.onnx"
    program.save(path, external_data=external)
    assert path.with_name("second.onnx.data").exists() == bool(external)
    for each in tmp_path.glob("first*"):
        each.unlink()
    close(ran(path), expected(X))
    wanted = io.BytesIO()
    opbridge.export(MODEL, X, wanted)
    if not external:
        assert path.read_bytes() == wanted.getvalue()  # nothing of the model is lost on the way
    with pytest.raises(opbridge.FileError, match=r"first\.onnx"):
        program.save(path)
    close(ran(path), expected(X))


def test_another_working_directory(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    program = opbridge.export(MODEL, X, "model.onnx", external_data=True)
    assert program.path == "model.onnx"
    (tmp_path / "there").mkdir()
    monkeypatch.chdir(tmp_path / "there")
    close(program(X), expected(X))
    program.save("copy.onnx")
    close(ran("copy.onnx"), expected(X))
    assert program.model_proto.graph.node


def test_save_to_its_own_file(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    program = opbridge.export(MODEL, X, path, external_data=True)
    program.save(path, external_data=False)
    close(ran(path), expected(X))


@pytest.mark.parametrize("external", [True, False])
def test_save_a_changed_model_to_its_own_file(external: bool, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    program = opbridge.export(MODEL, X, path, external_data=True)
    expected = program(X)
    program.model.producer_name = "me"
    program.save(path, external_data=external)
    assert program.model_proto.producer_name == onnx.load(path).producer_name == "me"
    assert os.path.exists(f"{path}.data") == external
    program.release()
    torch.testing.assert_close(program(X), expected)
    program.save(tmp_path / "other.onnx")


def test_streams(tmp_path: Path) -> None:
    for external in (None, False):
        stream = io.BytesIO()
        program = opbridge.export(MODEL, X, stream, external_data=external, verify=True)
        close(program(X), expected(X))
        again = io.BytesIO()
        program.save(again)
        assert stream.getvalue() == again.getvalue()
        (tmp_path / "model.onnx").write_bytes(stream.getvalue())
        close(ran(tmp_path / "model.onnx"), expected(X))
    for function in (
        lambda f: opbridge.export(MODEL, X, f, external_data=True),
        lambda f: program.save(f, external_data=True),
    ):
        with pytest.raises(opbridge.InvalidArgumentError, match="a stream has no file beside it"):
            function(io.BytesIO())
    with pytest.raises(opbridge.InvalidArgumentError, match="a binary stream, not a StringIO"):
        program.save(io.StringIO())  # type: ignore[arg-type]


def test_a_file_left_by_another_export_is_not_the_models(tmp_path: Path) -> None:
    opbridge.export(MODEL, X, tmp_path / "m.onnx", external_data=True)
    (tmp_path / "m.onnx").unlink()  # else the export removes the data file with the model that it replaces
    program = opbridge.export(MODEL, X, tmp_path / "m.onnx")
    assert (tmp_path / "m.onnx.data").exists()
    stream = io.BytesIO()
    program.save(stream)
    assert stream.getvalue() == (tmp_path / "m.onnx").read_bytes()


def test_a_model_too_large_for_a_stream(tmp_path: Path, monkeypatch: Any) -> None:
    from opbridge import _core

    def export_with_data_file(graph: Any, path: str, registry: Any, **options: Any) -> Any:
        assert options["external_data"] == "automatic"  # makes a file beside a model of more than 2 GB
        return export_graph(graph, path, registry, **(options | {"external_data": "always"}))

    export_graph = _core.export_graph
    monkeypatch.setattr(_core, "export_graph", export_with_data_file)
    stream = io.BytesIO()
    with pytest.raises(opbridge.UnsupportedError, match=r"the model exceeds 2 GB.*give a path instead of a stream"):
        opbridge.export(MODEL, X, stream)
    assert not stream.getvalue()


def test_model_proto_and_onnx_ir() -> None:
    import onnx_ir

    program = opbridge.export(MODEL, X, external_data=True)
    proto = program.model_proto
    assert isinstance(proto, onnx.ModelProto)
    assert onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    assert program.model_proto is not proto
    assert isinstance(program.model, onnx_ir.Model)
    assert program.model is program.model


@pytest.mark.parametrize("external", [True, False])
def test_changes_of_the_onnx_ir_model_count(tmp_path: Path, external: bool) -> None:
    import onnx_ir

    program = opbridge.export(MODEL, X, external_data=external)
    close(program(X), expected(X))
    bias = program.model.graph.initializers["head.bias"]
    bias.const_value = onnx_ir.tensor(bias.const_value.numpy() + 10, name="head.bias")
    wanted = expected(X)[0] + 10
    program.release()
    close(program(X)[:1], [wanted])
    program.save(tmp_path / "m.onnx", external_data=external)
    close(ran(tmp_path / "m.onnx")[:1], [wanted])
    stream = io.BytesIO()
    program.save(stream)
    assert onnx.load_from_string(stream.getvalue()).graph.node
    assert (onnx.numpy_helper.to_array(initializer(program.model_proto, "head.bias")) > 5).all()
    program.optimize()
    close(program(X)[:1], [wanted])
    program.model = onnx_ir.from_proto(opbridge.export(MODEL, X).model_proto)
    close(program(X), expected(X))


def initializer(proto: onnx.ModelProto, name: str) -> onnx.TensorProto:
    return next(each for each in proto.graph.initializer if each.name == name)


@pytest.mark.parametrize("target", ["onnxruntime", "onnx"])
def test_optimize(tmp_path: Path, target: Any) -> None:
    simplified = opbridge.export(MODEL, X, target=target)
    path, count = simplified.path, simplified.node_count
    simplified.optimize()
    assert (simplified.path, simplified.node_count) == (path, count)

    program = opbridge.export(MODEL, X, tmp_path / "m.onnx", optimize=False, target=target)
    before = (tmp_path / "m.onnx").read_bytes()
    assert program.node_count > count
    program.optimize()
    assert program.node_count == count
    assert len(program.model_proto.graph.node) == count
    close(program(X), expected(X))
    assert (tmp_path / "m.onnx").read_bytes() == before


def test_sessions(tmp_path: Path) -> None:
    given: list[str] = []

    def initializer(path: str) -> Any:
        given.append(path)
        return opbridge.session(path)

    program = opbridge.export(MODEL, X, tmp_path / "m.onnx")
    program.initialize_inference_session(initializer)
    close(program(X), expected(X))
    close(program(X), expected(X))
    assert given == [str(tmp_path / "m.onnx")]
    program.release()
    close(program(X), expected(X))


def test_parameters_are_decided_by_the_export(tmp_path: Path) -> None:
    program = opbridge.export(MODEL, X)
    program.save(tmp_path / "m.onnx", include_initializers=True, keep_initializers_as_inputs=False)
    for arguments in ({"include_initializers": False}, {"keep_initializers_as_inputs": True}):
        with pytest.raises(opbridge.UnsupportedError, match=f"{next(iter(arguments))}.*must be decided by export"):
            program.save(tmp_path / "m.onnx", **arguments)
    kept = opbridge.export(MODEL, X, keep_initializers_as_inputs=True)
    kept.save(tmp_path / "m.onnx", keep_initializers_as_inputs=True)
    names = [value.name for value in onnx.load(tmp_path / "m.onnx").graph.input]
    assert names == [value.name for value in kept.model_proto.graph.input]
    without = opbridge.export(MODEL, X, export_params=False)
    without.save(tmp_path / "m.onnx", include_initializers=False, keep_initializers_as_inputs=True)
    close(without(X), expected(X))


def test_names_that_only_torchs_program_has() -> None:
    program = opbridge.export(MODEL, X)
    with pytest.raises(AttributeError, match="no 'exported_program': it is not kept"):
        _ = program.exported_program
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = program.nothing


def test_missing_packages_are_named(tmp_path: Path) -> None:
    code = """import sys
sys.modules["onnx"] = sys.modules["onnx_ir"] = sys.modules["onnxscript"] = None
import torch, opbridge
program = opbridge.export(torch.nn.ReLU(), torch.ones(2), verify=True)
program.save(sys.argv[1])
for name, package in (("model_proto", "onnx"), ("model", "onnx-ir")):
    try:
        getattr(program, name)
    except opbridge.Error as error:
        assert f"pip install {package}" in str(error)
    else:
        raise SystemExit("no error")
print(program(torch.ones(2)))
"""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "python")}
    command = [sys.executable, "-c", code, str(tmp_path / "m.onnx")]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert "tensor([1., 1.])" in done.stdout


def test_a_session_without_the_bundled_operators(tmp_path: Path) -> None:
    program = opbridge.export(lambda x: torch.linalg.cholesky_ex(x)[0], torch.eye(3))
    model = program.path
    other = shutil.copy(opbridge.ort_library(), tmp_path / "libother_ort.so")
    assert opbridge.session(model)
    with pytest.raises(Exception, match="opbridge"):
        opbridge.session(model, bundled=False)
    assert opbridge.session(model, libraries=[other], bundled=False)
