"""Hooks of mkdocs.

The build fails if a page lacks its translation, or if a page would fetch something from the network. Lines of Chinese
text are joined without the space that HTML makes of a line's end. Each language searches its own pages.
"""

from __future__ import annotations

import json
import posixpath
import re
import sys
from pathlib import Path
from typing import Any

import nbformat
from mkdocs.exceptions import PluginError
from mkdocs.plugins import event_priority
from mkdocstrings import MkdocstringsExtension

sys.path.insert(0, str(Path(__file__).parent))
from docs_font import CHINESE, add_font
from docs_reference import ReferenceError, expand, search_entries
from notebooks import CHAPTERS, notebook

_SUFFIX = ".zh.md"
# Whatever a browser loads by itself, unlike the links that a reader follows.
_FETCHED = re.compile(
    r"""<(?:script|img|iframe|source)\b[^>]*\bsrc=["']?(?:https?:)?//[^>]*>"""
    r"""|<link\b[^>]*\brel=["']?(?:stylesheet|preload|preconnect|icon)\b[^>]*\bhref=["']?(?:https?:)?//[^>]*>"""
)

_PUNCTUATION = "\u3001\u3002\uff01\uff09\uff0c\uff1a\uff1b\uff1f"  # fullwidth characters, which contain a space
_LINE_END = re.compile(rf"(?<=[{CHINESE}])\n *(?=[{CHINESE}])|(?<=[{_PUNCTUATION}])\n *(?=[\w`\[])(?!\d+\. )")
# In Python, a snippet is named in a comment, so that ruff can format the block.
_SNIPPET = re.compile(r'^( *)# (--8<-- ")', re.MULTILINE)
_LINK = re.compile(r"(?<!!)\[(?P<text>[^\]]+)\]\((?P<path>[\w./-]+)(?:#[\w-]+)?\)")
_BLOCK = re.compile(r"^( *```.*?^ *```$)", re.DOTALL | re.MULTILINE)


@event_priority(100)  # before mkdocstrings
def on_config(config: Any) -> Any:
    """Gives each language the headings of docstrings in its own words.

    mkdocstrings adds an extension for each language. The extension of the previous language would render the pages
    first.
    """
    config.plugins["mkdocstrings"].config["locale"] = config.plugins["i18n"].current_language or "en"
    config.markdown_extensions[:] = [
        each for each in config.markdown_extensions if not isinstance(each, MkdocstringsExtension)
    ]
    return config


def on_files(files: Any, config: Any) -> Any:
    pages = {file.src_uri for file in files if file.src_uri.endswith(".md") and file.inclusion.is_included()}
    english = {page for page in pages if not page.endswith(_SUFFIX)}
    missing = [page.removesuffix(".md") + _SUFFIX for page in english]
    missing = sorted({*missing, *(page.removesuffix(_SUFFIX) + ".md" for page in pages - english)} - pages)
    if missing:
        raise PluginError(f"pages without a translation; these are missing: {', '.join(missing)}")
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    chapter = Path(page.file.src_uri).name.partition(".")[0]
    if chapter in CHAPTERS:
        words = "下载本章的 Jupyter 笔记本" if page.file.src_uri.endswith(_SUFFIX) else "This chapter as a notebook"
        link = f'<a class="notebook" href="{chapter}.ipynb" download>{words}</a>'
        markdown = re.sub(r"\A(# .*\n)", rf"\1\n{link}\n", markdown)
    markdown = _SNIPPET.sub(r"\1\2", markdown)
    markdown = _LINK.sub(lambda link: _within_site(link, page, files), markdown)
    if not page.file.src_uri.endswith(_SUFFIX):
        return _with_reference(markdown, "en")
    parts = _BLOCK.split(markdown)
    return _with_reference("".join(part if _BLOCK.match(part) else _LINE_END.sub("", part) for part in parts), "zh")


def _with_reference(markdown: str, language: str) -> str:
    try:
        return expand(markdown, language)
    except ReferenceError as error:
        raise PluginError(str(error)) from error


def _within_site(link: re.Match[str], page: Any, files: Any) -> str:
    """A link to a file of the repository that is not a page of the site becomes the file's path."""
    target = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page.file.src_uri), link["path"]))
    file = files.get_file_from_path(target.removeprefix("docs/"))
    if (file is not None and file.inclusion.is_included()) or not Path(target).exists():
        return link[0]
    text, path = link["text"], f"`{target}`"
    return path if text in (target, posixpath.basename(target)) else f"{text} ({path})"


def on_post_page(output: str, page: Any, config: Any) -> str:
    fetched = _FETCHED.search(output)
    if fetched:
        raise PluginError(f"{page.file.src_uri} loads from the network: {fetched[0]}")
    if page.file.src_uri.endswith(_SUFFIX):  # the theme looks for the index below this folder
        output = re.sub(r'"base": "(?:\.\./)?(\.\.)"', lambda match: _chinese_base(match[0]), output, count=1)
    return output


def _chinese_base(setting: str) -> str:
    return setting.replace("../..", "..") if "../.." in setting else setting.replace("..", ".")


@event_priority(-200)  # after the plugin `offline`, which writes the index a second time as a script
def on_post_build(config: Any) -> None:
    """Splits the index, which has the pages of all languages, and writes the notebooks and the font."""
    site = Path(config.site_dir)
    path = site / "search" / "search_index.json"
    index = json.loads(path.read_text()) if path.exists() else {"docs": []}
    chinese = [page for page in index["docs"] if page["location"].startswith("zh/")]
    if not chinese:
        return
    add_font(site)
    english = [page for page in index["docs"] if page not in chinese]
    for page in chinese:
        page["location"] = page["location"].removeprefix("zh/")
    for folder, pages, language in ((site, english, "en"), (site / "zh", chinese, "zh")):
        pages = pages + search_entries(language)
        text = json.dumps({"config": {**index["config"], "lang": [language]}, "docs": pages}, ensure_ascii=False)
        (folder / "search").mkdir(exist_ok=True)
        (folder / "search" / "search_index.json").write_text(text)
        (folder / "search" / "search_index.js").write_text(f"var __index = {text}")
        (folder / "tutorial").mkdir(exist_ok=True)
        for chapter in CHAPTERS:
            page = Path(config.docs_dir) / "tutorial" / f"{chapter}{_SUFFIX if language == 'zh' else '.md'}"
            nbformat.write(notebook(page), folder / "tutorial" / f"{chapter}.ipynb")
