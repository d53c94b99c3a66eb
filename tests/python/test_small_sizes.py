"""Dynamic sizes that are 0 or 1, in the example or later. torch treats these sizes as special cases."""

from __future__ import annotations

import pathlib
from typing import Any

import onnx
import pytest
import torch
import torch.nn.functional as F
from dynamic_check import CAPTURES, agrees
from torch import nn
from torch.export import Dim

import opbridge
from opbridge import TraceWarning
from opbridge.runtime import run, session

ATTENTION = nn.MultiheadAttention(4, 2, batch_first=True).eval()


@pytest.mark.parametrize("size", [1, 2, 5])
def test_a_size_of_1_in_the_example_stays_symbolic_in_vmap(size: int, tmp_path: pathlib.Path) -> None:
    def halves(x: torch.Tensor) -> torch.Tensor:
        return torch.vmap(lambda row: row * 2 + row.sum())(
            x.split([x.shape[1] // 2, x.shape[1] - x.shape[1] // 2], 1)[0]
        )

    path = tmp_path / "model.onnx"
    opbridge.export(halves, (torch.rand(2, size),), path, dynamic_shapes=({1: "n"},), capture="export")
    assert onnx.load(path).graph.output[0].type.tensor_type.shape.dim[1].dim_param == "n//2"
    for other in (1, 2, 3, 6):
        opbridge.verify(path, halves, (torch.rand(2, other),))


def test_squeeze_beside_vmap_is_told(tmp_path: pathlib.Path) -> None:
    def model(x: torch.Tensor) -> Any:
        return torch.vmap(lambda row: row + row.sum())(x), x.squeeze()

    with pytest.warns(TraceWarning, match=r"squeeze\(\) keeps the axis"):
        opbridge.export(model, (torch.rand(3, 2),), tmp_path / "m.onnx", dynamic_shapes=({0: Dim.DYNAMIC},))


def test_a_write_beside_vmap_to_what_may_be_a_copy(tmp_path: pathlib.Path) -> None:
    """A column of size 1 is contiguous when it is transposed, and any other is copied."""

    def model(x: torch.Tensor, dims: tuple[int, int]) -> Any:
        y = x.permute(dims).contiguous()
        y[0] = -1
        return torch.vmap(lambda row: row + row.sum())(x), y

    path, shapes = tmp_path / "m.onnx", ({1: "n"},)
    with pytest.raises(opbridge.UnsupportedError, match=r"may write to the input .*depending on strides"):
        opbridge.export(lambda x: model(x, (1, 0)), (torch.rand(2, 1),), path, dynamic_shapes=shapes)

    def twice(x: torch.Tensor) -> Any:
        return model(x * 2, (0, 1))

    agrees(twice, [[(2, 1)], [(2, 3)], [(2, 5)]], shapes, "export", tmp_path)


def _write_to_copy(x: torch.Tensor, y: torch.Tensor) -> None:
    y[0] = -1


def _write_to_original(x: torch.Tensor, y: torch.Tensor) -> None:
    x.add_(1)


def _write_in_autocast(x: torch.Tensor, y: torch.Tensor) -> None:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y += (x @ x.t()).sum()


@pytest.mark.parametrize("write", [_write_to_copy, _write_to_original, _write_in_autocast])
def test_a_write_beside_autocast_to_what_may_be_a_copy(write: Any, tmp_path: pathlib.Path) -> None:
    def model(x: torch.Tensor) -> Any:
        x = x * 2
        y = x.permute(1, 0).contiguous()
        write(x, y)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            product = x @ y
        return x, y, product.float()

    with pytest.raises(opbridge.UnsupportedError, match=r"shares for some sizes alone; call .clone\(\)"):
        opbridge.export(model, (torch.rand(3, 1),), tmp_path / "m.onnx", dynamic_shapes=({0: "n", 1: "m"},))


def test_a_write_to_what_may_be_a_copy_is_exact_if_the_original_is_not_read(tmp_path: pathlib.Path) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = (x * 2).permute(1, 0).contiguous()
            y += y.size(0)
            return (y @ y.t()).float()

    agrees(model, [[(3, 1)], [(3, 4)], [(1, 1)], [(2, 2)]], ({0: "n", 1: "m"},), "export", tmp_path)


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize("squeeze", [lambda x: x[:, None].squeeze(), lambda x: torch.squeeze(x[:, None])])
def test_axes_that_may_be_squeezed_are_told(tmp_path: pathlib.Path, capture: Any, squeeze: Any) -> None:
    with pytest.warns(TraceWarning, match="squeeze.. keeps the axis"):
        opbridge.export(squeeze, (torch.rand(4),), tmp_path / "m.onnx", dynamic_shapes=({0: "n"},), capture=capture)
    assert "squeeze" not in vars(torch.Tensor)


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, factor: float) -> torch.Tensor:
        return x * factor

    @staticmethod
    def symbolic(g: Any, x: Any, factor: float) -> Any:
        return g.op("Mul", x, g.op("Constant", value_t=torch.tensor(factor)))


def test_sizes_that_torch_export_takes_for_at_least_2_are_told(tmp_path: pathlib.Path) -> None:
    """It captures the function only so: the shapes of its results cannot be found for all sizes."""

    def model(x: torch.Tensor) -> torch.Tensor:
        y = Scaled.apply(torch.einsum("i,j->ij", x.flatten()[:3], x.flatten()[:2]), -1.5)
        return torch.eye(y.shape[-1]).squeeze((0, -1))

    with pytest.warns(TraceWarning, match="whether a dynamic size is 1, which torch.export takes as False"):
        opbridge.export(
            model,
            (torch.rand(3, 5, 4),),
            tmp_path / "m.onnx",
            capture="export",
            dynamic_shapes=({0: "a", 1: "b", 2: "c"},),
        )


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize("change", [lambda x: x.transpose_(-2, -3), lambda x: x.squeeze_(1)])
def test_an_input_of_dynamic_sizes_that_changes_its_shape_is_refused(
    tmp_path: pathlib.Path, capture: Any, change: Any
) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        change(x)
        return y

    with pytest.raises(opbridge.UnsupportedError, match="changes the shape of the input"):
        opbridge.export(
            model,
            (torch.rand(1, 2, 2),),
            tmp_path / "m.onnx",
            capture=capture,
            dynamic_shapes=({0: "n1", 1: "n2", 2: "n2"},),
        )


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_a_size_that_comes_to_1_in_the_example_is_not_squeezed(tmp_path: pathlib.Path, capture: Any) -> None:
    with pytest.raises(opbridge.UnsupportedError, match=r"squeeze.. keeps the axis"):
        opbridge.export(
            lambda x: x[len(x) // 2 :].squeeze(),
            (torch.rand(2),),
            tmp_path / "m.onnx",
            dynamic_shapes=({0: "n"},),
            capture=capture,
        )


@CAPTURES
@pytest.mark.parametrize(
    "layer",
    [
        lambda x: x[..., ::2].contiguous() + 1,
        lambda x: ATTENTION(*[F.conv1d(x, torch.ones(4, 4, 3), None, 2, 1).transpose(1, 2)] * 3)[0].transpose(1, 2),
    ],
    ids=["contiguous", "attention"],
)
def test_a_size_that_comes_to_1_in_the_example_broadcasts(layer: Any, capture: Any, tmp_path: pathlib.Path) -> None:
    """Before the broadcast, torch finds the layout of the tensor and compares the size with 1."""

    def model(x: torch.Tensor) -> torch.Tensor:
        y = layer(x)
        y = y * y.sum(1, keepdim=True)
        return y * y.shape[-1]

    agrees(model, [[(2, 4, 2)], [(3, 4, 5)], [(1, 4, 8)]], ({0: "b", 2: "n"},), capture, tmp_path)


@CAPTURES
@pytest.mark.parametrize("index", [slice(None), [2, 1, 0], (torch.tensor([2, 0]), slice(None), slice(1, None))])
def test_an_axis_that_is_1_in_the_example_is_assigned(index: Any, capture: Any, tmp_path: pathlib.Path) -> None:
    """torch drops leading axes of size 1 from what is assigned."""

    def model(x: torch.Tensor) -> torch.Tensor:
        y = x[:, 2:] * 2
        sums = y.sum(0, keepdim=True)
        y[index] = sums[..., 1:] if isinstance(index, tuple) else sums
        return y

    agrees(model, [[(3, 3, 3)], [(3, 2, 3)], [(3, 4, 3)], [(3, 7, 3)]], ({1: Dim.DYNAMIC},), capture, tmp_path)


@CAPTURES
def test_strides_that_come_to_a_number_in_the_example(capture: Any, tmp_path: pathlib.Path) -> None:
    """Those of a single patch, in the last stage of the network."""
    from transformers import MobileViTV2Config, MobileViTV2Model

    torch.manual_seed(0)
    config = MobileViTV2Config(width_multiplier=0.25, base_attn_unit_dims=[32, 32, 32], n_attn_blocks=[1, 1, 1])
    network = MobileViTV2Model(config).eval()

    def model(x: torch.Tensor) -> Any:
        return network(x).last_hidden_state

    agrees(model, [[(1, 3, 64, 64)], [(2, 3, 128, 160)]], ({0: "b", 2: "h", 3: "w"},), capture, tmp_path)


@CAPTURES
def test_what_is_left_of_an_axis_may_be_nothing(capture: Any, tmp_path: pathlib.Path) -> None:
    def tails(x: torch.Tensor) -> torch.Tensor:
        tail = x[2:]
        return torch.cat([tail.mean(0), (tail > 0.5).any(0), (tail @ x[0]), tail.cumsum(0).reshape(-1)])

    agrees(tails, [[(5, 3)], [(3, 3)], [(2, 3)], [(6, 3)]], {"x": {0: Dim("n", min=2)}}, capture, tmp_path)


LSTM = nn.LSTM(3, 3)


@CAPTURES
@pytest.mark.parametrize(
    "part", [lambda x: x[:, 2:], lambda x: F.pad(x, (0, 0, -1, -1)), lambda x: x.tensor_split(3, 1)[-1]]
)
@pytest.mark.parametrize(
    "layer", [lambda x: LSTM(x)[0], lambda x: F.layer_norm(x.mT, x.shape[1:2]), lambda x: F.instance_norm(x.mT)]
)
def test_layers_of_what_may_be_nothing(layer: Any, part: Any, capture: Any, tmp_path: pathlib.Path) -> None:
    agrees(lambda x: layer(part(x)), [[(3, 6, 3)], [(3, 2, 3)], [(3, 7, 3)]], ({1: "n"},), capture, tmp_path)


@CAPTURES
def test_what_may_be_nothing_is_rolled(capture: Any, tmp_path: pathlib.Path) -> None:
    agrees(lambda x: x[: x.shape[0] // 2].roll(2, 0), [[(6, 3)], [(1, 3)], [(5, 3)]], ({0: "n"},), capture, tmp_path)


@CAPTURES
def test_an_example_of_size_0_says_that_an_axis_may_be_empty(capture: Any, tmp_path: pathlib.Path) -> None:
    def unfold(x: torch.Tensor) -> torch.Tensor:
        return F.unfold(x, [2, 2])

    sizes = [[(0, 1, 3, 3)], [(2, 1, 3, 3)], [(0, 4, 3, 3)], [(1, 2, 3, 3)]]
    agrees(unfold, sizes, {"x": {0: Dim("n", min=0), 1: Dim("channels")}}, capture, tmp_path)


def mask(*sizes: int) -> torch.Tensor:
    return torch.arange(torch.Size(sizes).numel()).reshape(sizes) % 3 != 1


@CAPTURES
def test_a_mask_may_be_of_size_one(capture: Any, tmp_path: pathlib.Path) -> None:
    def selected(x: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
        return torch.masked_select(x, chosen)

    path = tmp_path / "model.onnx"
    for first, second in ((2, 1), (1, 2)):
        # One of the two has a constant size, then both are dynamic.
        for dynamic in ({"x": None, "chosen": {0: Dim.DYNAMIC}}, {"x": {0: Dim.DYNAMIC}, "chosen": {0: Dim.DYNAMIC}}):
            args = torch.rand(2, 3), mask(2, 3)
            opbridge.export(selected, args, path, dynamic_shapes=dynamic, capture=capture)
            x = torch.rand(first if dynamic["x"] else 2, 3)
            for rows in (second, 2 if x.shape[0] == 2 else 1):
                opbridge.verify(path, selected, (x, mask(rows, 3)))


def test_indices_may_be_of_size_one(tmp_path: pathlib.Path) -> None:
    add = torch.ops.aten._unsafe_masked_index_put_accumulate.default

    def added(x: torch.Tensor, mask: torch.Tensor, i: torch.Tensor, j: torch.Tensor) -> torch.Tensor:
        return add(x, mask, [i, j], torch.ones(()).expand(mask.shape))

    path = tmp_path / "model.onnx"
    dynamic = {"x": None, "mask": {0: "n", 1: "m"}, "i": {0: "a", 1: "b"}, "j": {0: "c", 1: "d"}}
    for exported in ((2, 2, 2, 2), (1, 1, 1, 1)):
        for a, b, c, d in (exported, (3, 1, 1, 2), (1, 2, 3, 1), (1, 1, 3, 2), (3, 2, 3, 2)):
            n, m = max(a, c), max(b, d)
            args = torch.rand(4, 5), mask(n, m), torch.randint(4, (a, b)), torch.randint(5, (c, d))
            if (a, b, c, d) == exported:
                opbridge.export(added, args, path, dynamic_shapes=dynamic, capture="trace")
            opbridge.verify(path, added, args)


@pytest.mark.parametrize(
    "function",
    [
        torch.var_mean,
        lambda x: torch.std_mean(x, 0),
        lambda x: torch.var_mean(x, 0, correction=0),
        lambda x: x.mean(0),
        lambda x: F.layer_norm(x.T, (x.size(0),)),
        lambda x: torch.trapezoid(x, dim=0),
        lambda x: torch.unique_consecutive(x, return_inverse=True, return_counts=True),
        lambda x: torch.unique_consecutive(x, return_inverse=True, return_counts=True, dim=0),
        pytest.param(
            lambda x: torch.histogramdd(x, [2, 3])[0],
            marks=pytest.mark.skipif(
                torch.__version__ < (2, 15), reason="PyTorch knows no sizes of the result before 2.15"
            ),
        ),
    ],
)
def test_an_example_may_have_no_elements(function: Any, tmp_path: pathlib.Path) -> None:
    def model(x: torch.Tensor) -> Any:
        return function(x)

    path = tmp_path / "model.onnx"
    opbridge.export(model, (torch.zeros(0, 2),), path, dynamic_shapes={"x": {0: "n"}}, capture="trace")
    for rows in (0, 1, 3):
        opbridge.verify(path, model, (torch.rand(rows, 2),))


def test_matrices_without_elements_may_be_the_example(tmp_path: pathlib.Path) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.cholesky(x, upper=True)

    path = tmp_path / "model.onnx"
    sizes = ({1: "m", 2: "n", 3: "n"},)
    opbridge.export(model, (torch.ones(5, 5, 0, 0),), path, capture="trace", dynamic_shapes=sizes)
    for batch, rows in ((5, 0), (2, 3), (1, 1)):
        opbridge.verify(path, model, (torch.eye(rows).expand(5, batch, rows, rows) * 4,))


@pytest.mark.parametrize("capture", ["trace", "export"])
def test_a_size_that_torch_takes_for_1_and_that_is_0_is_refused(capture: Any, tmp_path: pathlib.Path) -> None:
    class Values(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.linalg.svdvals(x)

    args = (torch.ones(0, 1),)
    with pytest.raises(opbridge.UnsupportedError, match="assumes that no size is 0"):
        opbridge.export(Values(), args, tmp_path / "model.onnx", capture=capture, dynamic_shapes=({0: "n"},))


def test_squeeze_beside_a_branch_is_told(tmp_path: pathlib.Path) -> None:
    def model(x: torch.Tensor) -> Any:
        y = x.squeeze()
        return torch.cond(y.sum() > 0, lambda y: y + 1, lambda y: y * 2, (y,))

    with pytest.warns(TraceWarning, match=r"squeeze\(\) keeps the axis of the dynamic size"):
        opbridge.export(model, (torch.rand(3, 2),), tmp_path / "m.onnx", dynamic_shapes=({1: Dim.DYNAMIC},))


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_a_copy_between_slices_says_nothing_of_sizes(capture: str, tmp_path: pathlib.Path) -> None:
    def copied(x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        y[..., -1:].copy_(x[..., :1])
        return y[:1].expand(max(y.size(0) - 1, 1), *y.shape[1:])

    path = tmp_path / "model.onnx"
    x = torch.rand(3, 5, 1)
    opbridge.export(copied, (x,), path, capture=capture, dynamic_axes={"x": {0: "a", 1: "b", 2: "c"}})
    for sizes in ((3, 5, 1), (1, 2, 3), (2, 1, 1)):
        x = torch.rand(sizes)
        torch.testing.assert_close(run(session(path), {"x": x})[0], copied(x))
