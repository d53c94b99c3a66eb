"""Errors of a run that the model itself catches."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TypeVar

from opbridge.capture.run_warnings import warn_of_run_at
from opbridge.capture.source import line_text, users_frame
from opbridge.errors import Error, UnsupportedError
from opbridge.torch_compat.messages import is_branch_on_data, is_of_different_sizes

T = TypeVar("T")


class Caught:
    """Keeps the first error that an operator or a size raises, since the model may catch it."""

    def __init__(self) -> None:
        self._error: BaseException | None = None
        self._location = ("", 0, "")

    def note(self, error: BaseException) -> None:
        if self._error is None or (isinstance(error, Error) and not isinstance(self._error, Error)):
            frame = users_frame(sys._getframe(1)) or sys._getframe(1)
            self._error = error
            self._location = (frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)

    def forget(self, error: BaseException) -> None:
        """Drops an error that the capture itself has caught."""
        if self._error is error:
            self._error = None

    def ignoring(self, call: Callable[[], T]) -> T:
        """``call()``, the errors of which torch itself catches."""
        before = self._error, self._location
        try:
            return call()
        finally:
            self._error, self._location = before

    def report(self, are_others: bool) -> None:
        """Raises a refusal of opbridge again, and that of a branch by data, and warns of any other error. Refuses one
        of sizes that do not broadcast if they ``are_others`` than those of the example. Call it after the model has
        returned."""
        if isinstance(self._error, Error) or (self._error is not None and is_branch_on_data(self._error)):
            raise self._error
        if self._error is None:
            return
        text = next(iter(str(self._error).splitlines()), "")[:120]
        what = f"the model caught an error ('{type(self._error).__name__}: {text}')"
        if are_others and is_of_different_sizes(self._error):
            raise UnsupportedError(
                f"{what}, perhaps only because a capture takes 2 for a dynamic size that is 1 in the example; give an "
                "example of another size",
                line_text(*self._location),
            )
        warn_of_run_at(what, self._location)
