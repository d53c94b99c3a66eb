"""Gives the site the Chinese characters that its pages contain, as a font.

The font comes from tools/fetch_chinese_font.sh. Browsers use it for readers who have none of the usual ones, also in
pictures, which see no style sheet.
"""

from __future__ import annotations

import base64
import io
import re
from pathlib import Path

from fontTools import subset

SOURCE = Path("build/docs/fonts/chinese.ttf")
FAMILY = "Noto Sans CJK SC"  # that of docs/assets/site.css and of docs/assets/*.zh.svg
_OF_READERS = ("PingFang SC", "Microsoft YaHei", FAMILY)
CHINESE = "\u3000-\u303f\u4e00-\u9fff\uff00-\uffef"  # for a set of characters in a regular expression
_CHARACTERS = re.compile(f"[{CHINESE}]")
_RANGE = ", ".join(f"U+{ord(first):X}-{ord(last):X}" for first, last in re.findall("(.)-(.)", CHINESE))


def add_font(site: Path) -> None:
    """Adds the font to the style sheet of the site's folder, and to pictures; does nothing if there is none."""
    style = site / "assets" / "site.css"
    if not SOURCE.exists() or "@font-face" in style.read_text():  # the hook runs once for each language
        return
    texts = [path.read_text() for path in sorted(site.rglob("*.html"))]
    style.write_text(f"{style.read_text()}\n{_rule(''.join(texts))}\n")
    for picture in site.rglob("*.svg"):
        text = picture.read_text()
        if _CHARACTERS.search(text):
            picture.write_text(text.replace("<style>", f"<style>{_rule(text)} ", 1))


def _rule(text: str) -> str:
    """The rule of CSS for a font with the characters of the text."""
    font = f"url(data:font/woff2;base64,{base64.b64encode(_font_of(text)).decode()})"
    sources = ", ".join([*(f'local("{name}")' for name in _OF_READERS), font])
    return f'@font-face {{ font-family: "{FAMILY}"; src: {sources}; unicode-range: {_RANGE} }}'


def _font_of(text: str) -> bytes:
    options = subset.Options(flavor="woff2", notdef_outline=True)
    font = subset.load_font(str(SOURCE), options)
    subsetter = subset.Subsetter(options)
    subsetter.populate(text="".join(set(_CHARACTERS.findall(text))))
    subsetter.subset(font)
    file = io.BytesIO()
    subset.save_font(font, file, options)
    return file.getvalue()
