"""The generated parts of the site's reference: a line ``<!-- reference: WHAT NAME -->`` of a page becomes one of these.

They come from the headers, the command, the operators' README files, the mappings (tools/operator_forms.py) and the
measured tables of docs/. Titles of columns and the like are in the page's language, the rest as in the sources.
"""

from __future__ import annotations

import html
import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from header_reference import introduction, reference

ROOT = Path(__file__).resolve().parents[1]
MAPPINGS = ROOT / "build" / "docs" / "mappings.json"

_MARK = re.compile(r"^<!-- reference: (?P<what>\w+)(?: (?P<name>[\w./-]+))? -->$", re.MULTILINE)
# A schema line, or the name that a table of operators has.
_OPERATOR = re.compile(r'(?:"opbridge::|<")(\w+)[("]')

_CHINESE = {
    "PyTorch operator": "PyTorch 算子",
    "since opset": "起始 opset",
    "becomes": "转换结果",
    "from": "从",
    "operator": "算子",
    "model": "模型",
    "nodes": "节点数",
    "export": "导出",
    "passing cases": "通过的用例",
    "trace": "追踪",
    "standard ONNX": "标准 ONNX",
    "ONNX function": "ONNX 函数",
    "opbridge kernel": "opbridge 算子",
    "pass": "通过",
    "rounding": "舍入",
    "refused": "拒绝",
    "wrong": "结果错误",
    "runtime-failure": "运行失败",
    "error": "出错",
    "crash": "崩溃",
    "type a name": "输入名称",
    "every opset": "所有 opset",
    "no node": "没有节点",
    "the value itself": "就是输入值本身",
    "a constant": "是常量",
    "not an operator of the PyTorch with which this table was made": "生成此表所用的 PyTorch 没有该算子",
    # The reasons of UNREACHED in operator_examples.py.
    "torch cannot determine the sizes of its results, so no capture contains it; F.ctc_loss has nodes": (
        "torch 无法给出其结果的尺寸，因此没有捕获会得到它；F.ctc_loss 会变成节点"
    ),
    "PyTorch calls it only on some phones, and it has no sizes without a run; conv2d has nodes": (
        "PyTorch 只在某些手机上调用它，而且不运行就没有尺寸；conv2d 会变成节点"
    ),
}


class ReferenceError(Exception):
    """A page names a part of the reference that does not exist, or that has not been built."""


def expand(markdown: str, language: str) -> str:
    def part(mark: re.Match[str]) -> str:
        if mark["what"] not in _PARTS:
            raise ReferenceError(f"a page asks for the reference of {mark['what']!r}, which is not one of {[*_PARTS]}")
        return _PARTS[mark["what"]](mark["name"] or "", language)

    return _MARK.sub(part, markdown)


def _word(text: str, language: str) -> str:
    return _CHINESE.get(text, text) if language == "zh" else text


def _header(name: str, language: str) -> str:
    text = (ROOT / "include" / "opbridge" / name).read_text()
    return f"{introduction(text)}\n\n{reference(text, 3)}"


def _command(name: str, language: str) -> str:
    command = ROOT / "build" / os.environ.get("PRESET", "release") / "opbridge"
    if not command.exists():
        raise ReferenceError(f"there is no {command}: run make build")

    def help_of(*arguments: str) -> str:
        return subprocess.run([command, *arguments, "--help"], check=True, capture_output=True, text=True).stdout

    of_all = help_of()
    parts = [f"```text\n{of_all.strip()}\n```"]
    for subcommand in re.findall(r"^  ([a-z][\w-]*) {2,}\S", of_all.partition("Subcommands:")[2], re.MULTILINE):
        parts.append(f"## opbridge {subcommand}\n\n```text\n{help_of(subcommand).strip()}\n```")
    return "\n\n".join(parts)


def _operators(name: str, language: str) -> str:
    """The README files, with headings one level lower."""
    parts = []
    for page in sorted((ROOT / "operators").glob("*/README.md")):
        title, _, text = page.read_text().partition("\n")
        folder = page.parent.name
        text = re.sub(r"^#", "##", text, flags=re.MULTILINE)
        text = re.sub(r"\[([^\]]+)\]\(\.\./(\w+)/README\.md\)", r"[\1](#\2)", text)
        text = re.sub(r"\[([^\]]+)\]\((\w+\.\w+)\)", rf"\1 (`operators/{folder}/\2`)", text)
        parts.append(f"##{title} {{#{folder}}}\n{text.strip()}")
    return "\n\n".join(parts)


def _pages_of_operators() -> dict[str, str]:
    """The anchor of each operator that ships."""
    return {
        f"opbridge::{operator}": source.parent.name
        for source in (ROOT / "operators").glob("*/*.cc")
        if (source.parent / "README.md").exists()
        for operator in _OPERATOR.findall(source.read_text())
    }


def search_entries(language: str) -> list[dict[str, str]]:
    """The mappings as separate entries for the site's search, in which their table would be one long text."""
    entries = []
    for key, each in _read_mappings()["mappings"].items():
        forms = [
            f"{_word('from', language)} {opset}: {' '.join(nodes) or _without_nodes(each, language)}"
            for opset, nodes in each["becomes"]
        ]
        text = (
            f"{_word('since opset', language)} {each['since']}; {'; '.join(forms) or _why_empty(key, each, language)}"
        )
        entries.append({"location": f"reference/mappings.html#{key}", "title": key, "text": html.escape(text)})
    return entries


def _without_nodes(mapping: dict[str, Any], language: str) -> str:
    return f"{_word('no node', language)}{'：' if language == 'zh' else ': '}{_word(mapping['reason'], language)}"


def _why_empty(key: str, mapping: dict[str, Any], language: str) -> str:
    if not mapping["reason"]:
        raise ReferenceError(f"the row of {key} is empty, without a reason")
    return _word(mapping["reason"], language)


def _read_mappings() -> Any:
    if not MAPPINGS.exists():
        raise ReferenceError(f"there is no {MAPPINGS}: run make docs")
    return json.loads(MAPPINGS.read_text())


def _mappings(name: str, language: str) -> str:
    data = _read_mappings()
    pages = _pages_of_operators()

    def node(op: str) -> str:
        code = f"<code>{html.escape(op)}</code>"
        return f'<a href="operators.html#{pages[op]}">{code}</a>' if op in pages else code

    def becomes(key: str, mapping: dict[str, Any]) -> str:
        changes: list[tuple[int, list[str]]] = mapping["becomes"]
        if not changes:
            return f"<i>{html.escape(_why_empty(key, mapping, language))}</i>"
        is_always = len(changes) == 1 and changes[0][0] == first(mapping)
        forms = [
            ("" if is_always else f"{_word('from', language)} {opset}: ")
            + (" ".join(map(node, nodes)) or f"<i>{_without_nodes(mapping, language)}</i>")
            for opset, nodes in changes
        ]
        return "".join(
            f'<div data-from="{opset}">{form}</div>' for (opset, _), form in zip(changes, forms, strict=True)
        )

    def first(mapping: dict[str, Any]) -> int:
        return max(mapping["since"], data["opsets"][0])

    rows = [
        [f"<code>{html.escape(key)}</code>", str(first(each)), becomes(key, each)]
        for key, each in data["mappings"].items()
    ]
    opsets = f' data-opsets="{data["opsets"][0]} {data["opsets"][-1]}" data-every="{_word("every opset", language)}"'
    return _table(["PyTorch operator", "since opset", "becomes"], rows, language, opsets)


def _measured(name: str, language: str) -> str:
    """The last table of a page of docs/."""
    lines = (ROOT / "docs" / name).read_text().rstrip().splitlines()
    start = max(i for i, line in enumerate(lines) if re.match(r"\|[-:| ]+\|$", line))
    end = next((i for i in range(start, len(lines)) if not lines[i].startswith("|")), len(lines))
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[start - 1 : end]]
    rows = [[html.escape(_word(cell, language)) for cell in row] for row in cells[2:]]
    return _table(cells[0], rows, language)


def _summary(name: str, language: str) -> str:
    """The first table of a page of docs/, with the words of the language."""
    tables = re.findall(r"(?:^\|.*\n)+", (ROOT / "docs" / name).read_text(), re.MULTILINE)
    return re.sub(r"(?<=\| )[\w-]+(?= \|)", lambda word: _word(word[0], language), str(tables[0]))


def _versions(name: str, language: str) -> str:
    found = re.search(r"torch [\d.]+[\w+.]*, ONNX Runtime [\d.]+\d", (ROOT / "docs" / name).read_text())
    if found is None:
        raise ReferenceError(f"docs/{name} does not say which versions were measured")
    return found[0]


def _table(titles: list[str], rows: list[list[str]], language: str, attributes: str = "") -> str:
    """A table. assets/filter.js adds a search field to it, and a list of opsets if it has ``data-opsets``."""
    head = "".join(f"<th>{_word(title, language)}</th>" for title in titles)
    body = "\n".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    hint = _word("type a name", language)
    table = f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table>"
    return f'<div class="filtered" data-hint="{hint}"{attributes} data-search-exclude>{table}</div>'


_PARTS: dict[str, Callable[[str, str], str]] = {
    "header": _header,
    "command": _command,
    "operators": _operators,
    "mappings": _mappings,
    "measured": _measured,
    "summary": _summary,
    "versions": _versions,
}
