"""The site as a browser shows it, from the disk. `make docs` prepares what the build needs."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import CHROMIUM, Page, chromium
from pages import ROOT

VENV = ROOT / "build" / "docs" / "venv"
INSTALLED, WANTED = VENV / "installed.txt", ROOT / "tools" / "docs_requirements.txt"
IS_PREPARED = (
    INSTALLED.exists()
    and INSTALLED.read_text() == WANTED.read_text()
    and (ROOT / "build" / "docs" / "mappings.json").exists()
)

pytestmark = [
    pytest.mark.skipif(not IS_PREPARED, reason="make docs has not been run, or not with what it needs now"),
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed"),
]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [VENV / "bin" / "mkdocs", "build", "--strict", "--site-dir", folder]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with chromium(tmp_path_factory.mktemp("browser")) as page:
        yield page


def shows(browser: Page, address: str, script: str) -> Any:
    """The value of the script as soon as it is true."""
    browser.send("Page.navigate", url=address)
    for _ in range(200):
        if value := browser.evaluate(script):
            assert not browser.errors
            return value
        time.sleep(0.05)
    raise AssertionError(f"{address} never shows {script}")


def test_both_languages_have_the_same_pages(site: Path) -> None:
    def pages(folder: Path) -> set[str]:
        return {path.relative_to(folder).as_posix() for path in folder.rglob("*.html")}

    chinese = pages(site / "zh")
    english = {page for page in pages(site) if not page.startswith("zh/") and page != "404.html"}
    assert english == chinese
    for folder in (site, site / "zh"):
        assert len(list((folder / "tutorial").glob("*.ipynb"))) == 7


@pytest.mark.parametrize(("folder", "headings"), [("", {"Parameters", "Returns"}), ("zh/", {"参数", "返回"})])
def test_the_headings_of_docstrings_are_in_the_language_of_the_page(
    folder: str, headings: set[str], site: Path
) -> None:
    page = (site / f"{folder}reference/python.html").read_text()
    found = set(re.findall(r'class="doc-section-title">(\w+)', page))
    assert headings <= found
    assert all(text.isascii() == (folder == "") for text in found)


def test_the_colours_follow_the_system(site: Path, browser: Page) -> None:
    scheme = "document.body?.getAttribute('data-md-color-scheme')"
    address = (site / "index.html").as_uri()
    try:
        for system, expected in (("light", "default"), ("dark", "slate"), ("light", "default")):
            features = [{"name": "prefers-color-scheme", "value": system}]
            browser.send("Emulation.setEmulatedMedia", features=features)
            shows(browser, address, f"{scheme} === '{expected}'")
    finally:
        browser.send("Emulation.setEmulatedMedia", features=[])


@pytest.mark.parametrize("folder", ["", "zh/"])
def test_a_reader_types_an_operator(folder: str, site: Path, browser: Page) -> None:
    address = (site / f"{folder}reference/mappings.html").as_uri()
    rows = "[...document.querySelectorAll('.filtered tbody tr')].filter(row => !row.hidden).map(row => row.innerText)"
    asked = "document.querySelector('.filtered input')?.value"
    [row] = shows(browser, f"{address}?h=aten.scatter_reduce", f"{asked} && {rows}")
    assert row.startswith("aten::scatter_reduce.two\t16\t")
    assert "ScatterElements" in row


@pytest.mark.parametrize("folder", ["", "zh/"])
def test_the_search_answers_with_the_mapping(folder: str, site: Path, browser: Page) -> None:
    search = """(() => {
        const field = document.querySelector('.md-search__input');
        if (!field) return '';
        if (field.value !== 'scatter_reduce') {
            document.querySelector('label[for=__search]').click();
            field.focus();
            field.value = 'scatter_reduce';
            field.dispatchEvent(new Event('keyup', {bubbles: true}));
            field.dispatchEvent(new Event('input', {bubbles: true}));
        }
        return document.querySelector('.md-search-result__link[href*="scatter_reduce.two"]')?.innerText;
    })()"""
    found = shows(browser, (site / f"{folder}index.html").as_uri(), search)
    assert "aten::scatter_reduce.two" in found
    assert "ScatterElements" in found


@pytest.mark.skipif(not (ROOT / "build" / "docs" / "fonts").exists(), reason="the font could not be fetched")
def test_chinese_characters_have_a_font(site: Path, browser: Page) -> None:
    wide = "[...document.querySelectorAll('.md-tabs__link')].every(word => word.getBoundingClientRect().width > 24)"
    assert shows(browser, (site / "zh" / "tutorial" / "verify.html").as_uri(), wide)
    assert "data:font/woff2" in (site / "zh" / "assets" / "three-links.svg").read_text()
