"""What fixes a dynamic size is refused or warned of, with its line."""

from __future__ import annotations

import pathlib
import re
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from dynamic_check import CAPTURES
from torch._functorch.vmap import get_chunk_sizes
from torch.export import Dim
from torch.nn import functional as F

import opbridge
from opbridge import TraceWarning


@CAPTURES
def test_warnings_of_a_capture_can_be_errors(capture: Any, tmp_path: pathlib.Path) -> None:
    def branch(x: torch.Tensor) -> torch.Tensor:
        return x.sum() if x.shape[0] > 3 else x

    rows = ({0: torch.export.Dim.DYNAMIC},)
    with warnings.catch_warnings():
        warnings.simplefilter("error", TraceWarning)
        with pytest.raises(TraceWarning, match="a branch by a dynamic size"):
            opbridge.export(branch, (torch.ones(4),), tmp_path / "m.onnx", capture=capture, dynamic_shapes=rows)


@CAPTURES
@pytest.mark.parametrize("dim", ["n", Dim.DYNAMIC, Dim("n", max=9)], ids=["name", "hint", "dim"])
def test_the_line_that_fixes_a_size_is_told(dim: Any, capture: Any, tmp_path: pathlib.Path) -> None:
    def repeated(x: torch.Tensor) -> torch.Tensor:
        for i in sorted(range(x.shape[0])):
            x = x + i
        return x

    with pytest.raises(opbridge.UnsupportedError, match="was to be dynamic, but the model fixes it to 5") as refusal:
        opbridge.export(repeated, (torch.rand(5, 2),), tmp_path / "m.onnx", dynamic_shapes=({0: dim},), capture=capture)
    assert "in repeated: for i in sorted(range(x.shape[0])):" in refusal.value.where


@CAPTURES
@pytest.mark.parametrize(
    ("operator", "function"),
    [
        ("aten::reshape", lambda x: x.reshape(5, 2) * 2),
        ("aten::histc", torch.vmap(lambda row: row.histc(3, 0, 1))),
    ],
)
def test_the_operator_that_fixes_a_size_is_told(
    operator: str, function: Callable[..., Any], capture: Any, tmp_path: pathlib.Path
) -> None:
    with pytest.raises(opbridge.UnsupportedError, match=f"the model fixes it to 5 in a call of {operator}:"):
        opbridge.export(function, (torch.rand(5, 2),), tmp_path / "m.onnx", dynamic_shapes=({0: "n"},), capture=capture)


@CAPTURES
@pytest.mark.parametrize(
    "function", [lambda x: sum(row * 2 for row in x), lambda x: torch.cat(list(x)), lambda x: torch.cat(x.unbind())]
)
def test_a_loop_over_a_dynamic_axis_is_told(function: Callable[..., Any], capture: Any, tmp_path: pathlib.Path) -> None:
    with pytest.raises(opbridge.UnsupportedError, match="fixes it to 5: its Python code goes through the axis"):
        opbridge.export(function, (torch.rand(5, 2),), tmp_path / "m.onnx", dynamic_shapes=({0: "n"},), capture=capture)


@CAPTURES
def test_sizes_of_one_name_that_differ_are_refused(capture: Any, tmp_path: pathlib.Path) -> None:
    sizes = {0: "batch"}
    with pytest.raises(opbridge.InvalidArgumentError, match="the sizes called 'batch' differ"):
        opbridge.export(
            lambda x, y: (x + 1, y + 1),
            (torch.rand(2), torch.rand(3)),
            tmp_path / "m.onnx",
            dynamic_shapes={"x": sizes, "y": sizes},
            capture=capture,
        )


@CAPTURES
def test_a_branch_by_a_dynamic_size_is_told(capture: Any, tmp_path: pathlib.Path) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x.sum() if x.shape[0] % 2 == 0 else x + 1

    with pytest.warns(TraceWarning, match=r"branch by a dynamic size.*was read as True.*x\.shape\[0\] % 2"):
        opbridge.export(
            function, (torch.randn(4),), tmp_path / "model.onnx", dynamic_shapes=({0: Dim.DYNAMIC},), capture=capture
        )
    with warnings.catch_warnings():
        warnings.simplefilter("error", TraceWarning)
        opbridge.export(function, (torch.randn(4),), tmp_path / "model.onnx", capture=capture)


@CAPTURES
@pytest.mark.parametrize(
    "is_square", [lambda x: x.shape[1] == 4, lambda x: x.shape[1:] == (4,)], ids=["number", "tuple"]
)
def test_a_size_that_a_branch_compares_is_told(
    is_square: Callable[[torch.Tensor], bool], capture: Any, tmp_path: pathlib.Path
) -> None:
    """As in Swin transformers, which have a mask for the size of their configuration."""

    def function(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if is_square(x) else x.sum()

    path, sizes = tmp_path / "m.onnx", ({1: "n"},)
    with pytest.raises(opbridge.UnsupportedError, match=r"to 4: a branch asks .* give an example of another size"):
        opbridge.export(function, (torch.rand(4, 4),), path, dynamic_shapes=sizes, capture=capture)
    with pytest.warns(TraceWarning, match="n, 4"):
        opbridge.export(function, (torch.rand(4, 5),), path, dynamic_shapes=sizes, capture=capture, verify=True)


@CAPTURES
@pytest.mark.parametrize(
    ("dynamic", "name"),
    [
        ({"dynamic_axes": {"x": {0: "batch"}}}, "batch"),
        ({"dynamic_axes": {"image": [0]}, "input_names": ["image"]}, "image_dim_0"),
        ({"dynamic_shapes": ({0: Dim("batch")},)}, "batch"),
        ({"dynamic_shapes": ({0: Dim.DYNAMIC},)}, "x_dim_0"),
    ],
    ids=["axes", "list", "dim", "hint"],
)
def test_messages_have_the_names_of_the_sizes(dynamic: Any, name: str, capture: Any) -> None:
    def counted(x: torch.Tensor) -> torch.Tensor:
        return x * len(bytes(x.shape[0] // 2))

    def chosen(x: torch.Tensor) -> torch.Tensor:
        found = x[x[:, 0] > 0.5]
        return found * len(bytes(found.shape[0] + x.shape[0]))

    functions: list[tuple[Callable[..., Any], str]] = [
        (lambda x: x.squeeze(0), f"the dynamic size '{name}', which"),
        (lambda x: x * len(str(x.shape[0] + 1)), f"'{name} + 1', which depends on a dynamic size or on data, was"),
        (lambda x: x if x.shape[0] + 1 != 2 else x.sum(), f"whether 'Ne({name} + 1, 2)' was read as True"),
    ]
    for function, text in functions:
        with pytest.warns(TraceWarning, match=re.escape(text)):
            opbridge.export(function, (torch.rand(4, 2),), capture=capture, **dynamic)
    for function, text in ((counted, f"'({name}//2)', which"), (chosen, f"{name} + u0")):
        with pytest.raises(opbridge.UnsupportedError, match=re.escape(text)):  # torch's own text has the latter
            opbridge.export(function, (torch.rand(4, 2),), capture=capture, **dynamic)


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_numbers_made_of_sizes_are_refused(tmp_path: pathlib.Path, capture: Any) -> None:
    for function in (lambda x: x * [1, 2, 3, 4][x.shape[0] // 2], lambda x: x * sum(range(x.shape[0] // 2))):
        with pytest.raises(opbridge.UnsupportedError, match=r"depends on a dynamic size, is converted to the number"):
            opbridge.export(
                function, (torch.rand(6),), tmp_path / "m.onnx", dynamic_shapes=({0: Dim.DYNAMIC},), capture=capture
            )


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize(
    "rows",
    [lambda x: x[2:], lambda x: x[2:].unbind(), lambda x: x.tensor_split(3)[-1]],
    ids=["loop", "unbind", "tensor_split"],
)
def test_the_lack_of_pieces_in_the_example_is_told(tmp_path: pathlib.Path, capture: Any, rows: Any) -> None:
    def total(x: torch.Tensor) -> torch.Tensor:
        result = x.sum()
        for row in rows(x):
            result = result + row[0].sum()
        return result

    with pytest.warns(TraceWarning, match=r"an operator needs .* as the number 0"):
        opbridge.export(
            total,
            (torch.rand(2, 3),),
            tmp_path / "m.onnx",
            dynamic_shapes=({0: Dim.DYNAMIC},),
            capture=capture,
        )


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize("split", [torch.split, torch.chunk, torch.unsafe_split])
def test_the_number_of_pieces_is_told(tmp_path: pathlib.Path, capture: Any, split: Any) -> None:
    """Or refused, where it is not the model that gives it."""
    is_refused = capture == "export" and split is not torch.chunk
    text = r"needs .* as the number 2 of the parts that \w+\(\) makes; tensor_split"
    error, warning = pytest.raises(opbridge.UnsupportedError, match=text), pytest.warns(TraceWarning, match=text)
    with error if is_refused else warning:
        opbridge.export(
            lambda x: split(x, 2)[-1],
            (torch.rand(4),),
            tmp_path / "m.onnx",
            dynamic_shapes=({0: Dim.DYNAMIC},),
            capture=capture,
        )


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize(
    "function",
    [
        lambda x: x[: len(x) // 2] + torch.ones(2),
        lambda x: torch.where(x[: len(x) // 2] > 0, torch.ones(2), 1.0),
        lambda x: x[: len(x) // 2] * x[: (len(x) + 1) // 2],
        lambda x: torch.broadcast_tensors(x[: len(x) // 2], torch.ones(2))[0],
        lambda x: x[: len(x) // 2] + x[len(x) // 2 :],  # for 3 rows 1 and 2
        lambda x: x + x.new_ones(2 * ((len(x) - 1) // 2) + 2),  # for 1 row 1 and 2
    ],
)
def test_sizes_that_broadcast_elsewhere_are_told(tmp_path: pathlib.Path, capture: Any, function: Any) -> None:
    """In the example, 4 // 2 is the size of the other tensor. For 2 rows, 2 // 2 is 1 and broadcasts to that size."""
    with pytest.warns(TraceWarning, match=r"sizes that broadcast: torch assumes that .* equals"):
        opbridge.export(
            function, (torch.rand(4),), tmp_path / "m.onnx", dynamic_shapes=({0: Dim.DYNAMIC},), capture=capture
        )


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_rows_of_a_table_do_not_broadcast(tmp_path: pathlib.Path, capture: Any) -> None:
    """The length of table[:n] is 1 only for n = 1, so a sum with n rows never broadcasts."""
    table, path = torch.rand(8, 3), tmp_path / "m.onnx"

    def encoded(x: torch.Tensor) -> torch.Tensor:
        return x + table[: len(x)]

    with warnings.catch_warnings():
        warnings.simplefilter("error", TraceWarning)
        opbridge.export(encoded, (torch.rand(4, 3),), path, dynamic_shapes=({0: "n"},), capture=capture)
    for n in (1, 8):
        assert opbridge.verify(path, encoded, (torch.rand(n, 3),)).ok


def _add_to_repeated(x: torch.Tensor) -> torch.Tensor:
    """As in a U-net: where one size is 1, the other is 0."""
    return x + x[:, :, ::2, ::2][:, :, : x.shape[2] // 2, : x.shape[3] // 2].repeat(1, 1, 2, 2)


def _add_blocks(x: torch.Tensor) -> torch.Tensor:
    """A product of sizes, of which one factor is 0 where the other product is 1."""
    height, width = x.shape[2:]
    blocks = F.pixel_unshuffle(x[:, :, : height // 4 * 4, : width // 4 * 4], 4)
    return x.flatten(2) + F.pixel_shuffle(blocks, 4).flatten(2)


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize("model", [_add_to_repeated, _add_blocks])
def test_sizes_of_which_one_is_a_multiple_do_not_broadcast(tmp_path: pathlib.Path, capture: Any, model: Any) -> None:
    path = tmp_path / "m.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("error", TraceWarning)
        opbridge.export(model, (torch.rand(1, 2, 8, 12),), path, dynamic_shapes=({2: "h", 3: "w"},), capture=capture)
    for height, width in ((4, 4), (20, 8)):
        assert opbridge.verify(path, model, (torch.rand(1, 2, height, width),)).ok


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_an_assignment_does_not_broadcast_its_target(tmp_path: pathlib.Path, capture: Any) -> None:
    """Two columns cannot be assigned to one, which x[:, :2] may have."""
    path = tmp_path / "m.onnx"

    def assigned(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        result = x.clone()
        result[:, :2] = y
        return result

    with warnings.catch_warnings():
        warnings.simplefilter("error", TraceWarning)
        opbridge.export(
            assigned, (torch.rand(3, 4), torch.rand(3, 2)), path, dynamic_shapes=({1: "n"}, None), capture=capture
        )
    for n in (2, 5):
        opbridge.verify(path, assigned, (torch.rand(3, n), torch.rand(3, 2)))


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_a_choice_of_torch_by_sizes_is_told(tmp_path: pathlib.Path, capture: Any) -> None:
    """torch asks whether the result has one pixel, which 3 - 2 * (2 - 1) is in the example."""
    dynamic = {1: Dim.DYNAMIC, 2: Dim.DYNAMIC, 3: Dim.DYNAMIC}
    with pytest.warns(TraceWarning, match=r"torch assumes that the size .* equals '2\*w_dim_\d - 1'"):
        opbridge.export(
            lambda x, w: torch.conv3d(x, w, dilation=2),
            (torch.rand(2, 3, 3, 3), torch.rand(3, 2, 2, 2, 2)),
            tmp_path / "m.onnx",
            dynamic_shapes=(dynamic, {axis + 1: dim for axis, dim in dynamic.items()}),
            capture=capture,
        )


def test_a_capture_that_fails_leaves_nothing_on_the_inputs(tmp_path: pathlib.Path) -> None:
    x = torch.rand(2, 6)
    with pytest.raises(opbridge.UnsupportedError):
        opbridge.export(lambda x: x * len(range(x.shape[1])), (x,), tmp_path / "m.onnx", dynamic_shapes=({1: "n"},))
    assert not vars(x)


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ("b", "dynamic_shapes is 'b'"),
        (({0: "b"}, None), "2 entries; the inputs are x"),
        ({"x": [{0: "b"}]}, "has 1 axes, but the input has 2"),
        ({"x": Dim("b")}, "it must be a dict, a list or a tuple"),
        ({"x": {"0": "b"}}, "axes are numbers"),
        ({"x": {2: "b"}}, "axis 2 cannot be dynamic"),
        ({"x": {0: 7}}, "is declared as 7, but is 2"),
        ({"x": {0: 3.5}}, "is declared as 3.5"),
        ({"x": {0: Dim("b", min=4, max=8)}}, "is 2 in the example inputs"),
    ],
)
@pytest.mark.parametrize("capture", ["export", "trace"])
def test_dynamic_shapes_that_say_nothing_are_refused(
    tmp_path: pathlib.Path, shapes: Any, message: str, capture: Any
) -> None:
    with pytest.raises(opbridge.InvalidArgumentError, match=message):
        opbridge.export(
            lambda x: x * 2, (torch.rand(2, 3),), tmp_path / "m.onnx", dynamic_shapes=shapes, capture=capture
        )


@CAPTURES
def test_values_in_numpy_are_refused_by_name(capture: Any, tmp_path: pathlib.Path) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return x * float(x.abs().mean(0).detach().numpy()[0])

    with (
        pytest.raises(opbridge.UnsupportedError, match="converts a tensor to a NumPy array, known only"),
        warnings.catch_warnings(action="ignore", category=TraceWarning),
    ):
        opbridge.export(model, (torch.rand(3, 4),), tmp_path / "m.onnx", capture=capture, dynamic_shapes=({0: "n"},))


@pytest.mark.parametrize("shapes", [({0: "b"},), ({0: "b", 1: "n"},)])
def test_dynamic_shapes_of_variable_arguments_are_nested(shapes: Any, tmp_path: pathlib.Path) -> None:
    def doubled(*xs: torch.Tensor) -> list[torch.Tensor]:
        return [x * 2 for x in xs]

    with pytest.raises(opbridge.InvalidArgumentError, match=r"must have one entry for each of its 1 values, as"):
        opbridge.export(doubled, (torch.rand(2, 3),), tmp_path / "m.onnx", dynamic_shapes=shapes)
    opbridge.export(doubled, (torch.rand(2, 3),), tmp_path / "m.onnx", dynamic_shapes=(shapes,))


@CAPTURES
def test_a_number_that_torch_reads_is_told(capture: Any, tmp_path: pathlib.Path) -> None:
    def model(x: torch.Tensor) -> Any:
        return x.repeat(len(get_chunk_sizes(x.shape[0], 2)), 1)

    with pytest.warns(TraceWarning, match=r"torch converts .*//2.*the number 3"):
        opbridge.export(model, (torch.rand(6, 4),), tmp_path / "m.onnx", capture=capture, dynamic_shapes=({0: "n"},))


def test_a_warning_is_shown_once_by_each_export(tmp_path: pathlib.Path) -> None:
    """The model runs several times before it is refused."""

    def pieces(x: torch.Tensor) -> torch.Tensor:
        return torch.cat([*x.chunk(3)][:2]) + x[:4]

    for _ in range(2):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("default")
            with pytest.raises(opbridge.UnsupportedError):
                opbridge.export(pieces, (torch.ones(6),), tmp_path / "m.onnx", dynamic_shapes=({0: Dim("n")},))
        texts = [str(each.message) for each in caught if each.category is TraceWarning]
        assert texts
        assert len(texts) == len(set(texts))


def test_a_declared_multiple_is_not_warned_of(tmp_path: pathlib.Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", TraceWarning)
        pairs = ({0: 2 * Dim("pieces")},)
        program = opbridge.export(
            lambda x: x.reshape(-1, 2).sum(1), (torch.rand(6),), tmp_path / "m.onnx", dynamic_shapes=pairs
        )
    assert program.model_proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "2*pieces"
    assert program.model_proto.graph.output[0].type.tensor_type.shape.dim[0].dim_param == "pieces"


@CAPTURES
def test_the_line_of_torchs_own_errors_is_told(capture: Any, tmp_path: pathlib.Path) -> None:
    def chosen(x: torch.Tensor) -> torch.Tensor:
        return x * x.shape[0].to_bytes(2, "big")[1]

    with pytest.raises(opbridge.UnsupportedError, match="has no attribute 'to_bytes'") as refusal:
        opbridge.export(chosen, (torch.rand(5),), tmp_path / "m.onnx", dynamic_shapes=({0: "n"},), capture=capture)
    assert "in chosen: return x * x.shape[0].to_bytes(" in refusal.value.where
