"""The keywords of torch.onnx.export: each is honoured, accepted without effect, or refused by its name."""

from __future__ import annotations

import inspect
import pathlib
import re
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch
from torch import nn

import opbridge
import opbridge.torch_onnx as torch_onnx
from opbridge.runtime import run, session
from opbridge.torch_arguments import TorchArguments

X = torch.randn(2, 3, 8, 8)

# The parameters of torch.onnx.export in each torch from 1.2 to 2.12, besides those that it has now.
FORMER = [
    "aten",
    "enable_onnx_checker",
    "example_outputs",
    "export_raw_ir",
    "fallback",
    "strip_doc_string",
    "use_external_data_format",
    "_retain_param_name",
]


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)
        self.norm.running_mean = torch.randn(4)
        self.register_buffer("offset", torch.randn(4, 1, 1), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.conv(x)).relu() + self.offset + torch.tensor([1.0])


class Branching(nn.Module):
    """torch.export cannot capture it, since a function of Python decides by the data."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if [*filter(lambda number: number > -1e9, [x.sum()])] else x


def inputs_of(path: Path) -> tuple[list[str], list[str]]:
    graph = onnx.load(path).graph
    return [value.name for value in graph.input], [tensor.name for tensor in graph.initializer]


def test_every_keyword_of_torch_is_taken() -> None:
    own = set(inspect.signature(opbridge.export).parameters)
    assert set(inspect.signature(torch.onnx.export).parameters) <= own
    assert set(FORMER) <= own
    positional = list(inspect.signature(opbridge.export).parameters)[:3]
    assert positional == list(inspect.signature(torch.onnx.export).parameters)[:3]


def test_each_keyword_without_a_home_in_the_signature_is_torchs() -> None:
    known = {*inspect.signature(torch.onnx.export).parameters, *FORMER}
    assert set(TorchArguments.__annotations__) <= known


def test_a_keyword_that_torch_does_not_have_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'optimise'; did you mean 'optimize'\?"):
        opbridge.export(Net(), X, tmp_path / "m.onnx", optimise=True)


PARAMETERS = ["conv.weight", "conv.bias", "norm.weight", "norm.bias", "norm.running_mean", "norm.running_var"]


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize("external_data", [True, False])
def test_export_params_false_makes_inputs_of_the_parameters(tmp_path: Path, capture: Any, external_data: bool) -> None:
    path, model = tmp_path / "m.onnx", Net().eval()
    program = opbridge.export(
        model, X, path, export_params=False, verify=True, capture=capture, external_data=external_data
    )
    names, stored = inputs_of(path)
    assert names == ["x", *PARAMETERS]
    assert not set(stored) & set(PARAMETERS)
    assert "offset" in stored  # no checkpoint has it
    torch.testing.assert_close(program(X)[0], model(X), rtol=1e-4, atol=1e-5)

    other = Net().eval()
    other.offset = model.offset
    feeds = {"x": X, **{name: tensor for name, tensor in other.state_dict().items() if name in names}}
    torch.testing.assert_close(run(session(path), feeds)[0], other(X), rtol=1e-4, atol=1e-5)
    opbridge.verify(path, model, X)


@pytest.mark.parametrize("target", ["onnxruntime", "onnx"])
def test_kept_initializers_can_be_replaced_one_by_one(tmp_path: Path, target: Any) -> None:
    path, model = tmp_path / "m.onnx", Net().eval()
    opbridge.export(model, X, path, keep_initializers_as_inputs=True, verify=True, target=target)
    names, stored = inputs_of(path)
    assert names == ["x", *PARAMETERS]
    assert set(PARAMETERS) <= set(stored)
    onnx.checker.check_model(path, full_check=True)
    variance = torch.rand(4) + 0.5
    actual = run(session(path), {"x": X, "norm.running_var": variance})[0]
    model.norm.running_var = variance
    torch.testing.assert_close(actual, model(X), rtol=1e-4, atol=1e-5)


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
        self.second.weight = self.first.weight
        self.factor = nn.Parameter(torch.randn(4, dtype=torch.complex64))

    def forward(self, x: torch.Tensor) -> Any:
        return self.second(self.first(x)), torch.view_as_real(self.factor * x)


@pytest.mark.parametrize("capture", ["export", "trace", "program"])
@pytest.mark.parametrize("arguments", [{"export_params": False}, {"keep_initializers_as_inputs": True}])
def test_tied_and_complex_parameters_as_inputs(tmp_path: Path, capture: Any, arguments: dict[str, Any]) -> None:
    model, x = Tied().eval(), torch.randn(2, 4)
    exported = torch.export.export(model, (x,)) if capture == "program" else model
    how = None if capture == "program" else capture
    opbridge.export(exported, (x,), tmp_path / "m.onnx", capture=how, verify=True, **arguments)
    assert inputs_of(tmp_path / "m.onnx")[0] == ["x", "factor", "first.weight", "first.bias", "second.bias"]


def test_names_beyond_the_inputs_are_those_of_parameters(tmp_path: Path) -> None:
    names = ["image", *(f"learned_{i}" for i in range(6))]
    opbridge.export(Net(), X, tmp_path / "m.onnx", input_names=names, export_params=False)
    assert inputs_of(tmp_path / "m.onnx")[0] == names
    opbridge.export(nn.Conv2d(3, 2, 1), X, tmp_path / "m.onnx", input_names=["x", "a", "b"])
    assert inputs_of(tmp_path / "m.onnx") == (["x"], ["a", "b"])
    with pytest.raises(opbridge.InvalidArgumentError, match="2 input names for a model with 1 input"):
        opbridge.export(nn.Linear(8, 2), X, tmp_path / "m.onnx", input_names=["x", "a"])


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize(
    ("training", "model_trains", "trains"),
    [
        (None, True, False),
        (False, True, False),
        (torch.onnx.TrainingMode.EVAL, True, False),
        (torch.onnx.TrainingMode.PRESERVE, True, True),
        (torch.onnx.TrainingMode.PRESERVE, False, False),
        (torch.onnx.TrainingMode.TRAINING, False, True),
        (True, False, True),
    ],
)
def test_training(tmp_path: Path, capture: Any, training: Any, model_trains: bool, trains: bool) -> None:
    model = nn.BatchNorm2d(3, track_running_stats=True).train(model_trains)
    model.running_mean = torch.randn(3)
    path = tmp_path / "m.onnx"
    opbridge.export(
        model, X, path, training=training, capture=capture, verify=True, mutations_as_outputs=True, input_names=["x"]
    )
    assert model.training == model_trains
    actual = run(session(path), {"x": X})
    expected = model.train(trains)(X)
    torch.testing.assert_close(actual[0], expected, rtol=1e-4, atol=1e-5)
    assert (len(actual) > 1) == trains


def test_training_does_not_change_an_exported_program(tmp_path: Path) -> None:
    exported = torch.export.export(nn.BatchNorm2d(3).eval(), (X,))
    with pytest.raises(opbridge.UnsupportedError, match="training cannot change an ExportedProgram"):
        opbridge.export(exported, f=tmp_path / "m.onnx", training=torch.onnx.TrainingMode.TRAINING)
    for mode in (torch.onnx.TrainingMode.EVAL, torch.onnx.TrainingMode.PRESERVE):
        opbridge.export(exported, f=tmp_path / "m.onnx", training=mode, verify=True)


def test_training_keeps_parts_in_their_own_mode(tmp_path: Path) -> None:
    model = nn.Sequential(nn.BatchNorm2d(3), nn.BatchNorm2d(3)).train()
    model[0].eval()
    opbridge.export(
        model, X, tmp_path / "m.onnx", training=torch.onnx.TrainingMode.PRESERVE, mutations_as_outputs=True, verify=True
    )
    names = [value.name for value in onnx.load(tmp_path / "m.onnx").graph.output]
    assert {"1.running_mean_out", "1.running_var_out"} < set(names)
    assert not any(name.startswith("0.") for name in names)


def test_what_training_changes_is_not_lost(tmp_path: Path) -> None:
    with pytest.raises(opbridge.UnsupportedError, match="mutations as outputs"):
        opbridge.export(nn.BatchNorm2d(3), X, tmp_path / "m.onnx", training=torch.onnx.TrainingMode.TRAINING)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"export_modules_as_functions": True}, "export_modules_as_functions is not supported"),
        ({"export_modules_as_functions": {nn.Conv2d}}, "export_modules_as_functions is not supported"),
        ({"operator_export_type": torch.onnx.OperatorExportTypes.ONNX_ATEN}, "ONNX_ATEN"),
        ({"aten": True}, "aten=True"),
        ({"export_raw_ir": True}, "export_raw_ir=True"),
        ({"training": "no"}, "training must be a torch.onnx.TrainingMode"),
        ({"dynamo": False, "capture": "export"}, "capture='export' contradicts dynamo=False"),
        ({"dynamo": False, "dump_exported_program": True}, "dump_exported_program needs torch.export"),
    ],
)
def test_what_cannot_be_honoured_is_refused(tmp_path: Path, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises((opbridge.UnsupportedError, opbridge.InvalidArgumentError), match=message):
        opbridge.export(Net(), X, tmp_path / "m.onnx", **arguments)
    assert not list(tmp_path.iterdir())


def test_what_has_no_meaning_changes_nothing(tmp_path: Path) -> None:
    model = Net().eval()
    opbridge.export(model, X, tmp_path / "plain.onnx")
    opbridge.export(
        model,
        X,
        tmp_path / "m.onnx",
        export_params=None,
        keep_initializers_as_inputs=None,
        verbose=None,
        dynamo=None,
        training=None,
        optimize=None,
        do_constant_folding=None,
        autograd_inlining=False,
        enable_onnx_checker=False,
        example_outputs=model(X),
        _retain_param_name=False,
        operator_export_type=torch.onnx.OperatorExportTypes.ONNX_FALLTHROUGH,
        export_modules_as_functions=set(),
        custom_opsets={},
        strip_doc_string=False,
        use_external_data_format=False,
    )
    assert (tmp_path / "m.onnx").read_bytes() == (tmp_path / "plain.onnx").read_bytes()


def test_other_names_of_options(tmp_path: Path) -> None:
    model, path = Net().eval(), tmp_path / "m.onnx"

    def exported(**arguments: Any) -> bytes:
        opbridge.export(model, X, path, **arguments)
        return path.read_bytes()

    unsimplified = exported(simplify=False)
    assert exported(optimize=False) == exported(do_constant_folding=False) == unsimplified != exported()
    assert exported(strip_doc_string=True) == exported(source_lines=False) != exported()
    assert exported(use_external_data_format=True) == exported(external_data=True)
    assert path.with_name("m.onnx.data").exists()
    assert exported(dynamo=False) == exported(capture="trace")


def test_fallback_traces_what_torch_export_cannot_capture(tmp_path: Path) -> None:
    with pytest.raises(opbridge.UnsupportedError, match=r"torch\.export"):
        opbridge.export(Branching(), X, tmp_path / "m.onnx", dynamo=True)
    with pytest.warns(UserWarning, match="the model is traced, since fallback=True"):
        opbridge.export(Branching(), X, tmp_path / "m.onnx", dynamo=True, fallback=True, verify=True)


def test_verbose_prints_the_program_and_the_steps(tmp_path: Path, capsys: Any) -> None:
    opbridge.export(Net(), X, tmp_path / "m.onnx", verbose=True, verify=True)
    out = capsys.readouterr().out
    assert "aten::conv2d" in out
    assert re.search(r"capture: \d+\.\d\d s", out)
    assert "verification: " in out
    opbridge.export(Net(), X, tmp_path / "m.onnx", verbose=False)
    assert not capsys.readouterr().out


def artifacts(folder: Path, suffix: str) -> list[str]:
    return [path.read_text() for path in sorted(folder.glob(f"onnx_export_*{suffix}"))]


def test_report(tmp_path: Path) -> None:
    folder = tmp_path / "made" / "here"
    opbridge.export(Net(), X, tmp_path / "m.onnx", report=True, artifacts_dir=folder, verify=True)
    (text,) = artifacts(folder, "_success.md")
    for part in ("# Export of Net", f"torch {torch.__version__}", "| Conv | 1 |", "all outputs agree", "aten::conv2d"):
        assert part in text
    with pytest.raises(opbridge.UnsupportedError):
        opbridge.export(Branching(), X, tmp_path / "m.onnx", report=True, artifacts_dir=str(folder), profile=True)
    (text,) = artifacts(folder, "_failure.md")
    assert "## Failure" in text
    assert "opbridge.errors.UnsupportedError" in text
    assert "cumulative" in text


@pytest.mark.parametrize("dynamo", [True, False])
def test_profile_is_printed(tmp_path: Path, capsys: Any, dynamo: bool) -> None:
    opbridge.export(Net(), X, tmp_path / "m.onnx", profile=True, dynamo=dynamo, verify=True)
    assert "cumulative time" in capsys.readouterr().out


def test_dump_exported_program(tmp_path: Path) -> None:
    model = Net().eval()
    opbridge.export(model, X, tmp_path / "m.onnx", dump_exported_program=True, artifacts_dir=tmp_path)
    (path,) = tmp_path.glob("onnx_export_*.pt2")
    dumped = torch.export.load(path)
    torch.testing.assert_close(dumped.module()(X), model(X))
    opbridge.export(dumped, f=tmp_path / "again.onnx", verify=True)


def test_custom_translation_table(tmp_path: Path) -> None:
    pytest.importorskip("onnxscript")
    import translation_functions as functions

    class Model(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            first, second = torch.add(x, x, alpha=3).chunk(2, 1)
            return torch.nn.functional.hardswish(first) - torch.softmax(second, 1)

    table = {
        torch.ops.aten.add.Tensor: functions.add,
        torch.ops.aten.hardswish.default: functions.hard_swish,
        torch.ops.aten.softmax: functions.softmax,
        torch.ops.aten.chunk.default: functions.halves,
    }
    path = tmp_path / "m.onnx"
    x = torch.randn(2, 4, 3)
    opbridge.export(Model(), x, path, custom_translation_table=table, verify=True, simplify=False)
    model = onnx.load(path)
    operators = [node.op_type for node in model.graph.node]
    assert "HardSwishOfTable" in operators
    assert [function.name for function in model.functions] == ["HardSwishOfTable"]
    assert operators.count("Exp") == 1  # of the softmax that the table spells out
    assert not set(operators) & {"Softmax", "HardSwish"}
    opbridge.export(Model(), x, path, verify=True)
    assert "HardSwishOfTable" not in [node.op_type for node in onnx.load(path).graph.node]

    for key, message in ((torch.relu, "is not an operator"), (len, "is not an operator")):
        with pytest.raises(opbridge.InvalidArgumentError, match=message):
            opbridge.export(Model(), x, path, custom_translation_table={key: functions.add})
    with pytest.raises(opbridge.InvalidArgumentError, match="is not a function"):
        opbridge.export(Model(), x, path, custom_translation_table={torch.ops.aten.add.Tensor: [functions.add]})
    with pytest.warns(UserWarning, match="the model does not call aten::_softmax, aten::gelu"):
        opbridge.export(
            Model(),
            x,
            path,
            custom_translation_table=table
            | {torch.ops.aten._softmax.default: functions.softmax, torch.ops.aten.gelu.default: functions.hard_swish},
        )
    old = {torch.ops.aten.softmax.int: functions.softmax_of_opset_11}
    with pytest.raises(opbridge.UnsupportedError, match="Softmax of opset 11"):
        opbridge.export(Model(), x, path, custom_translation_table=old)


def test_names_of_torch_onnx(tmp_path: Path) -> None:
    assert torch_onnx.export is opbridge.export
    assert torch_onnx.TrainingMode is torch.onnx.TrainingMode
    assert torch_onnx.ops is torch.onnx.ops
    assert torch_onnx.symbolic_helper is torch.onnx.symbolic_helper
    for name in ("dynamo_export", "utils", "errors", "symbolic_opset9", "JitScalarType", "verification"):
        with pytest.raises(AttributeError, match=f"opbridge.torch_onnx has no '{name}': \\w+"):
            getattr(torch_onnx, name)
    for name in dir(torch.onnx):
        if not name.startswith("_") and not hasattr(torch_onnx, name):
            with pytest.raises(AttributeError, match=": "):
                getattr(torch_onnx, name)

    class Seen(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2 if torch_onnx.is_in_onnx_export() else x

    program = torch_onnx.export(Seen(), X)
    assert torch.equal(program(X)[0], X * 2)
    assert not torch_onnx.is_in_onnx_export()


def test_registration_through_torch_onnx(tmp_path: Path) -> None:
    @torch_onnx.symbolic_helper.parse_args("v")
    def asinh(g: Any, x: Any) -> Any:
        return g.op("custom::Mine", x)

    torch_onnx.register_custom_op_symbolic("aten::asinh", asinh, 9)
    try:
        opbridge.export(torch.asinh, X, tmp_path / "m.onnx")
    finally:
        torch_onnx.unregister_custom_op_symbolic("aten::asinh", 9)
    assert onnx.load(tmp_path / "m.onnx").graph.node[0].op_type == "Mine"


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_ops_symbolic(tmp_path: Path, capture: Any) -> None:
    class Model(nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            if not torch_onnx.is_in_onnx_export():
                return torch.nn.functional.leaky_relu(x + 1, 0.25) * 2, x.topk(2).values
            made = torch_onnx.ops.symbolic("LeakyRelu", (x + 1,), {"alpha": 0.25}, dtype=x.dtype, shape=x.shape)
            count = torch.tensor([2])
            values, _ = torch_onnx.ops.symbolic_multi_out(
                "TopK",
                (x, count),
                {"axis": -1},
                dtypes=(x.dtype, torch.int64),
                shapes=((*x.shape[:-1], 2), (*x.shape[:-1], 2)),
            )
            return made * 2, values

    path, x = tmp_path / "m.onnx", torch.randn(2, 5)
    opbridge.export(Model(), x, path, capture=capture, dynamic_shapes={"x": {0: "batch"}}, verify=True)
    opbridge.verify(path, Model(), torch.randn(4, 5))
    assert {"LeakyRelu", "TopK"} <= {node.op_type for node in onnx.load(path).graph.node}


def test_ops_symbolic_of_another_domain(tmp_path: Path) -> None:
    def model(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        attributes = {"i": 3, "f": 0.5, "s": "text", "is": [1, 2], "fs": [0.5, 2.0], "ss": ["a", "b"]}
        made = torch.onnx.ops.symbolic(
            "my.domain::Op", (x, None, y), attributes, dtype=torch.float16, shape=(3, *x.shape), version=4
        )
        return made.float()

    path = tmp_path / "m.onnx"
    opbridge.export(model, (X, X + 1), path)
    exported = onnx.load(path)
    node = exported.graph.node[0]
    assert (node.domain, node.op_type, list(node.input)) == ("my.domain", "Op", ["x", "", "y"])
    values = {each.name: onnx.helper.get_attribute_value(each) for each in node.attribute}
    assert values == {"i": 3, "f": 0.5, "s": b"text", "is": [1, 2], "fs": [0.5, 2.0], "ss": [b"a", b"b"]}
    assert {each.domain: each.version for each in exported.opset_import}["my.domain"] == 4
    (info,) = (info for info in exported.graph.value_info if info.name == node.output[0])
    assert info.type.tensor_type.elem_type == onnx.TensorProto.FLOAT16
    opbridge.export(model, (X, X + 1), path, custom_opsets={"my.domain": 7})
    assert {each.domain: each.version for each in onnx.load(path).opset_import}["my.domain"] == 7
    with pytest.raises(opbridge.UnsupportedError, match="stated for opset 99"):
        opbridge.export(
            lambda x: torch.onnx.ops.symbolic("Relu", (x,), dtype=x.dtype, shape=x.shape, version=99), X, path
        )


Q = torch.randn(2, 4, 5, 8)
TORCH_OPS = {
    "attention": (lambda q: torch.onnx.ops.attention(q, q + 1, q * 2)[0], Q),
    "causal": (lambda q: torch.onnx.ops.attention(q, q, q, is_causal=True, scale=0.5)[0], Q),
    "softcap": (lambda q: torch.onnx.ops.attention(q, q, q, softcap=2.0)[0], Q),
    "mask": (lambda q: torch.onnx.ops.attention(q, q, q, attn_mask=q[:1, :1, :, :5])[0], Q),
    "three axes": (lambda q: torch.onnx.ops.attention(q, q, q, q_num_heads=2, kv_num_heads=2)[0], Q[0]),
    "past": (lambda q: torch.onnx.ops.attention(q, q, q, past_key=q + 1, past_value=q * 2)[:3], Q),
    "rotary": (
        lambda q: torch.onnx.ops.rotary_embedding(
            q,
            torch.arange(40.0).reshape(10, 4).cos(),
            torch.arange(40.0).reshape(10, 4).sin(),
            torch.arange(5)[None] + 1,
        ),
        Q[:1],
    ),
    "rotary, interleaved": (
        lambda q: torch.onnx.ops.rotary_embedding(q, q[:, 0, :, :4].cos(), q[:, 0, :, :4].sin(), interleaved=True),
        Q,
    ),
}


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize("name", TORCH_OPS)
def test_attention_and_rotary_embedding_of_torch_onnx(name: str, capture: Any, tmp_path: Path) -> None:
    function, x = TORCH_OPS[name]
    opbridge.export(function, (x,), tmp_path / "m.onnx", opset_version=23, capture=capture, verify=True)
    expected = "RotaryEmbedding" if name.startswith("rotary") else "Attention"
    assert [node.op_type for node in onnx.load(tmp_path / "m.onnx").graph.node].count(expected) == 1
    with pytest.raises(opbridge.UnsupportedError, match="from opset 23 on"):
        opbridge.export(function, (x,), tmp_path / "m.onnx", capture=capture)


@pytest.mark.parametrize("with_mask", [True, False])
def test_softcap_with_a_mask_is_refused(with_mask: bool, tmp_path: Path) -> None:
    def model(q: torch.Tensor) -> torch.Tensor:
        mask = q[:1, :1, :, :5] if with_mask else None
        return torch.onnx.ops.attention(q, q, q, attn_mask=mask, is_causal=not with_mask, softcap=2.0)[0]

    with pytest.raises(opbridge.UnsupportedError, match="softcap before the mask"):
        opbridge.export(model, Q, tmp_path / "m.onnx", opset_version=23)


def test_paths_of_every_kind(tmp_path: Path) -> None:
    for path in (tmp_path / "a.onnx", str(tmp_path / "b.onnx"), pathlib.PurePath(tmp_path, "c.onnx")):
        opbridge.export(nn.ReLU(), X, path)
        assert Path(path).exists()
