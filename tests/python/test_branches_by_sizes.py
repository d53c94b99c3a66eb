"""A model that branches by its dynamic sizes is exported with all its ways."""

from __future__ import annotations

import math
import pathlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import onnx
import pytest
import torch
from dynamic_check import CAPTURES
from torch import nn
from torch.export import Dim
from torch.nn import functional as F

import opbridge
from checking.models import export_and_verify
from opbridge import TraceWarning
from opbridge.runtime import run, session

Function = Callable[..., Any]
ROWS = (1, 2, 3, 4, 7, 8, 9)


def check(
    model: Any, folder: pathlib.Path, capture: Any, example: int, rows: tuple[int, ...] = ROWS, dim: Any = "n"
) -> pathlib.Path:
    """Exports with ``example`` rows, without a warning, and compares for each number of rows."""
    path = folder / "model.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("error", TraceWarning)
        export_and_verify(model, path, [torch.randn(n, 4) for n in (example, *rows)], {0: dim}, capture)
    return path


def pads(x: torch.Tensor) -> torch.Tensor:
    if x.shape[0] % 4 != 0:
        x = F.pad(x, (0, 0, 0, 4 - x.shape[0] % 4))
    return x.reshape(x.shape[0] // 4, 4, 4).sum(1)


def returns_early(x: torch.Tensor) -> Any:
    if x.shape[0] < 4:
        return x, x.sum(0)
    x = x * 2
    return x[::2], x[0]


def asks_twice(x: torch.Tensor) -> torch.Tensor:
    for _ in range(2):
        if x.shape[0] % 2:
            x = torch.cat([x, x[-1:]])
        x = x.reshape(-1, 2, 4).sum(1)
    return x


def asks_both(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if x.shape[0] > 3 and x.shape[0] % 2 == 0 else x - 1


def asks_for_one(x: torch.Tensor) -> torch.Tensor:
    return x.squeeze(0) * 2 if x.shape[0] == 1 else x[0] + x.sum(0)


def asks_for_three(x: torch.Tensor) -> torch.Tensor:
    return x.reshape(4, 3).t() if x.shape[0] == 3 else x - 1


def attends(x: torch.Tensor) -> torch.Tensor:
    mask = None
    if x.shape[0] > 1:
        mask = torch.full((x.shape[0], x.shape[0]), float("-inf")).triu(1)
    return F.scaled_dot_product_attention(x[None], x[None], x[None], attn_mask=mask)


def asks_for_multiples(x: torch.Tensor) -> torch.Tensor:
    if x.shape[0] % 4 == 0:
        return x * 2 if x.shape[0] % 2 == 0 else x * 3  # never
    return x - 1


def asks_for_many(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if 3 * x.shape[0] > 1000 else x - 1


def catches(x: torch.Tensor) -> torch.Tensor:
    try:
        if x.shape[0] > 3:
            raise ValueError
    except ValueError:
        return x
    return x * 2


def asks_for_bits(x: torch.Tensor) -> torch.Tensor:
    n = x.shape[0]
    if n & (n - 1) == 0:
        return x * 2
    padded = torch.cat([x, x.new_zeros(2 ** math.ceil(math.log2(n)) - n, *x.shape[1:])])
    return padded if n & 1 else padded * 3


MODELS: list[Function] = [
    pads,
    returns_early,
    asks_both,
    asks_for_bits,
    asks_for_multiples,
    asks_for_one,
    asks_for_three,
    attends,
    catches,
]


@CAPTURES
@pytest.mark.parametrize("example", [2, 8, 9])
@pytest.mark.parametrize("model", MODELS)
def test_all_ways(model: Function, example: int, capture: Any, tmp_path: pathlib.Path) -> None:
    check(model, tmp_path, capture, example)


@CAPTURES
@pytest.mark.parametrize("model", [pads, returns_early, asks_both, asks_for_one, attends])
def test_all_ways_by_an_example_of_one_row(model: Function, capture: Any, tmp_path: pathlib.Path) -> None:
    check(model, tmp_path, capture, 1)


@CAPTURES
@pytest.mark.parametrize("window", ["hann", "bartlett", "kaiser", "gaussian"])
def test_windows_of_torch_signal(window: str, capture: Any, tmp_path: pathlib.Path) -> None:
    """A window of one element is a case of its own there."""
    make = getattr(torch.signal.windows, window)
    check(lambda x: make(x.shape[0])[:, None] * x, tmp_path, capture, 4)


@CAPTURES
@pytest.mark.parametrize("dim", ["n", Dim("n", max=3), Dim("n", min=3)], ids=str)
def test_an_example_of_the_size_that_a_branch_asks_for(dim: Any, capture: Any, tmp_path: pathlib.Path) -> None:
    """As in Swin transformers, which have a mask for the size of their configuration."""
    rows = (1, 2) if getattr(dim, "max", None) == 3 else (4, 8)
    check(asks_for_three, tmp_path, capture, 3, rows, dim)


@CAPTURES
def test_a_branch_by_a_size_far_from_the_example(capture: Any, tmp_path: pathlib.Path) -> None:
    check(asks_for_many, tmp_path, capture, 8, (333, 334))


@CAPTURES
def test_branches_behind_a_branch(capture: Any, tmp_path: pathlib.Path) -> None:
    check(asks_twice, tmp_path, capture, 6, (3, 4, 5, 6, 7, 8, 9, 13))


@CAPTURES
def test_a_remainder_of_what_an_operator_requires_to_be_positive(capture: Any, tmp_path: pathlib.Path) -> None:
    """Without windows of 3 rows there is no result, so torch takes ``n - 3`` for a number that is not negative."""

    def model(x: torch.Tensor) -> torch.Tensor:
        windows = x.unfold(0, 3, 2)
        return windows * 2 if (x.shape[0] - 3) % 2 else windows + 1

    check(model, tmp_path, capture, 7, (3, 4, 5, 8))


@CAPTURES
@pytest.mark.parametrize("example", [(2, 4), (4, 2), (3, 5)])
def test_the_other_way_has_the_size_of_another_axis(
    example: tuple[int, int], capture: Any, tmp_path: pathlib.Path
) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        size = torch.arange(x.shape[1])
        return size if x.shape[1] > 2 else size * 2 + x.shape[0]

    inputs = [torch.rand(*sizes) for sizes in (example, (2, 2), (2, 1), (3, 2), (1, 2), (1, 1), (5, 3), (3, 3))]
    export_and_verify(model, tmp_path / "model.onnx", inputs, {0: "n", 1: "m"}, capture)


@CAPTURES
def test_branches_by_two_axes(capture: Any, tmp_path: pathlib.Path) -> None:
    class Embedding(nn.Module):
        """Pads as the patch embeddings of Swin and MobileViT do."""

        def __init__(self) -> None:
            super().__init__()
            self.projection = nn.Conv2d(3, 4, 4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            height, width = x.shape[-2:]
            if width % 4 != 0:
                x = F.pad(x, (0, 4 - width % 4))
            if height % 4 != 0:
                x = F.pad(x, (0, 0, 0, 4 - height % 4))
            return self.projection(x)

    path = tmp_path / "model.onnx"
    images = [torch.randn(2, 3, *size) for size in ((8, 8), (8, 9), (9, 8), (13, 14), (4, 4))]
    export_and_verify(Embedding(), path, images, {2: "height", 3: "width"}, capture)
    weights = [weight.name for weight in onnx.load(path).graph.initializer]
    assert len([name for name in weights if name.startswith("projection")]) == 2, "one copy for all ways"


@CAPTURES
def test_conditions_of_one_test_are_one_branch(capture: Any, tmp_path: pathlib.Path) -> None:
    """Each stage of MobileViT scales its images to even sizes."""

    def model(x: torch.Tensor) -> torch.Tensor:
        for _ in range(3):
            height, width = x.shape[-2:]
            new_height, new_width = 2 * ((height + 1) // 2), 2 * ((width + 1) // 2)
            is_scaled = False
            if new_height != height or new_width != width:
                x, is_scaled = F.interpolate(x, (new_height, new_width), mode="bilinear"), True
            x = x.reshape(1, new_height // 2, 2, new_width // 2, 2).mean((2, 4))[None]
            if is_scaled:
                x = x + 1
        return x

    path = tmp_path / "model.onnx"
    images = [torch.randn(1, 1, *size) for size in ((24, 16), (23, 16), (24, 9), (18, 20), (1, 1), (7, 12))]
    with warnings.catch_warnings():
        warnings.simplefilter("error", TraceWarning)
        export_and_verify(model, path, images, {2: "height", 3: "width"}, capture)
    nodes = [node for each in onnx.load(path).graph.node for node in flattened(each) if node.op_type == "If"]
    assert len(nodes) == 7


def flattened(node: onnx.NodeProto) -> Iterator[onnx.NodeProto]:
    yield node
    for attribute in node.attribute:
        for inner in attribute.g.node:
            yield from flattened(inner)


@CAPTURES
@pytest.mark.parametrize(
    "model",
    [
        lambda x: x * 2 if not (x.shape[0] > 3 and (x.shape[0] % 2 == 0 or x.shape[0] == 7)) else x * 3,
        lambda x: x * 2 if x is not None and x.shape[0] % 2 and not x.shape[0] < 4 else x * 3,
        lambda x: x * 2 if x.shape[0] > 7 or x.shape[0] % 4 or x.shape[0] > 7 else x * 3,
        lambda x: x * 2 if x.shape[0] == 1 or x.shape[0] == 4 or x.requires_grad else x * 3,
    ],
)
def test_tests_of_several_conditions(model: Function, capture: Any, tmp_path: pathlib.Path) -> None:
    for example in (2, 8):
        nodes = onnx.load(check(model, tmp_path, capture, example)).graph.node
        assert [node.op_type for each in nodes for node in flattened(each)].count("If") == 1


@CAPTURES
def test_a_test_that_makes_a_size_constant(capture: Any, tmp_path: pathlib.Path) -> None:
    def model(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x * y.sum() if x.shape[0] == 4 and y.shape[0] > 3 else x - y.sum()

    sizes, path = ((5, 7), (4, 4), (4, 3), (1, 1), (1, 5), (6, 6)), tmp_path / "m.onnx"
    for example in sizes[:3]:
        args = tuple(torch.randn(size, 4) for size in example)
        opbridge.export(model, args, path, dynamic_shapes=({0: "n"}, {0: "m"}), capture=capture)
        for each in sizes:
            assert opbridge.verify(path, model, tuple(torch.randn(size, 4) for size in each)).ok


@CAPTURES
@pytest.mark.parametrize(
    "model",
    [
        lambda x: x * 2 if x.shape[0] != 1 and x.shape[1] > 4 else x * 3,
        lambda x: x * 2 if x.shape[0] > 3 or x.shape[1] == 4 or x.shape[0] % 2 else x * 3,
        lambda x: x * 2 if not (x.shape[0] != 1 and x.shape[1] != 4) and x.shape[1] else x * 3,
    ],
)
def test_conditions_that_decide_nothing_are_no_branches(model: Function, capture: Any, tmp_path: pathlib.Path) -> None:
    """As in torchao, which compares the sizes of blocks before it asks whether they are 1."""
    for example in (1, 8):
        assert [node.op_type for node in onnx.load(check(model, tmp_path, capture, example)).graph.node] == ["Mul"]


@CAPTURES
def test_a_condition_asked_beside_a_test_that_it_does_not_decide(capture: Any, tmp_path: pathlib.Path) -> None:
    check(lambda x: x * 2 if x.shape[0] > 3 and x.shape[1] > 4 else x * bool(x.shape[0] > 3), tmp_path, capture, 8)
    check(
        lambda x: x * 2 if x.shape[0] > 3 and x.shape[1] > 4 else x * (5 - bool(x.shape[0] % 4)), tmp_path, capture, 8
    )


@CAPTURES
def test_a_condition_that_guards_the_next_one(capture: Any, tmp_path: pathlib.Path) -> None:
    check(lambda x: x * 2 if x.shape[0] > 1 and 8 // (x.shape[0] - 1) > 2 else x * 3, tmp_path, capture, 8)


def test_a_condition_that_is_asked_again_is_no_branch(tmp_path: pathlib.Path) -> None:
    def model(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        for i in range(6):
            if min(x.shape[0], y.shape[0]) <= 4:
                x = x + i
        return x

    path = tmp_path / "model.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("error", TraceWarning)
        opbridge.export(model, (torch.randn(8), torch.randn(7)), path, dynamic_shapes=({0: "n"}, {0: "m"}))
    for sizes in ((3, 9), (9, 3), (5, 5), (4, 8)):
        assert opbridge.verify(path, model, tuple(map(torch.randn, sizes))).ok


@CAPTURES
@pytest.mark.parametrize("dim", [Dim("n"), Dim("n", min=1, max=64), Dim.DYNAMIC, Dim.AUTO], ids=str)
def test_forms_of_dims(dim: Any, capture: Any, tmp_path: pathlib.Path) -> None:
    check(pads, tmp_path, capture, 8, (4, 5, 64), dim)


@CAPTURES
def test_the_range_of_a_dim_decides(capture: Any, tmp_path: pathlib.Path) -> None:
    path = check(catches, tmp_path, capture, 3, (1, 2), Dim("n", max=3))
    assert "If" not in {node.op_type for node in onnx.load(path).graph.node}


@CAPTURES
@pytest.mark.parametrize("options", [{"opset_version": 11}, {"target": "onnx"}, {"simplify": False}], ids=str)
def test_options(options: dict[str, Any], capture: Any, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "model.onnx"
    opbridge.export(
        pads, (torch.randn(8, 4),), path, capture=capture, dynamic_shapes=({0: "n"},), output_names=["sums"], **options
    )
    for rows in ROWS:
        x = torch.randn(rows, 4)
        torch.testing.assert_close(run(session(path), {"x": x})[0], pads(x))
    assert [output.name for output in onnx.load(path).graph.output] == ["sums"]


class Either(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.few, self.many = nn.Linear(4, 2), nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.many(x) if x.shape[0] > 3 else self.few(x)


@CAPTURES
def test_parameters_as_inputs(capture: Any, tmp_path: pathlib.Path) -> None:
    model, path = Either(), tmp_path / "model.onnx"
    options: dict[str, Any] = {"capture": capture, "dynamic_shapes": ({0: "n"},)}
    opbridge.export(model, (torch.randn(8, 4),), path, export_params=False, **options)
    loaded = session(path)
    names = [each.name for each in loaded.get_inputs()]
    assert names == ["x", *model.state_dict()]
    for rows in ROWS:
        x = torch.randn(rows, 4)
        torch.testing.assert_close(run(loaded, {"x": x, **model.state_dict()})[0], model(x))
    opbridge.export(model, (torch.randn(8, 4),), path, keep_initializers_as_inputs=True, **options)
    assert [each.name for each in onnx.load(path).graph.input] == names
    torch.testing.assert_close(run(session(path), {"x": x})[0], model(x))


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, factor: int) -> torch.Tensor:
        return x * factor

    @staticmethod
    def symbolic(g: Any, x: Any, factor: int) -> Any:
        return g.op("Mul", x, g.op("Constant", value_t=torch.tensor(float(factor))))


@CAPTURES
def test_calls_of_functions_with_symbolic(capture: Any, tmp_path: pathlib.Path) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        x = Doubled.apply(x, 2)
        return Doubled.apply(x, 3) if x.shape[0] > 3 else Doubled.apply(Doubled.apply(x, 5), 7)

    check(model, tmp_path, capture, 2)
    check(model, tmp_path, capture, 8)


def returns_other_ranks(x: torch.Tensor) -> torch.Tensor:
    return x.sum() if x.shape[0] > 3 else x


def asks_for_data(x: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(x.numpy()) if x.shape[0] > 3 else x * 2


def fixes_rows(x: torch.Tensor) -> torch.Tensor:
    return x.reshape(4, 4).sum(0) if x.shape[0] > 3 else x.sum(0)


@CAPTURES
@pytest.mark.parametrize("dim", ["n", Dim.AUTO], ids=str)
@pytest.mark.parametrize("model", [returns_other_ranks, asks_for_data, fixes_rows])
def test_a_way_that_cannot_be_captured_is_told(model: Function, dim: Any, capture: Any, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "model.onnx"
    with pytest.warns(TraceWarning, match=r"a branch by a dynamic size: whether '\w+ > 3' was read as False"):
        opbridge.export(model, (torch.randn(2, 4),), path, capture=capture, dynamic_shapes=({0: dim},))
    x = torch.randn(3, 4)
    torch.testing.assert_close(run(session(path), {"x": x})[0], model(x))


@CAPTURES
def test_too_many_branches_are_told(capture: Any, tmp_path: pathlib.Path) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        for i in (3, 5, 7, 11, 13):
            if x.shape[0] % i <= i // 2:
                x = x + i
        return x

    path = tmp_path / "model.onnx"
    with pytest.warns(TraceWarning, match="a branch by a dynamic size") as told:
        opbridge.export(model, (torch.randn(2, 4),), path, capture=capture, dynamic_shapes=({0: "n"},))
    assert len({str(warning.message) for warning in told}) == 5
    x = torch.randn(2, 4)
    torch.testing.assert_close(run(session(path), {"x": x})[0], model(x))


class Counting(nn.Module):
    counts: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("counts", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] > 3:
            self.counts += 1
        return x + self.counts


@CAPTURES
def test_ways_that_write_to_different_inputs_are_refused(capture: Any, tmp_path: pathlib.Path) -> None:
    def model(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        (x if x.shape[0] > 3 else y).add_(1)
        return x[:1] + y[:1]

    options: dict[str, Any] = {"dynamic_shapes": ({0: "n"}, {0: "m"}), "mutations_as_outputs": True}
    args = (torch.randn(2, 4), torch.randn(2, 4))
    with pytest.raises(opbridge.UnsupportedError, match=r"changes other inputs or buffers .* x_out or y_out"):
        opbridge.export(model, args, tmp_path / "model.onnx", capture=capture, **options)


@CAPTURES
@pytest.mark.parametrize(
    ("mutations", "message"), [(False, "writes to the buffer"), (True, "returns or changes . or . tensors")]
)
def test_a_buffer_that_one_way_changes_is_refused(
    mutations: bool, message: str, capture: Any, tmp_path: pathlib.Path
) -> None:
    options: dict[str, Any] = {"dynamic_shapes": ({0: "n"},), "mutations_as_outputs": mutations, "capture": capture}
    model = Counting()
    with pytest.raises(opbridge.UnsupportedError, match=message):
        opbridge.export(model, (torch.randn(2, 4),), tmp_path / "model.onnx", **options)
    assert model.counts.tolist() == [0, 0, 0, 0]


def product_of_same(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    if x.shape == y.shape:
        return x * y
    return x.sum(0, keepdim=True) * 3 + y.sum(0, keepdim=True)


def made_same(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    if x.shape[0] != y.shape[0]:
        y = F.interpolate(y.t()[None], x.shape[0])[0].t()
    return x - y


def same_after_a_branch(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    if y.shape[0] % 2:
        y = y * 5
    return x * y if x.shape[1:] == y.shape[1:] and x.shape[0] == y.shape[0] else x.sum(0) - y.sum(0)[None]


def same_before_a_branch(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    for _ in range(2):
        if x.shape[0] == y.shape[0]:
            y = y * 2
            x = x * y if y.shape[0] > 4 else x - y
        else:
            x = x + y.sum(0)
    return x


def large_and_same(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x * y if x.shape[0] > 3 and x.shape[0] == y.shape[0] else x - y.sum(0)


def asks_torch(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x * y if x.is_same_size(y) else x - y.sum(0)


def as_many_elements(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x * y if x.numel() == y.numel() else x - y.sum(0)


def longest(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return max(y, x, key=len) * 2


def shortest(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return min(((each.shape[0], i) for i, each in enumerate((x, y))))[1] * x


PAIRS = ((5, 5), (5, 7), (1, 1), (1, 3), (3, 1), (6, 6), (9, 2), (6, 5), (4, 8))


@CAPTURES
@pytest.mark.parametrize("example", PAIRS[:4], ids=str)
@pytest.mark.parametrize(
    "model",
    [
        product_of_same,
        made_same,
        same_after_a_branch,
        same_before_a_branch,
        large_and_same,
        asks_torch,
        as_many_elements,
        longest,
        shortest,
    ],
)
def test_sizes_that_may_be_equal(
    model: Function, example: tuple[int, int], capture: Any, tmp_path: pathlib.Path
) -> None:
    path = tmp_path / "m.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        args = tuple(torch.randn(size, 4) for size in example)
        opbridge.export(model, args, path, dynamic_shapes=({0: "n"}, {0: "m"}), capture=capture)
    for sizes in PAIRS:
        assert opbridge.verify(path, model, tuple(torch.randn(size, 4) for size in sizes)).ok


@CAPTURES
@pytest.mark.parametrize("dims", [(Dim("h", max=64), Dim("w", min=1, max=64)), ("h", "w"), (Dim.DYNAMIC, Dim.DYNAMIC)])
def test_images_that_may_be_squares(dims: Any, capture: Any, tmp_path: pathlib.Path) -> None:
    def squared(x: torch.Tensor) -> torch.Tensor:
        height, width = x.shape
        if height != width:
            length = max(height, width)
            x = F.pad(x, (0, length - width, 0, length - height))
        return x + x.t()

    path = tmp_path / "m.onnx"
    for example in PAIRS[:3]:
        with warnings.catch_warnings():
            warnings.simplefilter("error", TraceWarning)
            opbridge.export(
                squared, (torch.randn(example),), path, dynamic_shapes=(dict(enumerate(dims)),), capture=capture
            )
        for sizes in PAIRS:
            assert opbridge.verify(path, squared, (torch.randn(sizes),)).ok


def divides_by_a_difference(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if 12 % (x.shape[0] - 4) == 0 else x + 1


def exceeds_a_quotient(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if 12 // (x.shape[0] - 4) > 2 else x + 1


def exceeds_a_float(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if x.shape[0] / (x.shape[1] - 4) > 1.5 else x + 1


@CAPTURES
@pytest.mark.parametrize("model", [divides_by_a_difference, exceeds_a_quotient, exceeds_a_float])
def test_divisors_that_are_zero_for_some_size(model: Function, capture: Any, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "m.onnx"
    opbridge.export(model, (torch.randn(6, 5),), path, dynamic_shapes=({0: "n", 1: "m"},), capture=capture)
    for rows in (1, 2, 3, 5, 6, 7, 9):
        for columns in (2, 3, 9):
            assert opbridge.verify(path, model, (torch.randn(rows, columns),)).ok
