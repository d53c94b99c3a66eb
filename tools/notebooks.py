"""Notebooks of the tutorial, made of its pages: blocks become cells, with the outputs that the page shows.

Blocks with a title write their file, and console blocks run their commands. A command that installs or builds is only
shown.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import jupytext
from nbformat.v4 import new_output

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "python"))
from pages import Block, blocks, is_not_run

CHAPTERS = (
    "three-links",
    "aten-operator",
    "torchscript-operator",
    "cpp-extension",
    "onnx-function",
    "operator-once",
    "verify",
)

_PAGE_LINK = re.compile(r"(\]\([\w./-]+)\.md((?:#[\w-]+)?\))")
_HEADING_ANCHOR = re.compile(r"^(#+ .*?) \{#[\w-]+\}$", re.MULTILINE)


def notebook(page: Path) -> Any:
    """The notebook of a chapter."""
    lines = page.read_text().splitlines(keepends=True)
    text, end = "", 0
    outputs: list[str] = []  # of the code cells, in order
    for block in blocks(page):
        text += "".join(lines[end : block.line - 2])
        end = block.line + block.written.count("\n")
        if block.language == "output":
            outputs[-1] = block.written
        elif cell := _cell(block):
            outputs.append(_printed(block))
            text += f"```python\n{cell.rstrip()}\n```\n"
        else:
            text += f"```\n{block.source}```\n"  # jupytext would make a cell of a block with a language
    text += "".join(lines[end:])
    text = _HEADING_ANCHOR.sub(r"\1", _PAGE_LINK.sub(r"\1.html\2", text))
    made = jupytext.reads(text, fmt="md")
    made.metadata["kernelspec"] = {"display_name": "Python 3", "language": "python", "name": "python3"}
    cells = [cell for cell in made.cells if cell.cell_type == "code"]
    for cell, output in zip(cells, outputs, strict=True):
        if output:
            cell.outputs = [new_output("stream", name="stdout", text=output)]
    return made


def _cell(block: Block) -> str:
    """The code that does what the block does; empty if the notebook only shows it."""
    if block.title:
        return f"%%writefile {block.title}\n{block.source}"
    if block.language == "python":
        return block.source
    if block.language == "console" and not any(map(is_not_run, _commands(block))):
        return "".join(f"!{command}\n" for command in _commands(block))
    return ""


def _commands(block: Block) -> list[str]:
    return [line[2:].strip() for line in block.written.splitlines() if line.startswith("$ ")]


def _printed(block: Block) -> str:
    """What the commands of a console block print."""
    if block.language != "console":
        return ""
    return "".join(line for line in block.written.splitlines(keepends=True) if not line.startswith("$ "))
