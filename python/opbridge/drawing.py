"""Draws on a terminal with rich. Without a terminal, neither this module nor rich is imported."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleRenderable
from rich.control import Control
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.segment import ControlType
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from opbridge.progress import ProgressLine

_GIGABYTE = 1e9


class Line(Live):
    """The current step of a call, with a bar and its time."""

    def __init__(self, progress: ProgressLine, stream: TextIO) -> None:
        self._progress = progress
        # Without redirections: these would replace sys.stdout, which the model may replace too.
        super().__init__(
            console=Console(file=stream, force_jupyter=False),
            refresh_per_second=10,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
            get_renderable=self._drawn,
        )

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        """Returns the cursor to the start, so that a warning replaces the line instead of following it."""
        return [*super().process_renderables(renderables), Control(ControlType.CARRIAGE_RETURN)]

    def _drawn(self) -> Table:
        now = self._progress
        row: list[Text | ProgressBar] = [Text.assemble("opbridge: ", (now.step, "bold"))]
        row.append(ProgressBar(total=now.total or None, completed=now.done, width=24, pulse=not now.total))
        if now.total:
            row.append(Text(f"{now.done / _GIGABYTE:.1f} of {now.total / _GIGABYTE:.1f} GB"))
        row.append(Text(f"{time.monotonic() - now.began:.0f} s", "cyan"))
        line = Table.grid(padding=(0, 1))
        for _ in row:
            line.add_column(no_wrap=True)
        line.add_row(*row)
        return line


def drawn_table(rows: Sequence[Sequence[str]], terminal: TextIO, *, numbers_from: int, wrong: Sequence[bool]) -> str:
    """A table that fits into the width of a terminal, in its colours.

    Args:
        rows: The titles, and the rows.
        terminal: The terminal that will show the table.
        numbers_from: The index of the first column of numbers.
        wrong: For each row, whether it is red.
    """
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    for index, cells in enumerate(zip(*rows, strict=True)):
        if index < numbers_from:
            table.add_column(cells[0], overflow="fold")
        else:  # its title may be wrapped, but no number
            longest = max(len(word) for cell in cells for word in cell.split())
            table.add_column(cells[0], justify="right", min_width=longest)
    for row, is_wrong in zip(rows[1:], wrong, strict=True):
        table.add_row(*map(Text, row), style="red" if is_wrong else None)
    console = Console(file=terminal, force_jupyter=False)
    with console.capture() as drawn:
        console.print(table)
    return drawn.get().rstrip("\n")
