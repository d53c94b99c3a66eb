"""The generated reference of the site: tools/docs_reference.py, header_reference.py and operator_forms.py."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from browser import CHROMIUM, chromium
from command import OPBRIDGE
from pages import DOCS, ROOT

from opbridge.operators import read_operators
from opbridge.symbolics.registry import registry

pytest.importorskip("torchvision", reason="the examples of operators call torchvision's")
sys.path.insert(0, str(ROOT / "tools"))
import docs_reference
import operator_forms
from header_reference import introduction, reference

# Headers whose declarations are not for users: what templates of the others need, and the interface of libraries.
_NOT_ON_THE_SITE = {
    "operator_abi.h",
    "symbolic_signature.h",
    *(f"operator/{name}.h" for name in ("backward", "binding", "schema", "value")),
}

_HEADER = """\
// What a file has.
//
//   f(x);  // an example
#pragma once

#define OPBRIDGE_A(x) \\
  {x}

namespace opbridge {

class Forward;

// A thing, as in std::vector<Thing>.
class Thing : public Base {
 public:
  explicit Thing(int size) : size_(size) {}  // NOLINT
  // The size. In `elements`.
  int size() const { return size_ == '{' ? 1 : size_; }
  std::vector<int> values = {1, 2};

 private:
  int size_;
};

namespace detail {
int hidden();
}  // namespace detail

enum class Kind { one, two };

// Makes one.
template <class T>
Thing make(T value) {
  return Thing(value);
}

inline Thing::Thing(int size) { size_ = size; }

}  // namespace opbridge
"""


def test_a_header_becomes_its_public_declarations() -> None:
    assert introduction(_HEADER) == "What a file has.\n\n```cpp\nf(x);  // an example\n```"
    assert reference(_HEADER, 3) == (
        "### class Thing\n\nA thing, as in std::vector\\<Thing>.\n\n"
        "```cpp\nclass Thing : public Base {\n public:\n  explicit Thing(int size);\n"
        "  // The size. In `elements`.\n  int size() const;\n  std::vector<int> values = {1, 2};\n};\n```\n\n"
        "### enum class Kind\n\n```cpp\nenum class Kind { one, two };\n```\n\n"
        "### make\n\nMakes one.\n\n```cpp\ntemplate <class T>\nThing make(T value);\n```"
    )


def test_every_public_header_is_on_a_page() -> None:
    pages = "".join(page.read_text() for page in (DOCS / "reference").glob("cpp*.md"))
    shown = set(re.findall(r"<!-- reference: header (\S+) -->", pages))
    headers = {path.relative_to(ROOT / "include/opbridge").as_posix() for path in (ROOT / "include").rglob("*.h")}
    assert shown == headers - _NOT_ON_THE_SITE


@pytest.fixture
def mappings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "mappings.json"
    gelu = {"since": 9, "becomes": [[9, ["Erf"]], [20, ["Gelu"]]], "reason": ""}
    svd = {"since": 1, "becomes": [[9, ["opbridge::svd"]]], "reason": ""}
    path.write_text(json.dumps({"opsets": [9, 20], "mappings": {"aten::gelu": gelu, "aten::linalg_svd": svd}}))
    monkeypatch.setattr(docs_reference, "MAPPINGS", path)
    return path


@pytest.mark.skipif(not OPBRIDGE.exists(), reason="the command is not built")
@pytest.mark.parametrize("page", [*(DOCS / "reference").glob("*.md")], ids=lambda page: page.name)
def test_every_part_of_a_page_exists(page: Path, mappings: Path) -> None:
    language = "zh" if page.name.endswith(".zh.md") else "en"
    text = docs_reference.expand(page.read_text(), language)
    assert "<!-- reference" not in text
    if page.name.startswith("command"):
        assert "## opbridge convert\n" in text
        assert "--external-data" in text
        assert "## opbridge completion\n" in text
    if page.name.startswith("coverage"):
        assert f"<td>{'通过' if language == 'zh' else 'pass'}</td>" in text


def test_mappings_say_since_when_and_link_to_operators(mappings: Path) -> None:
    table = docs_reference.expand("<!-- reference: mappings -->", "en")
    assert "<td><code>aten::gelu</code></td><td>9</td>" in table
    assert (
        '<div data-from="9">from 9: <code>Erf</code></div><div data-from="20">from 20: <code>Gelu</code></div>' in table
    )
    assert '<a href="operators.html#linalg"><code>opbridge::svd</code></a>' in table


def write_rows(path: Path, **rows: Any) -> None:
    path.write_text(json.dumps({"opsets": [9, 20], "mappings": {f"aten::{name}": row for name, row in rows.items()}}))


@pytest.mark.parametrize(
    ("language", "itself", "unreached", "start"),
    [
        ("en", "no node: the value itself", "torch cannot determine", "from"),
        ("zh", "没有节点：就是输入值本身", "torch 无法", "从"),
    ],
)
def test_rows_without_nodes_say_why(language: str, itself: str, unreached: str, start: str, mappings: Path) -> None:
    write_rows(
        mappings,
        detach={"since": 9, "becomes": [[9, []]], "reason": "the value itself"},
        _ctc_loss={"since": 9, "becomes": [], "reason": operator_forms.operator_examples.UNREACHED["aten::_ctc_loss"]},
        late={"since": 9, "becomes": [[16, ["Mod"]]], "reason": ""},
    )
    table = docs_reference.expand("<!-- reference: mappings -->", language)
    assert f'<div data-from="9"><i>{itself}</i></div>' in table
    assert f"<td><i>{unreached}" in table
    assert f'<div data-from="16">{start} 16: <code>Mod</code></div>' in table  # its calls are refused before
    texts = [entry["text"] for entry in docs_reference.search_entries(language)]
    assert itself in texts[0]
    assert unreached in texts[1]


def test_an_empty_row_without_a_reason_is_an_error(mappings: Path) -> None:
    row = {"since": 9, "becomes": [], "reason": ""}
    write_rows(mappings, gelu=row)
    for language in ("en", "zh"):
        with pytest.raises(docs_reference.ReferenceError, match=r"aten::gelu is empty"):
            docs_reference.expand("<!-- reference: mappings -->", language)
        with pytest.raises(docs_reference.ReferenceError, match=r"aten::gelu is empty"):
            docs_reference.search_entries(language)
    unreached = {key: row | {"reason": "why"} for key in operator_forms.operator_examples.UNREACHED}
    operator_forms.check_reasons(unreached)
    with pytest.raises(LookupError, match=r"no call reaches aten::gelu: write examples"):
        operator_forms.check_reasons({**unreached, "aten::gelu": row})
    with pytest.raises(LookupError, match="remove what it reaches from UNREACHED"):
        operator_forms.check_reasons({key: row | {"becomes": [[9, ["Mod"]]]} for key in unreached})


def test_an_operator_that_this_torch_lacks_has_a_reason() -> None:
    assert operator_forms._reason("aten::gelu_of_old", []) == operator_forms.OF_ANOTHER_TORCH
    assert operator_forms._reason("aten::gelu", []) == ""
    assert operator_forms._reason("aten::add", []) == ""  # of overloads alone


def test_the_reasons_are_in_chinese_too() -> None:
    named = {"the value itself", "a constant", operator_forms.OF_ANOTHER_TORCH}
    reasons = named | {*operator_forms.operator_examples.UNREACHED.values()}
    assert reasons <= {*docs_reference._CHINESE}


@pytest.mark.skipif(not docs_reference.MAPPINGS.exists(), reason="make docs writes the mappings")
def test_no_row_is_empty_without_a_reason() -> None:
    operator_forms.check_reasons(json.loads(docs_reference.MAPPINGS.read_text())["mappings"])


def test_the_search_finds_each_mapping(mappings: Path) -> None:
    gelu, svd = docs_reference.search_entries("en")
    assert gelu == {
        "location": "reference/mappings.html#aten::gelu",
        "title": "aten::gelu",
        "text": "since opset 9; from 9: Erf; from 20: Gelu",
    }
    assert svd["title"] == "aten::linalg_svd"


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")
def test_a_table_is_searched(mappings: Path, tmp_path: Path) -> None:
    table = docs_reference.expand("<!-- reference: mappings -->", "en")
    script = (DOCS / "assets/filter.js").read_text()
    page = tmp_path / "page.html"
    ready = "document.documentElement.dataset.ready = 1"
    page.write_text(
        f"<!doctype html>{table}<script>document$ = {{subscribe: run => run()}};\n{script}\n{ready}</script>"
    )
    shown = "[...document.querySelectorAll('tbody tr')].filter(row => !row.hidden).map(row => row.cells[0].innerText)"
    with chromium(tmp_path / "browser") as browser:
        browser.open(page)
        assert browser.evaluate(shown) == ["aten::gelu", "aten::linalg_svd"]
        gelu = ["aten::gelu"]
        for typed, found in (
            ("aten.gelu", gelu),
            ("aten::gelu.default", gelu),
            ("torch.ops.aten.gelu.default", gelu),
            ("torch.nn.functional.gelu", gelu),
            ("F.gelu", gelu),
            ("svd", ["aten::linalg_svd"]),
            ("Gelu nothing", []),
        ):
            field = f"field = document.querySelector('input'); field.value = {typed!r};"
            browser.evaluate(f"{field} field.dispatchEvent(new Event('input'))")
            assert browser.evaluate(shown) == found
        assert browser.evaluate("document.querySelector('input ~ span').textContent") == "0 / 2"
        forms = "[...document.querySelectorAll('[data-from]')].filter(form => !form.hidden).map(form => form.innerText)"
        for opset, found in (
            ("", ["from 9: Erf", "from 20: Gelu", "opbridge::svd"]),
            ("19", ["from 9: Erf", "opbridge::svd"]),
            ("20", ["from 20: Gelu", "opbridge::svd"]),
        ):
            browser.evaluate("field.value = ''")
            list_ = f"list = document.querySelector('select'); list.value = {opset!r};"
            browser.evaluate(f"{list_} list.dispatchEvent(new Event('input'))")
            assert browser.evaluate(forms) == found
        assert not browser.errors


def test_a_mark_of_nothing_is_an_error() -> None:
    with pytest.raises(docs_reference.ReferenceError, match="not one of"):
        docs_reference.expand("<!-- reference: nothing -->", "en")


def test_every_operator_that_ships_is_described() -> None:
    described = docs_reference._pages_of_operators()
    shipped = {operator.name for operator in read_operators() if operator.backward_of is None}
    assert shipped <= set(described)
    folders = {path.parent.name for path in (ROOT / "operators").glob("*/README.md")}
    for page in ("operators.md", "operators.zh.md"):
        listed = set(re.findall(r"\]\(#(\w+)\)", (DOCS / "reference" / page).read_text()))
        assert listed == folders, f"the table of docs/reference/{page} and the folders in operators/ differ"


def test_examples_have_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operator_forms, "OPSETS", [21])
    forms = operator_forms.example_forms()
    assert forms["higher_order::cond"][21] == ["If"]
    without_nodes = {key for key, by_opset in forms.items() if not all(by_opset.values())}
    assert without_nodes == {"aten::_dim_arange"}  # of a constant size
    assert operator_forms._reason("aten::_dim_arange", [[]]) == "a constant"
    assert not {*forms} & {*operator_forms.operator_examples.UNREACHED}
    assert {*forms} <= {key for key, *_ in registry().entries()}


def test_forms_of_an_operator_by_opset() -> None:
    forms: Any = operator_forms.forms_of("nn.functional.gelu")
    assert "Erf" in forms["aten::gelu"][9]
    drawn: Any = operator_forms.drawn_forms_of("aten::_softmax")  # no entry of the database
    assert "Softmax" in drawn["aten::_softmax"][21]
    replaced: Any = operator_forms.drawn_forms_of("aten::alias_copy")
    assert replaced["aten::alias_copy"][21] == []  # an operator without nodes, of which the capture makes another one
    row = {"since": 9, "becomes": [(9, [])], "reason": "the value itself"}
    assert operator_forms.table(replaced)["aten::alias_copy"] == row
    some: Any = {"aten::cumsum": {9: [], 11: ["CumSum"]}}  # at 9 of a number alone
    row = {"since": 9, "becomes": [(11, ["CumSum"])], "reason": ""}
    assert operator_forms.table(some)["aten::cumsum"] == row
    assert operator_forms.table({"aten::hann_window": {9: []}})["aten::hann_window"]["reason"] == "a constant"
    table = operator_forms.table(forms)
    assert table["aten::gelu"]["becomes"][-1] == (20, ["Gelu"])
    assert {*table} == {key for key, *_ in registry().entries() if not key.startswith(operator_forms.OF_SIZES)}
    assert table["aten::scatter_reduce.two"]["since"] == 16
    scattered: Any = operator_forms.forms_of("scatter_add")
    assert min(scattered["aten::scatter_add"]) == 16  # and not "no node" where there is no mapping
