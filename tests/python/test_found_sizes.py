"""The number of items that a model finds does not become that of the example, in len() or in an operator's result."""

from __future__ import annotations

import pathlib
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F
from torch_versions import before_torch_2_15, since_torch_2_14

import opbridge
from opbridge import TraceWarning

CAPTURES = pytest.mark.parametrize("capture", ["export", "trace"])
FEW, MANY = torch.tensor([0.1, 0.9, 0.2, 0.3]), torch.tensor([0.7, 0.9, 0.6, 0.3, 0.8, 0.9])


def where_alone(x: torch.Tensor) -> torch.Tensor:
    found = torch.where(x > 0.5)[0]
    return torch.zeros(found.shape[0], 2) + x[found].unsqueeze(1)


def length(x: torch.Tensor) -> torch.Tensor:
    found = x[x > 0.5]
    return torch.full((len(found), 2), 3.0) + found.unsqueeze(1)


def repeated(x: torch.Tensor) -> torch.Tensor:
    return x.repeat_interleave((x > 0.5).long() + 1)


def classes_found(x: torch.Tensor) -> torch.Tensor:
    return F.one_hot((x * 10).long())


def greatest_of_those_found(x: torch.Tensor) -> torch.Tensor:
    found = x[x > 0.5]
    return torch.cat([found.topk(min(3, found.shape[0]))[0], torch.zeros(max([found.shape[0], 2, 1]))])


def rows_of_those_found(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    found = torch.stack([x[x > 0.5]] * 4, dim=1)
    return torch.roll(found, 1, 1), found.logsumexp(1), found.cummax(1)[0], torch.cdist(found, found)


def layers_on_those_found(x: torch.Tensor) -> torch.Tensor:
    """Whose code asks whether there are elements, and whether there are several of a channel."""
    images = torch.stack([x[x > 0.5]] * 12, dim=1).reshape(-1, 3, 2, 2)
    images = F.batch_norm(images, torch.zeros(3), torch.ones(3)) + F.group_norm(images.flatten(1), 2).view_as(images)
    return F.interpolate(F.local_response_norm(images, 2), size=(3, 3), mode="bilinear", antialias=True)


def products_of_those_found(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    found = torch.stack([x[x > 0.5], x[x > 0.5] * 2], dim=1)
    weight = torch.arange(12.0).reshape(3, 2, 2)
    batched = torch.einsum("nc,nd->ncd", found, found)
    return (
        torch.tensordot(found, weight, dims=([1], [-1])),
        torch.tensordot(found, found, dims=([0], [0])),
        torch.einsum("ncd,nkd->nck", batched, batched + 1),
        torch.einsum("nab, kab -> kn", batched, weight),
    )


def form_on_those_found(x: torch.Tensor) -> torch.Tensor:
    found = torch.stack([x[x > 0.5]] * 3, dim=1)
    return F.bilinear(found, found + 1, torch.arange(12.0).reshape(2, 3, 2)[..., [0, 1, 0]], torch.ones(2))


@CAPTURES
@pytest.mark.filterwarnings("error::opbridge.TraceWarning")
@pytest.mark.parametrize(
    "function",
    [
        where_alone,
        length,
        repeated,
        classes_found,
        greatest_of_those_found,
        rows_of_those_found,
        layers_on_those_found,
        products_of_those_found,
        form_on_those_found,
    ],
)
def test_found_in_another_number(function: Callable[..., Any], capture: Any, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "model.onnx"
    opbridge.export(function, (FEW,), path, capture=capture)
    for x in (FEW, MANY[:4], MANY[2:], FEW[[0, 0, 2, 2]]):
        opbridge.verify(path, function, (x,))


@CAPTURES
def test_length_of_a_dynamic_dim(capture: Any, tmp_path: pathlib.Path) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.arange(len(x)) * x / len(x)

    path = tmp_path / "model.onnx"
    opbridge.export(function, (FEW,), path, capture=capture, dynamic_shapes=({0: "n"},))
    opbridge.verify(path, function, (MANY,))


@CAPTURES
def test_a_found_number_of_steps(capture: Any, tmp_path: pathlib.Path) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        found = torch.unique((x > 0.5).long())
        if found.numel() > 1:
            x = x + 1
        return sum((x * i for i in range(found.shape[0])), x)

    path = tmp_path / "model.onnx"
    opbridge.export(function, (FEW,), path, capture=capture)
    for x in (FEW, torch.zeros_like(FEW), torch.ones_like(FEW)):
        opbridge.verify(path, function, (x,))


def test_a_found_number_that_python_needs_is_refused(tmp_path: pathlib.Path) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        found = torch.unique((x > 0.5).long())
        if any(count > 1 for count in [found.numel()]):  # the run with data begins here
            x = x + 1
        return x * "ab".count("a", 0, found.shape[0])

    with pytest.raises(opbridge.UnsupportedError, match=r"a size that depends on data .* Python number"):
        opbridge.export(function, (FEW,), tmp_path / "model.onnx", capture="trace")


@CAPTURES
def test_boxes_of_torchvision(capture: Any, tmp_path: pathlib.Path) -> None:
    ops = pytest.importorskip("torchvision.ops")

    def boxes(count: int, seed: int) -> tuple[torch.Tensor, ...]:
        generator = torch.Generator().manual_seed(seed)
        corner = torch.rand(count, 2, generator=generator) * 50
        sizes = torch.rand(count, 2, generator=generator) * 30 + 1
        classes = torch.randint(0, 3, (count,), generator=generator)
        return torch.cat([corner, corner + sizes], 1), torch.rand(count, generator=generator), classes

    def function(boxes: torch.Tensor, scores: torch.Tensor, classes: torch.Tensor) -> Any:
        keep = ops.batched_nms(boxes, scores, classes, 0.5)[:100]
        return boxes[keep], torch.zeros(len(keep)), keep

    path = tmp_path / "model.onnx"
    # With more than 1000 boxes torchvision would loop over the classes.
    opbridge.export(function, boxes(1500, 0), path, capture=capture)
    opbridge.verify(path, function, boxes(1500, 1))
    opbridge.export(function, boxes(1500, 0), path, capture=capture, dynamic_shapes=({0: "n"}, {0: "n"}, {0: "n"}))
    for count in (1500, 3, 0):
        opbridge.verify(path, function, boxes(count, 1))
    near = torch.tensor([0.0, 0.0, 9.0, 9.0]).expand(1500, 4).contiguous()
    opbridge.verify(path, function, (near, boxes(1500, 2)[1], torch.zeros(1500, dtype=torch.long)))  # one is left


def test_a_branch_on_what_a_run_finds_is_refused_in_a_few_lines(
    tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    class Branch(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x if [*filter(lambda count: count > 3, [(x > 0).sum().item()])] else x + 1

    with pytest.raises(opbridge.UnsupportedError, match=r"(?s)u0 > 3.*torch.cond.*:\d+ in forward") as error:
        opbridge.export(Branch(), (torch.rand(4),), tmp_path / "model.onnx")
    assert len(str(error.value).splitlines()) < 8
    assert not capfd.readouterr().err


@pytest.mark.parametrize("sizes", [None, ({0: "n"}, None)], ids=["constant", "dynamic"])
def test_a_branch_on_data_beside_elements_that_share_memory(sizes: Any, tmp_path: pathlib.Path) -> None:
    """The fake tensors carry data then, also those of expanded tensors and of windows."""
    table, windows = torch.rand(2, 1).expand(2, 3), torch.arange(6.0).as_strided((2, 3), (1, 2))

    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        found = x[x > 0.5]
        found = -found if x.sum() > 100 else found
        return found.sum() * y + table * windows.unfold(0, 1, 1)[..., 0]

    path, y = tmp_path / "model.onnx", torch.rand(1, 3).expand(2, 3)
    with pytest.warns(TraceWarning, match="was read as the number False"):
        opbridge.export(function, (FEW, y), path, capture="trace", dynamic_shapes=sizes)
    opbridge.verify(path, function, (torch.rand(FEW.shape), torch.rand(2, 3)))


def test_a_branch_on_a_found_size_is_told_of(tmp_path: pathlib.Path) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        found = x[x > 0.5]
        return found * 2 if found.shape[0] > 3 else found

    with pytest.warns(TraceWarning, match=r"u0 > 3.* was read as False.*in function"):
        opbridge.export(function, (FEW,), tmp_path / "model.onnx", capture="trace")


@CAPTURES
def test_found_sizes_that_broadcast(capture: Any, tmp_path: pathlib.Path) -> None:
    """torch takes each found size for the one that it broadcasts with, though it may be 1."""

    def of_known_size(x: torch.Tensor) -> Any:
        found = x[x > 0.5]
        return x + found, found * found.shape[0]

    def of_found_sizes(x: torch.Tensor) -> Any:
        total = x[x > 0.5] + x[x > 0.8]
        return total * total.shape[0]

    def in_einsum(x: torch.Tensor) -> Any:
        found = x[x > 0.5]
        return torch.einsum("i,ij->j", found, torch.ones(4, 2)) / found.shape[0]

    def in_take_along_dim(x: torch.Tensor) -> Any:
        return torch.take_along_dim(torch.ones(4, 2), x[x > 0.5].long()[:, None], 1)

    refusal = r"broadcasts with '4'; .* wrong if the former is 1; reshape"
    for function in (of_known_size, in_einsum, in_take_along_dim):
        with pytest.raises(opbridge.UnsupportedError, match=refusal):
            opbridge.export(function, (FEW,), tmp_path / "model.onnx", capture=capture)
    with pytest.warns(TraceWarning, match=r"sizes that broadcast: .* wrong if one of them is 1"):
        opbridge.export(of_found_sizes, (FEW,), tmp_path / "model.onnx", capture=capture)


@CAPTURES
@pytest.mark.parametrize("way", ["copied", "assigned", "expanded", "to nothing"])
def test_what_is_found_expands_if_it_is_one(way: str, capture: Any, tmp_path: pathlib.Path) -> None:
    def function(x: torch.Tensor) -> Any:
        found = x[x > 0.5]
        made = torch.zeros(4, 4)
        if way == "copied":
            made = made[0].copy_(found)
        elif way == "assigned":
            made[1:3] = found[:, None]
        elif way == "expanded":
            made = found.expand(3, 4).t() + made[:, :3]
        else:
            made[:0] = found[:, None]
        return made, found.sum() / found.shape[0], found * 2

    count = {"assigned": 2, "to nothing": 0}.get(way, 4)
    several, one = torch.tensor([0.6, 0.9, 0.7, 0.8, 0.1])[-count - 1 :], torch.tensor([0.1, 0.2, 0.9, 0.1])
    for example, other in ((several, one), (one, several)):
        opbridge.export(function, (example,), tmp_path / "model.onnx", capture=capture, dynamic_shapes=({0: "n"},))
        for x in (example, other):
            opbridge.verify(tmp_path / "model.onnx", function, (x,))


@CAPTURES
def test_expanding_to_a_found_size_is_no_broadcast(capture: Any, tmp_path: pathlib.Path) -> None:
    """An axis of 4 elements expands to 4 elements only, so the found size is no 1."""

    def expanded(x: torch.Tensor) -> torch.Tensor:
        found = x[x > 0.5]
        return torch.arange(4)[:, None].expand(found.shape[0], 2) + torch.ones(1).expand(found.shape[0], 2)

    def assigned(x: torch.Tensor) -> torch.Tensor:
        found = x[x > 0.5]
        found[:] = torch.arange(4.0)
        return found

    x, other = torch.tensor([0.6, 0.7, 0.1, 0.8, 0.9]), torch.tensor([0.6, 0.7, 0.8, 0.9, 0.2])
    for function in (expanded, assigned):
        opbridge.export(function, (x,), tmp_path / "model.onnx", capture=capture)
        opbridge.verify(tmp_path / "model.onnx", function, (other,))


@CAPTURES
def test_found_sizes_of_at_least_2_do_not_broadcast(capture: Any, tmp_path: pathlib.Path) -> None:
    def means(x: torch.Tensor) -> torch.Tensor:
        part = x.long() % 3
        return torch.zeros(3).index_add(0, part, x) / part.bincount(minlength=3).clamp(min=1)

    path, least, others = tmp_path / "model.onnx", "is wrong if the former is 1", (torch.rand(9) * 9, torch.zeros(1))
    opbridge.export(means, (torch.rand(5) * 9,), path, capture=capture, dynamic_shapes=({0: "n"},))
    for x in others:
        opbridge.verify(path, means, (x,))
    for function in (lambda x: x.long().bincount(minlength=1) * torch.ones(3), lambda x: x.long().bincount() * x):
        with pytest.raises(opbridge.UnsupportedError, match=least):
            opbridge.export(function, (torch.tensor([0.0, 2.0, 1.0]),), path, capture=capture)
    with pytest.raises(opbridge.UnsupportedError, match=least):
        opbridge.export(
            lambda x: x.long().bincount(minlength=x.shape[0]) * x,
            (torch.tensor([0.0, 2.0, 1.0]),),
            path,
            capture=capture,
            dynamic_shapes=({0: "n"},),
        )


@CAPTURES
def test_found_sizes_of_one_mask(capture: Any, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "model.onnx"

    def function(x: torch.Tensor) -> torch.Tensor:
        mask = x > 0.5
        return x[mask] * (x + 1)[mask] + x[mask].reshape(-1, 1).expand(-1, 2).sum(1)

    with warnings.catch_warnings():
        warnings.simplefilter("error", TraceWarning)
        opbridge.export(function, (FEW,), path, capture=capture)
    opbridge.verify(path, function, (MANY[:4],))


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(lambda found: F.prelu(-torch.ones(2, 4), found), id="prelu"),
        pytest.param(
            lambda found: F.cosine_similarity(found[:, None], torch.ones(4, 1), dim=1),
            id="cosine_similarity",
            marks=before_torch_2_15("it broadcasts in Python, and is refused"),
        ),
        pytest.param(
            lambda found: F.scaled_dot_product_attention(found.view(-1, 1, 1), *[torch.ones(4, 2, 1)] * 2),
            id="attention",
            marks=[
                since_torch_2_14("it broadcasts in Python, and is refused"),
                before_torch_2_15("it broadcasts in Python, and is refused"),
            ],
        ),
    ],
)
def test_an_operator_that_branches_on_a_found_size_is_reported(function: Any, tmp_path: pathlib.Path) -> None:
    """C++ composes these operators of others. If the size is 1, it broadcasts."""

    def scaled(x: torch.Tensor) -> torch.Tensor:
        found = x[x > 0.05]
        result: torch.Tensor = function(found) * found.shape[0]
        return result

    with pytest.warns(TraceWarning, match="torch branches by a size that depends on data"):
        opbridge.export(scaled, (FEW,), tmp_path / "model.onnx", capture="trace")


def test_a_layer_that_branches_by_a_found_size_is_told(tmp_path: pathlib.Path) -> None:
    """smooth_l1_loss warns if the sizes differ."""

    def function(x: torch.Tensor) -> torch.Tensor:
        return F.smooth_l1_loss(x[x > 0], torch.zeros(4))

    with pytest.warns(TraceWarning, match="torch branches by a size that depends on data"):
        opbridge.export(function, (FEW,), tmp_path / "model.onnx", capture="trace")
