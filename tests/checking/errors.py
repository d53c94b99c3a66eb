"""The text of an error in one line."""

from __future__ import annotations

import re

import opbridge


def first_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:400]}"


def reason(error: opbridge.UnsupportedError) -> str:
    """The operators without a mapping and the reasons of refusals, without locations and advice."""
    reasons = re.findall(r"^  (\S.*?)  \(\d+ calls?\)$", str(error), re.MULTILINE)
    if not reasons:
        return " ".join(str(error).split())[:400]
    return "; ".join(
        f"no mapping: {reason}" if re.fullmatch(r"[\w.]+::[\w.]+", reason) else reason for reason in reasons
    )
