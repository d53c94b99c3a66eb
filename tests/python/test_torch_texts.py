"""torch's messages and TorchScript's texts, parts of which opbridge reads, are as it expects."""

from __future__ import annotations

import functools
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from replacement_scenarios import Model, X, of_attributes, of_compiled
from torch import nn

from opbridge.torch_compat import FakeTensorMode, messages, symbols, torchscript, torchscript_texts


def failure_of_export(model: nn.Module, *args: Any, **options: Any) -> Exception:
    with pytest.raises(Exception) as caught:  # noqa: PT011 - torch raises errors of many kinds
        torch.export.export(model, args, strict=False, **options)
    return caught.value


def test_message_of_an_axis_that_becomes_a_constant() -> None:
    axes = {"args": ({0: torch.export.Dim.DYNAMIC},)}
    error = failure_of_export(Model(lambda _, x: x.view(4, 3)), X, dynamic_shapes=axes)
    assert messages.fixed_size(error) in [("args_0", "0", None, "4"), ("args", "0", None, "4")]


def test_message_of_a_dim_that_becomes_a_constant() -> None:
    axes = {"args": ({0: torch.export.Dim("rows")},)}
    error = failure_of_export(Model(lambda _, x: x.view(4, 3)), X, dynamic_shapes=axes)
    assert messages.fixed_size(error) is not None


def test_message_of_sizes_that_a_model_does_not_take() -> None:
    axes = {"args": ({0: torch.export.Dim("rows")},)}
    error = failure_of_export(Model(lambda _, x: x if x.shape[0] % 2 == 0 else x[1:]), X, dynamic_shapes=axes)
    [guard] = messages.guards_beyond_ranges(error)
    assert guard.endswith(" == 0")


def test_message_of_sizes_as_texts() -> None:
    sizes: Any = ["rows"]
    with pytest.raises(TypeError) as caught:
        torch._C.TensorType.get().with_sizes(sizes)
    assert messages.is_of_sizes_as_texts(caught.value)


@pytest.mark.parametrize(
    "of_size",
    [
        lambda n: torch.tensor(np.arange(n)),
        np.exp,
        lambda n: np.arctan2(n - 0.5, 3),
        lambda n: np.fmod(np.ones(2), n / 2),
    ],
)
def test_messages_of_sizes_in_numpy(of_size: Any) -> None:
    axes = {"args": ({0: torch.export.Dim("rows")},)}
    error = failure_of_export(Model(lambda _, x: x * of_size(x.shape[0])), X, dynamic_shapes=axes)
    assert messages.is_of_sizes_in_numpy(error)


@pytest.mark.parametrize("convert", [torch.Tensor.numpy, np.asarray, np.sqrt])
def test_message_of_values_in_numpy(convert: Any) -> None:
    error = failure_of_export(Model(lambda _, x: x * torch.as_tensor(convert(x))), X)
    assert messages.is_of_values_in_numpy(error)


@pytest.mark.parametrize("write", [lambda array: array.fill(1), lambda array: np.add(array, 1, out=array)])
def test_messages_of_writes_to_arrays(write: Callable[[Any], Any]) -> None:
    array = np.ones(2)
    array.flags.writeable = False
    with pytest.raises(ValueError, match="is read-only") as caught:
        write(array)
    assert messages.is_of_write_to_array(caught.value)


def test_message_of_weights_that_cannot_be_converted() -> None:
    error = failure_of_export(Model(lambda model, x: model.layer.double()(x), layer=nn.Linear(3, 3)), X)
    assert messages.is_of_swapped_weights(error)


@pytest.mark.parametrize(
    "needs_a_graph",
    [
        lambda x: torch.autograd.grad(x.sum(), x),
        lambda x: x.register_hook(torch.neg),
        lambda x: x.retain_grad(),
    ],
)
def test_messages_of_autograd_without_a_graph(needs_a_graph: Any) -> None:
    with pytest.raises(RuntimeError) as caught:
        needs_a_graph(torch.ones(1))
    assert messages.lacks_gradients(caught.value)
    assert not messages.lacks_gradients(RuntimeError("another"))


def test_errors_in_each_others_contexts() -> None:
    error, other = RuntimeError("another"), ValueError("of the second attempt")
    error.__context__, other.__context__ = other, error
    assert not messages.lacks_gradients(error)


def test_messages_with_advice() -> None:
    error = failure_of_export(Model(lambda _, x: x if x.sum() > 0 else -x), X)
    for advice in ("For more information", "The error above occurred", "Caused by: "):
        assert f"\n{advice}" in str(error)
        assert advice not in messages.without_advice(str(error))
    assert "Could not guard on data-dependent expression" in messages.without_advice(str(error))
    assert messages.asked_of_data(error) == "Eq(u0, 1)"


def test_message_of_a_branch_on_data() -> None:
    error = failure_of_export(Model(lambda _, x: x if x.sum() > 0 else -x), X)
    assert isinstance(error, symbols.GuardOnDataDependentSymNode)
    assert messages.is_branch_on_data(error)
    assert not messages.is_branch_on_data(RuntimeError("another"))


def test_message_of_a_branch_on_data_in_torchscript() -> None:
    def branching(x: torch.Tensor) -> torch.Tensor:
        if bool(x.sum() > 0):
            return x + 1
        return x - 1

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scripted = torch.jit.script(branching)
    with (
        FakeTensorMode(shape_env=symbols.ShapeEnv()) as mode,
        torch.jit.optimized_execution(False),
        pytest.raises(RuntimeError) as caught,
    ):
        scripted(mode.from_tensor(X))
    assert not isinstance(caught.value, symbols.GuardOnDataDependentSymNode)
    assert messages.is_branch_on_data(caught.value)


def test_warning_of_assigned_attributes() -> None:
    model = Model(of_attributes)
    model.latest, model.counter = torch.zeros(4, 3), 0
    with pytest.warns(UserWarning, match="latest") as caught:
        torch.export.export(model, (X,), strict=False)
    assert any(messages.is_of_assigned_attributes(str(warning.message)) for warning in caught)


def test_stack_of_cpp_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    program = "import torch; torch.ones(2) + torch.ones(3)"
    monkeypatch.setenv("TORCH_SHOW_CPP_STACKTRACES", "1")  # torch reads it once
    failed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False).stderr
    text = failed[failed.index("RuntimeError: ") :]
    assert "\nException raised from " in text
    assert messages.without_advice(text).count("\n") == 0


def test_stack_traces_of_nodes() -> None:
    program = torch.export.export(nn.Sequential(nn.Linear(3, 3)), (X,), strict=False)
    (node,) = (each for each in program.graph.nodes if each.target is torch.ops.aten.linear.default)
    outer, inner = messages.frames_of(node.stack_trace)
    files = [sys.modules[kind.__module__].__file__ for kind in (nn.Sequential, nn.Linear)]
    assert [outer[0], inner[0]] == files
    code = nn.Linear.forward.__code__
    assert code.co_firstlineno < inner[1] < code.co_firstlineno + 10
    assert inner[2] == code.co_name


class Pair(NamedTuple):
    both: tuple[int, int]
    rows: torch.Tensor


def of_containers(x: torch.Tensor) -> Any:
    with torch.no_grad():
        pair = Pair((1, 2), x.T)
    sizes = {"a": [size_of(x)]}
    return pair, sizes.keys(), (x, x)


def size_of(x: torch.Tensor) -> int:
    return x.size(0)


@functools.cache
def nodes_of(function: Callable[..., Any], kind: str) -> list[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        graph = torch.jit.script(function).graph
    return [node for node in graph.nodes() if node.kind() == kind]


def test_torchscript_prints_the_fields_of_named_tuples() -> None:
    made = [torchscript_texts.named_tuple_of(node) for node in nodes_of(of_containers, "prim::TupleConstruct")]
    assert ("Pair", ("both", "rows")) in made
    assert None in made


def test_torchscript_prints_the_types_of_values() -> None:
    containers = [*nodes_of(of_containers, "prim::DictConstruct"), *nodes_of(of_containers, "prim::ListConstruct")]
    (mode,) = nodes_of(of_containers, "prim::CreateObject")
    assert [torchscript_texts.is_container(node.output()) for node in containers] == [True, True]
    assert not torchscript_texts.is_container(mode.output())
    assert torchscript_texts.is_no_grad(mode.output())
    assert not torchscript_texts.is_no_grad(containers[0].output())


def test_torchscript_prints_the_names_of_functions() -> None:
    (node,) = (node for node in nodes_of(of_containers, "prim::CallFunction"))
    name = torchscript_texts.function_in(next(iter(node.inputs())))
    assert torchscript.function_named(name).name == "size_of"


def test_torchscript_prints_schemas() -> None:
    (keys,) = nodes_of(of_containers, "aten::keys")
    (size,) = nodes_of(of_containers, "aten::numpy_T")
    (made,) = nodes_of(of_containers, "prim::DictConstruct")
    assert torchscript_texts.returns_container(torchscript_texts.schema_line(keys))
    assert torchscript_texts.schema_line(size) == "aten::numpy_T(Tensor(a) self) -> Tensor(a)"
    assert not torchscript_texts.returns_container(torchscript_texts.schema_line(size))
    assert torchscript_texts.schema_line(made) == ""


def test_torchscript_prints_the_lines_of_nodes() -> None:
    code = of_containers.__code__
    (keys,) = nodes_of(of_containers, "aten::keys")
    ((file, line, function),) = torchscript_texts.lines_of(keys, "f")
    assert (file, function) == (__file__, "f")
    assert code.co_firstlineno < line <= code.co_firstlineno + 5
    (property_of_tensor,) = nodes_of(of_containers, "aten::numpy_T")
    assert "<string>" in str(property_of_tensor.sourceRange())
    assert torchscript_texts.lines_of(property_of_tensor, "f") == []


def test_torchscript_prints_the_frames_of_traced_nodes() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced = torch.jit.trace(of_compiled, X)
    view = next(node for node in traced.graph.nodes() if node.kind() == "aten::view")
    code = of_compiled.__code__
    innermost = torchscript_texts.lines_of(view, "")[0]
    assert innermost == (code.co_filename, code.co_firstlineno + 1, code.co_name)


def test_torchscript_prints_the_lines_of_loaded_nodes(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.script(nn.Linear(1, 1)).save(tmp_path / "model.pt")
        loaded = torch.jit.load(tmp_path / "model.pt")
    (linear,) = (node for node in loaded.graph.nodes() if node.kind() == "aten::linear")
    places = torchscript_texts.lines_of(linear, "forward")
    assert places[0][0] == sys.modules[nn.Linear.__module__].__file__
