"""A program whose calls do not hold together, as an altered file has them, is refused by name; nothing crashes."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from command import opbridge

Graph = dict[str, Any]


class Net(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        pooled, places = F.max_pool2d(x, 2, return_indices=True)
        columns = F.unfold(F.adaptive_avg_pool2d(x, 4), 2, dilation=(1, 1))
        square = x @ x.mT
        halves = x.split([1, 2], dim=1)
        x = x.clone()
        x[:, 0] = 1
        return (
            F.max_unpool2d(pooled, places, 2),
            columns,
            F.pixel_unshuffle(pooled, 2),
            torch.linalg.inv(square + torch.eye(8)),
            torch.linalg.multi_dot([square[0, 0], square[0, 1]]),
            torch.fft.irfft2(torch.fft.rfft2(x)),
            torch.cat(halves, 1).movedim(1, -1),
            x.diagonal(0, 2, 3),
            torch.tensordot(x, x, dims=([0, 1], [0, 1])),
            torch.take_along_dim(pooled, places % 4, 2),
        )


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    path = tmp_path_factory.mktemp("altered") / "net.pt2"
    torch.export.save(torch.export.export(Net().eval(), (torch.randn(2, 3, 8, 8),)), path)
    with zipfile.ZipFile(path) as file:
        return {name: file.read(name) for name in file.namelist()}


def program(archive: dict[str, bytes]) -> tuple[str, Any]:
    [name] = [name for name in archive if name.endswith("models/model.json")]
    return name, json.loads(archive[name])


def graph_of(archive: dict[str, bytes]) -> Graph:
    return program(archive)[1]["graph_module"]["graph"]


def converted(archive: dict[str, bytes], alter: Callable[[Graph], None], folder: Path) -> tuple[int, str]:
    path, model = program(archive)
    alter(model["graph_module"]["graph"])
    with zipfile.ZipFile(folder / "altered.pt2", "w") as file:
        for name, content in (archive | {path: json.dumps(model).encode()}).items():
            file.writestr(name, content)
    done = opbridge("convert", folder / "altered.pt2", folder / "net.onnx")
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
