"""The HTML page of a model, in a headless Chromium: modules that fold, lines and nodes, weights, errors, both schemes.

OPBRIDGE_SCREENSHOTS=FOLDER keeps pictures of the pages.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch
from browser import CHROMIUM, Page, chromium
from command import opbridge as command
from onnx import TensorProto, helper
from torch import nn

import opbridge
from opbridge import VerificationError

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


class Stages(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Linear(4, 8)
        self.features = nn.ModuleList(nn.Sequential(*(Block(8) for _ in range(3))) for _ in range(4))
        self.head = nn.Linear(8, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        for stage in self.features:
            x = stage(x)
        return self.head(x.mean(1))


X = torch.randn(2, 5, 4)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with chromium(tmp_path_factory.mktemp("browser")) as page:
        yield page


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """verified.html of an export that agrees, wrong.html of one that does not, inspected.html of the command."""
    folder = tmp_path_factory.mktemp("pages")
    torch.manual_seed(0)
    model = Stages().eval()
    opbridge.export(model, (X,), folder / "model.onnx", verify=True, report=folder / "verified.html")
    assert command("inspect", folder / "model.onnx", "--html", folder / "inspected.html").returncode == 0

    def gelu(g: Any, x: Any, approximate: Any = "none") -> Any:
        return g.op("Relu", x)

    opbridge.symbolic("aten::gelu", opset=20)(gelu)
    try:
        with pytest.raises(VerificationError):
            opbridge.export(model, (X,), folder / "wrong.onnx", verify=True, report=folder / "wrong.html")
    finally:
        opbridge.unregister_custom_op_symbolic("aten::gelu", 20)
    return folder


def keep(browser: Page, name: str) -> None:
    if folder := os.environ.get("OPBRIDGE_SCREENSHOTS"):
        Path(folder).mkdir(parents=True, exist_ok=True)
        browser.screenshot(Path(folder) / f"{name}.png")


def titles(browser: Page) -> list[str]:
    return list(browser.evaluate("graph.boxes.map(box => box.title)"))


def test_a_model_opens_as_its_modules(browser: Page, pages: Path) -> None:
    browser.open(pages / "inspected.html")
    keep(browser, "modules")
    shown = titles(browser)
    assert [title for title in shown if title.startswith("features")] == [f"features.{i}" for i in range(4)]
    assert {"x", "ReduceMean"} <= set(shown)
    assert len(shown) < 15
    tree = browser.evaluate("[...element('modules').children].map(line => line.innerText.replace(/\\s+/g, ' ').trim())")
    assert tree[0].startswith("▾ model.onnx")
    assert any(line.startswith("▸ features.1") for line in tree)
    assert browser.errors == []


def test_a_module_opens_and_the_tree_unfolds(browser: Page, pages: Path) -> None:
    browser.open(pages / "inspected.html")
    at = browser.evaluate(
        """(() => {
            const [x, y, w] = graph.boxes.find(box => box.title === "features.1").at;
            const {left, top} = canvas.getBoundingClientRect();
            return [left + view.x + view.scale * (x + w / 2), top + view.y + view.scale * (y + 10)];
        })()"""
    )
    browser.click(*at)
    assert "features.1" in browser.evaluate("panel.innerText")
    browser.click(*at, count=2)
    keep(browser, "module")
    assert browser.evaluate("graph.title") == "features.1"
    assert [title for title in titles(browser) if title in "012"] == ["0", "1", "2"]
    before = browser.evaluate("element('modules').children.length")
    browser.evaluate("[...element('modules').querySelectorAll('.fold')].find(each => each.innerText === '▸').click()")
    assert browser.evaluate("element('modules').children.length") == before + 3
    browser.evaluate(
        "[...element('modules').querySelectorAll('.fold')].filter(each => each.innerText === '▾').at(-1).click()"
    )
    assert browser.evaluate("element('modules').children.length") == before
    assert browser.errors == []


def test_every_node_is_in_one_view_and_edges_lead_down(browser: Page, pages: Path) -> None:
    browser.open(pages / "inspected.html")
    nodes = len(onnx.load(pages / "model.onnx").graph.node)
    refs = browser.evaluate(
        "data.views.flatMap((_, v) => graphAt(firstView + v).boxes.map(b => b.ref).filter(r => r >= 0))"
    )
    kinds = browser.evaluate("data.graphs[0].boxes.map(box => box.kind)")
    assert sorted(refs) == list(range(len(kinds)))
    assert kinds.count("node") == nodes
    assert browser.evaluate("data.views.every(v => v.edges.every(([from, to]) => from < to))")
    assert browser.evaluate("data.views.every(v => v.boxes.every(b => b.at[0] + b.at[2] <= v.width + 1))")


def test_search_goes_into_modules(browser: Page, pages: Path) -> None:
    browser.open(pages / "inspected.html")
    browser.evaluate("search('Gelu')")
    assert browser.evaluate("found.length") == 12
    browser.evaluate("step()")
    assert browser.evaluate("graph.boxes[selected].op") == "Gelu"
    first = browser.evaluate("graph.title")
    for _ in range(3):
        browser.evaluate("step()")
    assert browser.evaluate("graph.boxes[selected].op") == "Gelu"
    assert browser.evaluate("graph.title") != first
    assert browser.errors == []


def test_lines_beside_operators_beside_nodes(browser: Page, pages: Path) -> None:
    browser.open(pages / "inspected.html")
    browser.evaluate("[...element('tabs').children].find(tab => tab.textContent === 'Lines').click()")
    keep(browser, "lines")
    rows = browser.evaluate(
        "[...element('rows').querySelectorAll('.line')].map(l => [...l.children].map(c => c.innerText))"
    )
    nodes = browser.evaluate(
        "[...element('rows').querySelectorAll('.line')].map(l => [...l.children[2].children].map(c => c.innerText))"
    )
    linear = next(row for row in rows if row[1] == "aten::linear")
    assert "test_page.py" in linear[0]
    assert nodes[rows.index(linear)] == ["MatMul", "Add"]
    assert linear[3].startswith("opbridge's")
    gelu = next(row for row in rows if row[1] == "aten::gelu")
    assert gelu[2].strip() == "Gelu"
    browser.evaluate("element('rows').querySelector('.chip').click()")
    assert browser.evaluate("element('rows').hidden && selected >= 0")
    assert browser.errors == []


def test_weights_by_size(browser: Page, pages: Path) -> None:
    browser.open(pages / "inspected.html")
    browser.evaluate("[...element('tabs').children].find(tab => tab.textContent === 'Weights').click()")
    sizes = browser.evaluate("data.weights.map(weight => weight[2])")
    assert sizes == sorted(sizes, reverse=True)
    names = browser.evaluate("[...element('rows').querySelectorAll('.line')].map(l => l.children[0].innerText)")
    assert names == browser.evaluate(f"data.weights.slice(0, {len(names)}).map(weight => weight[0])")
    assert any(name.startswith("features.0.0.up") for name in names)


def test_the_export_adds_its_times_and_errors(browser: Page, pages: Path) -> None:
    browser.open(pages / "verified.html")
    keep(browser, "verified")
    text = browser.evaluate("panel.innerText")
    assert "all outputs agree" in text
    for step in ("capture", "conversion", "verification"):
        assert step in text
    assert browser.evaluate("errorOf.size") > 50
    assert browser.evaluate("element('first').hidden && !element('errors').hidden")
    assert (
        browser.evaluate("whole.boxes.filter(b => b.kind === 'node').filter(b => !errorOf.get(callOf(b))).length") < 3
    )
    assert browser.errors == []


def test_the_first_node_that_differs_is_marked(browser: Page, pages: Path) -> None:
    browser.open(pages / "wrong.html")
    assert browser.evaluate("firstDifferent").endswith(" aten::gelu")
    assert "aten::gelu" in browser.evaluate("panel.innerText")
    keep(browser, "wrong")
    browser.evaluate("element('first').click()")
    keep(browser, "wrong-first")
    box = "graph.boxes[selected]"
    assert browser.evaluate(f"{box}.aten") == "aten::gelu"
    assert browser.evaluate(f"{box}.scope") == "features.0.0"
    assert "yours" in browser.evaluate("panel.innerText")
    assert browser.evaluate(f"colorOf({box})") == "#d93025"
    assert browser.evaluate("colorOf(whole.boxes.find(box => box.call === 'linear'))").startswith("hsl")
    x, y = browser.evaluate(f"(([x, y]) => [view.x + view.scale * (x + 3), view.y + view.scale * (y + 8)])({box}.at)")
    pixel = f"[...pen.getImageData(Math.round({x}), Math.round({y}), 1, 1).data]"
    assert browser.evaluate(f"(draw(), {pixel})") == [0xD9, 0x30, 0x25, 255]
    browser.evaluate("element('errors').click()")
    assert browser.evaluate(f"(draw(), {pixel})") != [0xD9, 0x30, 0x25, 255]
    assert browser.errors == []


def test_dark_and_light(browser: Page, pages: Path) -> None:
    def brightness() -> int:
        browser.open(pages / "verified.html")
        return sum(browser.evaluate("[...pen.getImageData(2, 2, 1, 1).data].slice(0, 3)"))

    try:
        browser.dark(True)
        assert brightness() < 150
        keep(browser, "dark")
        browser.dark(False)
        assert brightness() > 600
    finally:
        browser.dark(False)


def large(nodes: int, folder: Path) -> Path:
    """A model of many nodes in modules of 10, in blocks of 5 of these, in 10 stages."""
    made = []
    for i in range(nodes):
        node = helper.make_node("Add" if i % 10 == 9 else "Relu", [f"v{i}"] * (2 if i % 10 == 9 else 1), [f"v{i + 1}"])
        scope = f"stages.{i * 10 // nodes}.blocks.{i // 50}.{i // 10}"
        for key, value in (
            ("scope", scope),
            ("source", f"net.py:{i % 10} in forward: x"),
            ("call", f"n{i} aten::relu"),
        ):
            node.metadata_props.append(onnx.StringStringEntryProto(key=f"pytorch.{key}", value=value))
        made.append(node)
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in ("v0", f"v{nodes}")]
    graph = helper.make_graph(made, "g", values[:1], values[1:])
    imports = [helper.make_opsetid("", 21)]
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=10), folder / "large.onnx")
    assert command("inspect", folder / "large.onnx", "--html", folder / "large.html").returncode == 0
    return folder / "large.html"


def test_a_model_of_5000_nodes(browser: Page, tmp_path: Path) -> None:
    page = large(5000, tmp_path)
    ready = browser.open(page)
    print(f"drawn after {ready} ms")
    assert [title for title in titles(browser) if "stages" in title] == [f"stages.{i}" for i in range(10)]
    browser.evaluate("[...element('tabs').children].find(tab => tab.textContent === 'Lines').click()")
    scrolled = """(async () => {
        const rows = element("rows"), times = [];
        for (let i = 0; i < 100; ++i) {
            const start = performance.now();
            rows.scrollTop = i * 1300;
            rows.onscroll();
            rows.getBoundingClientRect();
            times.push(performance.now() - start);
        }
        return [times.sort((a, b) => a - b)[50], rows.querySelectorAll("*").length];
    })()"""
    median, elements = browser.evaluate(scrolled)
    print(f"a step of the lines takes {median} ms")
    assert elements < 1500
    browser.evaluate("openGraph(0)")
    median = browser.evaluate(
        """(() => {
            const times = [];
            for (let i = 0; i < 30; ++i) {
                const start = performance.now();
                view.y -= 500;
                draw();
                times.push(performance.now() - start);
            }
            return times.sort((a, b) => a - b)[15];
        })()"""
    )
    print(f"a frame of all nodes takes {median} ms")
    assert browser.errors == []


def test_a_graph_without_modules(browser: Page, tmp_path: Path) -> None:
    opbridge.export(lambda x: (x + 1).relu(), (X,), tmp_path / "m.onnx", report=tmp_path / "m.html")
    browser.open(tmp_path / "m.html")
    assert browser.evaluate("element('modules').hidden")
    assert {"Add", "Relu"} <= set(titles(browser))
    torch.export.save(torch.export.export(Stages(), (X,)), tmp_path / "m.pt2")
    assert command("inspect", tmp_path / "m.pt2", "--html", tmp_path / "pt2.html").returncode == 0
    browser.open(tmp_path / "pt2.html")
    assert "features.0" in titles(browser)
    assert browser.errors == []


def widths(browser: Page, width: int) -> dict[str, int]:
    """The widths of the parts of the page in a window; 0: not shown."""
    browser.size(width, 700)
    browser.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    return dict(
        browser.evaluate(
            """({
                page: document.documentElement.scrollWidth, modules: element("modules").offsetWidth,
                stage: canvas.parentElement.offsetWidth, canvas: canvas.offsetWidth, panel: panel.offsetWidth,
            })"""
        )
    )


@pytest.mark.parametrize("name", ["modules", "plain"])
def test_the_graph_has_the_middle_of_every_window(browser: Page, pages: Path, tmp_path: Path, name: str) -> None:
    page = pages / "verified.html"
    if name == "plain":
        page = tmp_path / "m.html"
        opbridge.export(lambda x: (x + 1).relu(), (X,), tmp_path / "m.onnx", report=page)
    browser.open(page)
    try:
        for width, modules, panel in ((1500, 236, 360), (1000, 236, 360), (850, 0, 360), (500, 0, 225)):
            modules *= name == "modules"
            stage = width - modules - panel
            expected = {"page": width, "modules": modules, "stage": stage, "canvas": stage, "panel": panel}
            assert widths(browser, width) == expected
            middle = "(canvas.clientWidth / 2 - view.x) / view.scale / graph.width"
            assert browser.evaluate(middle) == pytest.approx(0.5, abs=0.01)
            keep(browser, f"{name}-{width}")
    finally:
        browser.size(1500, 900)
    assert browser.errors == []


def test_a_module_that_is_called_twice(browser: Page, tmp_path: Path) -> None:
    class Shared(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.block, self.between = Block(4), nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.block(self.between(self.block(x)).tanh()) + 1

    opbridge.export(Shared(), (X,), tmp_path / "m.onnx", report=tmp_path / "m.html")
    browser.open(tmp_path / "m.html")
    assert browser.evaluate("data.views.every(v => v.edges.every(([from, to]) => from < to))")
    nodes = len(onnx.load(tmp_path / "m.onnx").graph.node)
    refs = browser.evaluate(
        "data.views.flatMap((_, v) => graphAt(firstView + v).boxes.map(b => b.ref).filter(r => r >= 0))"
    )
    assert len(refs) == len(set(refs)) == nodes + 2
    assert browser.errors == []


def test_a_report_that_is_no_page(tmp_path: Path) -> None:
    for report in ("page.txt", 3):
        with pytest.raises(opbridge.InvalidArgumentError, match="report must be"):
            opbridge.export(nn.Identity(), (X,), tmp_path / "m.onnx", report=report)
