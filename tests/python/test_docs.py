"""The pages of the site: every block runs, prints what the page shows, and leaves the model that its picture draws.

OPBRIDGE_UPDATE_DOCS=1 writes what the blocks print, and the pictures, into the pages of both languages.
"""

from __future__ import annotations

import importlib.util
import json
import multiprocessing
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pages
import pytest
from command import BUILD, OPBRIDGE
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from pages import DOCS, ROOT, Block, Printed

sys.path.insert(0, str(ROOT / "tools"))
import notebooks

UPDATE = os.environ.get("OPBRIDGE_UPDATE_DOCS") == "1"

# Pages that are read in the repository, in one language: they do not belong to the site.
_EXCLUDED = (ROOT / "mkdocs.yml").read_text().partition("exclude_docs: |\n")[2].partition("\n\n")[0].split()

ENGLISH = sorted(page for page in DOCS.rglob("*.md") if not page.name.endswith(".zh.md"))
RUN = [page for page in ENGLISH if f"/{page.relative_to(DOCS).as_posix()}" not in _EXCLUDED]
SOURCES = [("python/opbridge", ".py"), ("src", ".cc"), ("include", ".h"), ("operators/sdk", ".cc")]
FOLDER = ROOT / "build" / "docs" / "pages"
_PICTURE = re.compile(r"!\[[^\]]*\]\((images/(?P<name>[\w-]+)\.svg)\)")


def _id(page: Path) -> str:
    return page.relative_to(DOCS).with_suffix("").as_posix()


def _chinese(page: Path) -> Path:
    return page.with_suffix(".zh.md")


@pytest.fixture(scope="module")
def server() -> Iterator[Any]:
    """Starts a process for each page from one that has imported torch."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch", "torchvision", "onnxruntime", "onnx", "onnxscript", "opbridge.exporter"])
    extensions = FOLDER.parent / "extensions"
    for lock in extensions.glob("*/lock"):
        lock.unlink()  # of a run that was killed; torch would wait for it
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "python"), str(Path(__file__).parent)]))
        patch.setenv("PATH", os.pathsep.join([str(BUILD), str(Path(sys.executable).parent)]), prepend=os.pathsep)
        patch.setenv("OPBRIDGE", str(ROOT))
        patch.setenv("TORCH_EXTENSIONS_DIR", str(extensions))
        yield context


@pytest.fixture(scope="module")
def draw() -> Any:
    spec = importlib.util.spec_from_file_location("draw_graph", ROOT / "tools" / "draw_graph.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.draw


@pytest.mark.skipif(not OPBRIDGE.exists(), reason="the command is not built")
@pytest.mark.parametrize("page", RUN, ids=_id)
def test_blocks_of(page: Path, server: Any, draw: Any, tmp_path: Path) -> None:
    folder = FOLDER / _id(page).replace("/", "-")  # kept: a C++ extension takes 20 seconds to compile
    folder.mkdir(parents=True, exist_ok=True)
    answer = _answer(server, page, folder, tmp_path / "answer.json")
    wrong = [printed for printed in answer if not printed.agrees]
    if UPDATE:
        _write_outputs(page, wrong)
    else:
        assert not wrong, "\n".join(f"{page.name}:{each.first} is\n{each.actual}not\n{each.expected}" for each in wrong)

    for picture in _PICTURE.finditer(page.read_text()):
        drawn, path = draw(folder / f"{picture['name']}.onnx"), page.parent / picture[1]
        if UPDATE:
            path.parent.mkdir(exist_ok=True)
            path.write_text(drawn)
        assert path.read_text() == drawn, f"{path.name} is not the picture of the model: OPBRIDGE_UPDATE_DOCS=1"


def _answer(server: Any, page: Path, folder: Path, result: Path) -> list[Printed]:
    process = server.Process(target=pages.run_in_child, args=(page, folder, result))
    process.start()
    process.join()
    assert process.exitcode == 0, f"the process that ran {page.name} ended with {process.exitcode}"
    answer = json.loads(result.read_text())
    _skip_without_torchvision(answer.get("error", ""))
    assert "error" not in answer, answer["error"]
    return [Printed(*fields) for fields in answer["printed"]]


def _skip_without_torchvision(error: str) -> None:
    if "No module named 'torchvision'" in error:
        pytest.skip("torchvision is not installed")


def _write_outputs(page: Path, wrong: list[Printed]) -> None:
    lines = page.read_text().splitlines(keepends=True)
    for each in reversed(wrong):
        indent = next(block.indent for block in reversed(_code(page)) if block.line <= each.first)
        lines[each.first - 1 : each.last - 1] = [indent + line for line in each.renewed()]
    page.write_text("".join(lines))
    _copy_blocks(page, _chinese(page))


def _copy_blocks(page: Path, translation: Path) -> None:
    lines = translation.read_text().splitlines(keepends=True)
    pairs = zip(_code(page), _code(translation), strict=True)
    for ours, theirs in reversed(list(pairs)):
        start, count = theirs.line - 1, theirs.written.count("\n")
        lines[start : start + count] = [theirs.indent + each for each in ours.written.splitlines(keepends=True)]
    translation.write_text("".join(each if each.strip() else "\n" for each in lines))


def _code(page: Path) -> list[Block]:
    return [block for block in pages.blocks(page) if block.language]


@pytest.mark.skipif(not OPBRIDGE.exists(), reason="the command is not built")
@pytest.mark.parametrize("chapter", notebooks.CHAPTERS)
@pytest.mark.usefixtures("server")  # for its environment
def test_notebook_runs_from_top_to_bottom(chapter: str) -> None:
    book = notebooks.notebook(DOCS / "tutorial" / f"{chapter}.md")
    shown = [bool(cell.outputs) for cell in book.cells if cell.cell_type == "code"]
    folder = FOLDER / f"tutorial-{chapter}"  # that of the page, so that an extension is compiled once
    folder.mkdir(parents=True, exist_ok=True)
    try:
        NotebookClient(book, timeout=300, resources={"metadata": {"path": folder}}).execute()
    except CellExecutionError as error:
        _skip_without_torchvision(error.evalue)
        raise
    cells = [cell for cell in book.cells if cell.cell_type == "code"]
    assert len(cells) > 3
    for cell, prints in zip(cells, shown, strict=True):
        printed = [output for output in cell.outputs if output.output_type == "stream" and output.name == "stdout"]
        writes = cell.source.startswith("%%writefile")
        assert bool(printed) == (prints or writes), cell.source


@pytest.mark.parametrize("page", RUN, ids=_id)
def test_chinese_page_has_the_blocks_and_pictures_of(page: Path) -> None:
    def code(path: Path) -> list[tuple[str, str | None, str]]:
        return [(each.language, each.title, each.written) for each in _code(path)]

    chinese = _chinese(page)
    assert chinese.exists(), f"{chinese.name} is missing"
    assert code(chinese) == code(page)
    pictures = [[match[1] for match in _PICTURE.finditer(path.read_text())] for path in (page, chinese)]
    assert pictures[0] == pictures[1]


def test_every_chinese_page_has_an_english_one() -> None:
    assert set(DOCS.rglob("*.zh.md")) == {_chinese(page) for page in RUN}


def _anchors(page: Path) -> list[str]:
    text = re.sub(r"^ *```.*?^ *```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    return [_anchor(heading) for heading in re.findall(r"^##+ (.*)$", text, flags=re.MULTILINE)]


def test_headings_of_both_languages_have_the_same_anchors() -> None:
    for page in RUN:
        assert _anchors(_chinese(page)) == _anchors(page), page.name


def test_links_lead_somewhere() -> None:
    for page in [*DOCS.rglob("*.md"), *ROOT.glob("*.md")]:
        for path, anchor in re.findall(r"\]\((?!https?:)([\w./-]+)(?:#([\w-]+))?\)", page.read_text()):
            target = page.parent / path
            assert target.exists(), f"{page.name} links to {path}"
            assert not anchor or anchor in _anchors(target), f"{page.name} links to {path}#{anchor}"


def _anchor(heading: str) -> str:
    given = re.search(r"\{#([\w-]+)\}$", heading)
    return given[1] if given else re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower())


def test_both_languages_have_the_same_messages() -> None:
    messages, translated = (
        [
            (message, re.findall(r"\]\((.+?)\)", page))
            for message, page in re.findall(
                r"^\| (`[^|]+`.*?) \| .* \| (.*) \|$", (DOCS / name).read_text(), flags=re.MULTILINE
            )
        ]
        for name in ("errors.md", "errors.zh.md")
    )
    assert len(messages) > 60
    assert messages == translated


def test_every_message_of_the_table_exists() -> None:
    sources = [path for folder, suffix in SOURCES for path in (ROOT / folder).rglob(f"*{suffix}")]
    # Literals that go on in the next line are one text.
    text = re.sub(r'"\s*\n\s*f?"', "", "\n".join(path.read_text() for path in sources)).replace('\\"', '"')
    rows = re.findall(r"^\| `([^|]+)`( \(ONNX Runtime\))? \|", (DOCS / "errors.md").read_text(), flags=re.MULTILINE)
    assert len(rows) > 20
    missing = [row for row, foreign in rows if not foreign for part in row.split("…") if part.strip() not in text]
    assert not missing


@pytest.mark.parametrize(
    ("expected", "actual", "agrees"),
    [
        ("a\n", "a\n", True),
        ("a\n", "b\n", False),
        ("a … c\n", "a b c\n", True),
        ("a\n…\nd\n", "a\nb\nc\nd\n", True),
        ("a\n…\nd\n", "a\nb\nc\n", False),
        ("a\n", "a\nb\n", False),
    ],
)
def test_dots_stand_for_text(expected: str, actual: str, agrees: bool) -> None:
    assert Printed(1, 2, expected, actual).agrees == agrees


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("```python\nprint(1)\n```\n", "prints what the page does not show"),
        ("```python\n1 / 0\n```\n", "ZeroDivisionError"),
        ("```console\n$ false\n```\n", "false fails"),
        ("```console\n$ pip install torch\ndone\n```\n", "output of a command that is not run"),
        ("```output\n1\n```\n", "output without a python block"),
        ("```cpp\nint x;\n```\n", "needs a title"),
        ('```cpp\n--8<-- "examples/cpp/convert/main.cc:none"\n```\n', "has no section none"),
        ("```python\n", "is not closed"),
    ],
)
def test_a_page_that_does_not_run_fails(text: str, message: str, server: Any, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(text)
    folder = tmp_path / "run"
    folder.mkdir()
    with pytest.raises(AssertionError, match=message):
        _answer(server, page, folder, tmp_path / "answer.json")
