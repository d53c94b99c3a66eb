#!/usr/bin/env python3
"""Draws the graph of an ONNX model as SVG, from the layout of `opbridge inspect --html`: for the pictures in docs/.

    tools/draw_graph.py model.onnx graph.svg

Standard operators are blue, ONNX functions violet, operators that need a kernel of their own red. The picture has a
transparent background and is readable on light and dark pages.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import tempfile
from html import escape
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
COMMAND = Path(os.environ.get("OPBRIDGE_BUILD_DIR", ROOT / "build" / "release")) / "opbridge"

MARGIN = 8
TITLE_HEIGHT, LINE_HEIGHT = 22, 15  # as in src/inspect/graph_page.cc, which determines the sizes of the boxes
STANDARD, FUNCTION, CUSTOM, TERMINAL = "#2f6db3", "#7a4fb5", "#cf2436", "#475467"
STANDARD_DOMAINS = {"", "ai.onnx.ml"}

STYLE = """
text { text-anchor: middle; dominant-baseline: central }
.title { font: 600 12.5px system-ui, sans-serif; fill: #fff }
.line { font: 11px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; fill: #1d2430 }
.edge { fill: none; stroke: #8793a3; stroke-width: 1.4 }
.head { fill: #8793a3 }
"""


def draw(model: Path) -> str:
    """The SVG of the model's main graph."""
    data = page_data(model)
    graph = data["graphs"][0]
    functions = {function["name"] for function in data["summary"]["functions"]}
    width, height = graph["width"] + 2 * MARGIN, graph["height"] + 2 * MARGIN
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="{-MARGIN} {-MARGIN} {width} {height}" role="img">',
        f"<title>{escape(model.name)}</title>",
        f"<style>{STYLE}</style>",
    ]
    lines += [svg for _, _, route in graph["edges"] for svg in edge(route)]
    lines += [svg for each in graph["boxes"] for svg in box(each, functions)]
    return "\n".join([*lines, "</svg>", ""])


def page_data(model: Path) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        subprocess.run([COMMAND, "inspect", model, "--html", page], check=True, stdout=subprocess.DEVNULL)
        _, _, rest = page.read_text().partition('<script id="data" type="application/json">')
        return json.loads(rest.partition("</script>")[0])


def edge(route: list[float]) -> list[str]:
    """A curve from layer to layer, straight through the layers between, as the page's script draws it."""
    points = list(zip(route[::2], route[1::2], strict=True))
    path = f"M{points[0][0]},{points[0][1]}"
    for i, ((x0, y0), (x1, y1)) in enumerate(itertools.pairwise(points)):
        middle = (y0 + y1) / 2
        path += f" L{x1},{y1}" if i % 2 else f" C{x0},{middle} {x1},{middle} {x1},{y1}"
    x, y = points[-1]
    return [f'<path class="edge" d="{path}"/>', f'<path class="head" d="M{x},{y} l-3.5,-7 h7 z"/>']


def box(drawn: dict[str, Any], functions: set[str]) -> list[str]:
    x, y, width, height = drawn["at"]
    color, radius, center = color_of(drawn, functions), 5 if drawn["kind"] == "node" else 11, x + width / 2
    result = [f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="{radius}" fill="{color}"/>']
    if drawn["lines"]:
        # The lower part is light: its upper corners are square, its lower ones follow the box.
        r, top, bottom = radius - 1, y + TITLE_HEIGHT, y + height - 1
        result.append(
            f'<path fill="#fff" d="M{x + 1},{top} H{x + width - 1} V{bottom - r} a{r},{r} 0 0 1 -{r},{r} '
            f'H{x + 1 + r} a{r},{r} 0 0 1 -{r},-{r} z"/>'
        )
    result.append(text("title", center, y + TITLE_HEIGHT / 2 + 0.5, drawn["title"]))
    first = y + TITLE_HEIGHT + 3 + LINE_HEIGHT / 2
    return result + [text("line", center, first + i * LINE_HEIGHT, line) for i, line in enumerate(drawn["lines"])]


def text(kind: str, x: float, y: float, content: str) -> str:
    return f'<text class="{kind}" x="{x:g}" y="{y:g}">{escape(content)}</text>'


def color_of(drawn: dict[str, Any], functions: set[str]) -> str:
    if drawn["kind"] != "node":
        return TERMINAL
    if drawn["op"] in functions:
        return FUNCTION
    domain, _, _ = drawn["op"].rpartition("::")
    return STANDARD if domain in STANDARD_DOMAINS else CUSTOM


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    Path(sys.argv[2]).write_text(draw(Path(sys.argv[1])))
