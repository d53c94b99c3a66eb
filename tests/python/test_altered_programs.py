"""A program with inconsistent calls, as in an altered file, is refused by name; nothing crashes."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from command import opbridge
from torch_versions import since_torch_2_15

Graph = dict[str, Any]


class Net(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        pooled, indices = F.max_pool2d(x, 2, return_indices=True)
        columns = F.unfold(F.adaptive_avg_pool2d(x, 4), 2, dilation=(1, 1))
        square = x @ x.mT
        halves = x.split([1, 2], dim=1)
        x = x.clone()
        x[:, 0] = 1
        return (
            F.max_unpool2d(pooled, indices, 2),
            columns,
            F.pixel_unshuffle(pooled, 2),
            torch.linalg.inv(square + torch.eye(8)),
            torch.linalg.multi_dot([square[0, 0], square[0, 1]]),
            torch.fft.irfft2(torch.fft.rfft2(x)),
            torch.cat(halves, 1).movedim(1, -1),
            x.diagonal(0, 2, 3),
            torch.tensordot(x, x, dims=([0, 1], [0, 1])),
            torch.take_along_dim(pooled, indices % 4, 2),
        )


def saved(module: torch.nn.Module, args: tuple[torch.Tensor, ...], folder: Path) -> dict[str, bytes]:
    torch.export.save(torch.export.export(module, args), folder / "net.pt2")
    with zipfile.ZipFile(folder / "net.pt2") as file:
        return {name: file.read(name) for name in file.namelist()}


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return saved(Net(), (torch.randn(2, 3, 8, 8),), tmp_path_factory.mktemp("altered"))


def program(archive: dict[str, bytes]) -> tuple[str, Any]:
    [name] = [name for name in archive if name.endswith("models/model.json")]
    return name, json.loads(archive[name])


def graph_of(archive: dict[str, bytes]) -> Graph:
    return program(archive)[1]["graph_module"]["graph"]


def converted(
    archive: dict[str, bytes],
    alter: Callable[[Graph], None],
    folder: Path,
    memory: int | None = None,
    options: Sequence[object] = (),
) -> tuple[int, str]:
    path, model = program(archive)
    alter(model["graph_module"]["graph"])
    with zipfile.ZipFile(folder / "altered.pt2", "w") as file:
        for name, content in (archive | {path: json.dumps(model).encode()}).items():
            file.writestr(name, content)
    done = opbridge("convert", folder / "altered.pt2", folder / "net.onnx", *options, memory=memory)
    assert (folder / "net.onnx").exists() == (done.returncode == 0)
    (folder / "net.onnx").unlink(missing_ok=True)
    return done.returncode, done.stderr


def shapes(graph: Graph) -> Iterator[tuple[str, list[Any]]]:
    for name, tensor in graph["tensor_values"].items():
        sizes = tensor["sizes"]
        yield name, []
        yield name, sizes[:1]
        yield name, [*sizes, {"as_int": 2}]


def test_altered_shapes(archive: dict[str, bytes], tmp_path: Path) -> None:
    codes = []
    for name, sizes in shapes(graph_of(archive)):

        def alter(graph: Graph, name: str = name, sizes: list[Any] = sizes) -> None:
            graph["tensor_values"][name].update(sizes=sizes, strides=[{"as_int": 1} for _ in sizes])

        code, message = converted(archive, alter, tmp_path)
        codes.append(code)
        assert code == 0 or (code == 2 and message.startswith("opbridge: ")), (name, sizes, code, message)
    assert codes.count(2) > len(codes) / 2


def arguments(graph: Graph) -> list[tuple[dict[str, Any], Graph]]:
    return [(argument, node) for node in graph["nodes"] for argument in node["inputs"]]


def replacements(value: dict[str, Any]) -> Iterator[dict[str, Any]]:
    [(kind, content)] = value.items()
    yield {"as_none": True}
    if isinstance(content, list):
        yield {kind: []}
        yield {kind: content + content}
    elif kind == "as_int":
        yield {kind: -7}
        yield {kind: 1 << 31}
    elif kind == "as_tensor":
        yield {"as_int": 3}


def test_altered_arguments(archive: dict[str, bytes], tmp_path: Path) -> None:
    codes = []
    for index, (argument, node) in enumerate(arguments(graph_of(archive))):
        for value in replacements(argument["arg"]):

            def alter(graph: Graph, index: int = index, value: dict[str, Any] = value) -> None:
                arguments(graph)[index][0]["arg"] = value

            code, message = converted(archive, alter, tmp_path)
            codes.append(code)
            where = (node["target"], argument["name"], value)
            assert code == 0 or (code == 2 and message.startswith("opbridge: ")), (*where, code, message)
    assert codes.count(2) > len(codes) / 2


def test_the_call_is_named(archive: dict[str, bytes], tmp_path: Path) -> None:
    def alter(graph: Graph) -> None:
        [node] = [node for node in graph["nodes"] if node["target"] == "torch.ops.aten.im2col.default"]
        [kernel] = [argument for argument in node["inputs"] if argument["name"] == "kernel_size"]
        kernel["arg"] = {"as_ints": [2, 2, 2]}

    code, message = converted(archive, alter, tmp_path)
    assert code == 2
    assert "a call of aten::im2col has kernel_size = [2, 2, 2]" in message
    assert "test_altered_programs.py" in message


def refusals(
    module: torch.nn.Module, args: tuple[torch.Tensor, ...], alter: Callable[[Graph], None], folder: Path
) -> list[str]:
    """The messages at opsets 9, whose operators have other forms, and 18."""
    archive, messages = saved(module, args, folder), []
    for opset in (9, 18):
        code, message = converted(archive, alter, folder, options=("--opset", opset))
        assert code == 2
        messages.append(message)
    return messages


def test_blocks_of_another_rank(tmp_path: Path) -> None:
    class Blocks(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.block_diag(x[0], x[1])

    def alter(graph: Graph) -> None:
        [node] = [node for node in graph["nodes"] if node["target"] == "torch.ops.aten.block_diag.default"]
        node["inputs"][0]["arg"]["as_tensors"][0] = graph["inputs"][0]["as_tensor"]

    for message in refusals(Blocks(), (torch.randn(2, 3, 3),), alter, tmp_path):
        assert "aten::block_diag" in message
        assert "takes tensors of at most 2 dims" in message


def test_arithmetic_without_a_number(tmp_path: Path) -> None:
    class Scaled(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.gradient(x * (x.sum().item() * 2.0 + 1), edge_order=1)[0]

    archive = saved(Scaled(), (torch.randn(3),), tmp_path)
    altered = [
        (i, argument["name"])
        for i, (argument, node) in enumerate(arguments(graph_of(archive)))
        if node["target"].startswith("_operator.") or argument["name"] == "edge_order"
    ]
    assert len(altered) >= 4, altered
    for index, _ in altered:

        def alter(graph: Graph, index: int = index) -> None:
            list(arguments(graph))[index][0]["arg"] = {"as_none": True}

        code, message = converted(archive, alter, tmp_path)
        assert code == 2
        assert "is None, but" in message


def test_losses_of_a_number(tmp_path: Path) -> None:
    class Loss(torch.nn.Module):
        def forward(self, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
            return F.cross_entropy(x, target)

    def alter(graph: Graph) -> None:
        graph["tensor_values"][graph["inputs"][0]["as_tensor"]["name"]]["sizes"] = []
        graph["tensor_values"][graph["inputs"][0]["as_tensor"]["name"]]["strides"] = []

    for message in refusals(Loss(), (torch.randn(2, 3), torch.tensor([0, 2])), alter, tmp_path):
        assert "axis 1 of a tensor of rank 0 does not exist" in message


class Windows(torch.nn.Module):
    """Operators that compute with parameters of windows."""

    def forward(self, x: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, ...]:
        wide, whole = x.double(), (x * 4).long()
        columns = F.unfold(x, 3, dilation=2, padding=1, stride=2)
        return (
            F.conv2d(x, weight, stride=2, padding=1, dilation=1, groups=2),
            F.conv2d(wide, weight.double(), stride=2, padding=1, dilation=1, groups=2),
            F.conv2d(x, weight, padding="same", dilation=2, groups=2),
            F.conv_transpose2d(x, weight[:4], stride=2, padding=1, output_padding=1, groups=2),
            F.conv_transpose2d(wide, weight[:4].double(), stride=2, padding=1, output_padding=1, groups=2),
            F.max_pool2d(x, 3, stride=2, padding=1, dilation=2, ceil_mode=True),
            *F.max_pool2d(whole, 3, stride=2, padding=1, dilation=2, return_indices=True),
            F.avg_pool2d(x, 3, stride=2, padding=1, ceil_mode=True),
            F.avg_pool2d(wide, 3, stride=2, padding=1, divisor_override=2),
            F.fold(columns, (8, 8), 3, dilation=2, padding=1, stride=2),
            F.adaptive_avg_pool2d(x, (3, 5)),
            x.unfold(2, 3, 2),
            F.pixel_shuffle(x, 2),
            F.channel_shuffle(x, 2),
            torch.view_as_real(torch.stft(x[0, :, 0], 4, hop_length=2, win_length=4, return_complex=True)),
        )


@pytest.fixture(scope="module")
def windows(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return saved(Windows(), (torch.randn(2, 4, 8, 8), torch.randn(6, 2, 3, 3)), tmp_path_factory.mktemp("windows"))


POSITIVE = {"kernel_size", "stride", "dilation", "groups", "n_fft", "hop_length", "win_length", "upscale_factor"}
NUMBERS = {*POSITIVE, "padding", "output_padding", "output_size", "size", "step", "divisor_override"}


def numbers_of(graph: Graph) -> Iterator[tuple[dict[str, Any], Graph, str, int]]:
    for argument, node in arguments(graph):
        for kind, content in argument["arg"].items():
            if argument["name"] in NUMBERS and kind in ("as_int", "as_ints"):
                yield from ((argument, node, kind, i) for i in range(len(content) if kind == "as_ints" else 1))


def test_windows_without_sense(windows: dict[str, bytes], tmp_path: Path) -> None:
    refused = 0
    for index, (argument, node, kind, i) in enumerate(numbers_of(graph_of(windows))):
        for number in (0, -1, 1 << 31, 1 << 62):

            def alter(graph: Graph, index: int = index, kind: str = kind, i: int = i, number: int = number) -> None:
                arg = list(numbers_of(graph))[index][0]["arg"]
                arg[kind] = number if kind == "as_int" else [*arg[kind][:i], number, *arg[kind][i + 1 :]]

            code, message = converted(windows, alter, tmp_path)
            where = (node["target"], argument["name"], number)
            assert code == 0 or (code == 2 and message.startswith("opbridge: ")), (*where, code, message)
            refused += code == 2
            if number != 1 and argument["name"] in POSITIVE:
                assert code == 2, where
                assert node["target"].removeprefix("torch.ops.aten.").partition(".")[0] in message, (*where, message)
    assert refused > 150


def test_pools_whose_results_are_said_to_be_larger(windows: dict[str, bytes], tmp_path: Path) -> None:
    pools = [node for node in graph_of(windows)["nodes"] if "_pool2d" in node["target"]]
    results = [each["as_tensor"]["name"] for node in pools for each in node["outputs"] if "as_tensor" in each]
    assert len(results) >= 4
    for name in results:
        for size in (0, 7, 1 << 20, 1 << 31, 1 << 62):

            def alter(graph: Graph, name: str = name, size: int = size) -> None:
                graph["tensor_values"][name]["sizes"][-1] = {"as_int": size}

            code, message = converted(windows, alter, tmp_path)
            assert code == 2, (name, size)
            assert message.startswith("opbridge: "), (name, size, message)


class Resized(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (
            F.interpolate(x, scale_factor=2.0),
            F.interpolate(x, scale_factor=1.5, mode="bilinear"),
            F.interpolate(x[:, :, 0], scale_factor=2.0, mode="linear"),
            F.interpolate(x, size=(5, 6), mode="bicubic", antialias=True),
        )


class Channels(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.fake_quantize_per_channel_affine(x, torch.ones(3), torch.zeros(3), 1, -5, 5)


def test_channels_along_axes_that_are_not_there(tmp_path: Path) -> None:
    archive = saved(Channels(), (torch.randn(2, 3),), tmp_path)
    for axis, sizes in ((2, 2), (-3, 2), (1 << 40, 2), (-(1 << 40), 2), (0, 0), (-1, 0)):

        def alter(graph: Graph, axis: int = axis, sizes: int = sizes) -> None:
            [call] = [node for node in graph["nodes"] if "fake_quantize" in node["target"]]
            [argument] = [argument for argument in call["inputs"] if argument["name"] == "axis"]
            argument["arg"] = {"as_int": axis}
            for name in ("x", call["outputs"][0]["as_tensor"]["name"]):
                tensor = graph["tensor_values"][name]
                tensor.update(sizes=tensor["sizes"][:sizes], strides=tensor["strides"][:sizes])

        code, message = converted(archive, alter, tmp_path)
        assert code == 2, axis
        assert "axis" in message or "axes" in message, (axis, message)


class Combined(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.combinations(x)


@since_torch_2_15("torch.export fails on combinations")
def test_combinations_of_too_many_are_counted_before_they_are_made(tmp_path: Path) -> None:
    archive = saved(Combined(), (torch.randn(4),), tmp_path)

    def alter(graph: Graph) -> None:
        graph["tensor_values"]["x"]["sizes"] = [{"as_int": 65537}]

    code, message = converted(archive, alter, tmp_path)
    assert code == 2
    assert f"a constant of {65537 * 65536} elements" in message


def test_resizing_with_other_scales_and_axes(tmp_path: Path) -> None:
    archive = saved(Resized(), (torch.randn(2, 3, 8, 8),), tmp_path)
    calls = [node for node in graph_of(archive)["nodes"] if "upsample" in node["target"]]
    assert len(calls) == 4
    for index, call in enumerate(calls):
        axes = 1 if "linear1d" in call["target"] else 2
        given = {f"{count} scales are given for": [2.0] * count for count in (0, 1, 2, 3, 9) if count != axes}
        given |= {"the scale 1e-19": [1e-19] * axes, "the scale 1e+19": [1e19] * axes}
        if "bicubic" not in call["target"]:  # if a size is given, a negative scale is ignored
            given |= {"the scale -": [-(2.0**63)] * axes}
        for reason, scales in given.items():

            def alter_scales(graph: Graph, index: int = index, scales: list[float] = scales) -> None:
                node = [node for node in graph["nodes"] if "upsample" in node["target"]][index]
                [argument] = [argument for argument in node["inputs"] if argument["name"] == "scale_factors"]
                argument["arg"] = {"as_floats": scales}

            code, message = converted(archive, alter_scales, tmp_path)
            assert code == 2, (call["target"], scales)
            assert reason in message, (call["target"], scales, message)
        name = call["outputs"][0]["as_tensor"]["name"]
        for shape in ((), (1,), (1, 1), (2, 3, 0, 8), (2, 3, 8, 0), (1, 1, 1, 1, 1)):

            def alter_axes(graph: Graph, name: str = name, shape: tuple[int, ...] = shape) -> None:
                sizes, strides = ([{"as_int": number} for number in numbers] for numbers in (shape, [1] * len(shape)))
                for each in (name, "x"):
                    graph["tensor_values"][each].update(sizes=sizes, strides=strides)

            code, message = converted(archive, alter_axes, tmp_path)
            assert code == 2, (call["target"], shape)
            assert message.startswith("opbridge: "), (call["target"], shape, message)


def test_a_kernel_too_large_to_list_its_indices(tmp_path: Path) -> None:
    class Transposed(torch.nn.Module):
        def forward(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
            return F.conv_transpose2d(x, weight)

    # float64, for which ONNX Runtime has no kernel: the convolution becomes products.
    args = torch.randn(1, 3, 4, 4, dtype=torch.float64), torch.randn(3, 2, 3, 3, dtype=torch.float64)

    def alter(graph: Graph) -> None:
        graph["tensor_values"]["weight"]["sizes"][2] = {"as_int": 2**31 - 1}

    _, message = converted(saved(Transposed(), args, tmp_path), alter, tmp_path, memory=1 << 32)
    assert "not enough memory" not in message


def test_sizes_too_large_to_list_their_indices_at_an_old_opset(tmp_path: Path) -> None:
    class Gathering(torch.nn.Module):
        def forward(self, x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
            return torch.gather(x, 1, index)

    class Striding(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x[::2] + 1

    x, index = torch.randn(4, 3), torch.zeros(4, 2, dtype=torch.int64)
    for model, args, tensor in ((Gathering(), (x, index), "index"), (Striding(), (x,), "x")):

        def alter(graph: Graph, tensor: str = tensor) -> None:
            graph["tensor_values"][tensor]["sizes"][0] = {"as_int": 2**30}

        archive = saved(model, args, tmp_path)
        code, message = converted(archive, alter, tmp_path, memory=1 << 32, options=("--opset", 9))
        assert code == 2
        assert "exceeds the limit of 2^28" in message
