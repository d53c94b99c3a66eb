"""Reads the pages of the site, runs their blocks and compares what these print.

A fenced block is one of these:

- ``python``: run, in the order of the page, in one namespace.
- ``console``: each line that begins with ``$ `` is run by bash; the lines below it are what it prints.
- ``output``: what the ``python`` block above it prints.
- any block with a title: a file, which is written into the folder that the page runs in.
- other languages without a title: taken from a file of the repository, ``--8<-- "examples/x.cc"``; whatever
  builds that file tests it.
- no language: a drawing.

In expected output, ``…`` stands for any text in a line, and for any lines if it is alone in a line.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import traceback
import types
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"

# Commands that a page shows but that are too expensive to run for a page, or would change the machine; a command that
# is shown with output is always run. The tests of the second column run them.
NOT_RUN = {
    "make": "every run of the tests begins with it",
    "pip": "test_wheel.py, test_new_op.py",
    "pytest": "test_new_op.py",
}

_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w*)(?P<rest>[^\n`]*)$")
_SNIPPET = re.compile(r'^ *(?:# )?--8<-- "(?P<path>[^":]+)(?::(?P<section>[\w-]+))?"$')
_TITLE = re.compile(r'title="([^"]+)"')


class PageError(Exception):
    """A page breaks the rules above."""


@dataclasses.dataclass
class Block:
    language: str
    title: str | None
    written: str  # as it stands in the page
    line: int  # of its first line, from 1
    indent: str

    @property
    def source(self) -> str:
        """With its snippets."""
        return "".join(_expanded(line) for line in self.written.splitlines(keepends=True))


def blocks(page: Path) -> list[Block]:
    found: list[Block] = []
    lines = page.read_text().splitlines(keepends=True)
    open_fence: re.Match[str] | None = None
    for number, line in enumerate(lines, 1):
        fence = _FENCE.match(line.rstrip("\n"))
        if open_fence is None and fence:
            open_fence, content, start = fence, [], number + 1
        elif open_fence is not None and line.strip() == "```":
            title = _TITLE.search(open_fence["rest"])
            indent = open_fence["indent"]
            written = "".join(each.removeprefix(indent) for each in content)
            found.append(Block(open_fence["language"], title[1] if title else None, written, start, indent))
            open_fence = None
        elif open_fence is not None:
            content.append(line)
    if open_fence is not None:
        raise PageError(f"{page.name}: a block is not closed")
    return found


def _check(block: Block, page: Path) -> None:
    block.source  # noqa: B018 - its snippets must exist
    if block.title or block.language in ("python", "console", "output", ""):
        return
    if not _SNIPPET.match(block.written.rstrip("\n")):
        raise PageError(f"{page.name}:{block.line}: a {block.language} block needs a title, or a file that it is from")


def _expanded(line: str) -> str:
    snippet = _SNIPPET.match(line.rstrip("\n"))
    if snippet is None:
        return line
    text = (ROOT / snippet["path"]).read_text()
    if not snippet["section"]:
        return text
    start, end = (f"--8<-- [{word}:{snippet['section']}]" for word in ("start", "end"))
    if start not in text or end not in text:
        raise PageError(f"{snippet['path']} has no section {snippet['section']}")
    # The lines between those of the marks, blank ones too, as the site shows them.
    return text.split(start)[1].partition("\n")[2].split(end)[0].rpartition("\n")[0] + "\n"


@dataclasses.dataclass
class Printed:
    """The text for lines ``first`` to ``last`` (excluded) of a page, counted from 1."""

    first: int
    last: int
    expected: str
    actual: str

    @property
    def agrees(self) -> bool:
        return _pattern(self.expected).fullmatch(self.actual) is not None

    def renewed(self) -> list[str]:
        """The actual lines. A line that a line with dots matches is replaced by that line."""
        dotted = [line for line in self.expected.splitlines(keepends=True) if "…" in line and line.strip() != "…"]
        lines = self.actual.splitlines(keepends=True)
        return [next((each for each in dotted if _pattern(each).fullmatch(line)), line) for line in lines]


def _pattern(expected: str) -> re.Pattern[str]:
    lines = []
    for line in expected.splitlines():
        if line.strip() == "…":
            lines.append(r"(?:.*\n)*")
        else:
            lines.append(".*".join(map(re.escape, line.rstrip().split("…"))) + r"[ ]*\n")
    return re.compile("".join(lines))


def run(page: Path, folder: Path) -> list[Printed]:
    """Runs the blocks of a page in ``folder``; the working directory and the namespace are those of the process."""
    os.chdir(folder)
    sys.path.insert(0, str(folder))
    script = folder / f"{page.stem.replace('-', '_')}.py"
    _clear(folder, {block.title for block in blocks(page) if block.title})
    script.write_text("")
    main = sys.modules["__main__"] = types.ModuleType("__main__")  # where onnxscript looks for names
    namespace: dict[str, Any] = main.__dict__
    printed: list[Printed] = []
    pending: tuple[Block, str] | None = None  # the last python block, and what it printed
    for block in blocks(page):
        _check(block, page)
        if block.language == "output":
            if pending is None:
                raise PageError(f"{page.name}:{block.line}: output without a python block")
            end = block.line + block.written.count("\n")
            printed.append(Printed(block.line, end, block.written, pending[1].rstrip() + "\n"))
            pending = None
            continue
        _must_be_silent(pending, page)
        pending = None
        if block.title:
            _write(folder / block.title, block.source)
        elif block.language == "python":
            pending = block, _run_python(block, script, namespace, page)
        elif block.language == "console":
            printed += _run_console(block, folder, page)
    _must_be_silent(pending, page)
    return printed


def _clear(folder: Path, kept: set[str]) -> None:
    """Removes what an earlier run has left, except the files of the page: compilers look at their times."""
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name not in kept:
            path.unlink()


def _must_be_silent(pending: tuple[Block, str] | None, page: Path) -> None:
    if pending is not None and pending[1]:
        raise PageError(f"{page.name}:{pending[0].line}: the block prints what the page does not show:\n{pending[1]}")


def _write(path: Path, text: str) -> None:
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def _run_python(block: Block, script: Path, namespace: dict[str, Any], page: Path) -> str:
    # The blocks are one script, as a reader would have it: errors name its lines.
    before = script.read_text()
    script.write_text(before + ("\n" if before else "") + block.source)
    lines_before = before.count("\n") + (1 if before else 0)
    code = compile("\n" * lines_before + block.source, str(script), "exec")
    output = io.StringIO()
    try:
        with contextlib.redirect_stdout(output):
            exec(code, namespace)
    except BaseException as error:
        raise PageError(f"{page.name}:{block.line}: {''.join(traceback.format_exception(error))}") from None
    return output.getvalue()


def is_not_run(command: str) -> bool:
    return shlex.split(command, comments=True)[0] in NOT_RUN


def _run_console(block: Block, folder: Path, page: Path) -> list[Printed]:
    lines = block.written.splitlines(keepends=True)
    starts = [i for i, line in enumerate(lines) if line.startswith("$ ")]
    if lines and starts[:1] != [0]:
        raise PageError(f"{page.name}:{block.line}: a console block begins with a command")
    result = []
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        where, command = f"{page.name}:{block.line + start}", lines[start][2:].strip()
        while end > start + 1 and not lines[end - 1].strip():
            end -= 1
        expected = "".join(lines[start + 1 : end])
        if is_not_run(command):
            if expected:
                raise PageError(f"{where}: output of a command that is not run: {command}")
            continue
        done = subprocess.run(
            ["bash", "-c", command], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        if done.returncode and not expected:
            raise PageError(f"{where}: {command} fails:\n{done.stdout}")
        printed = done.stdout.rstrip()
        result.append(Printed(block.line + start + 1, block.line + end, expected, printed and printed + "\n"))
    return result


def run_in_child(page: Path, folder: Path, result: Path) -> None:
    """For a process of its own: writes what the blocks print, or the error, into ``result``."""
    try:
        answer = {"printed": [dataclasses.astuple(each) for each in run(page, folder)]}
    except BaseException as error:
        text = str(error) if isinstance(error, PageError) else "".join(traceback.format_exception(error))
        answer = {"error": text}
    result.write_text(json.dumps(answer))
