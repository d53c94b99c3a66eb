"""What an error says, in one line."""

from __future__ import annotations

import re

import opbridge


def first_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:400]}"


def reason(error: opbridge.UnsupportedError) -> str:
    """Which operators have no mapping and what is refused; not where, nor what would help."""
    reasons = re.findall(r"^  (\S.*?)  \(\d+ calls?\)$", str(error), re.MULTILINE)
    if not reasons:
        return " ".join(str(error).split())[:400]
    return "; ".join(
        f"no mapping: {reason}" if re.fullmatch(r"[\w.]+::[\w.]+", reason) else reason for reason in reasons
    )
