"""Silences torch's log messages during a capture. opbridge's own errors and warnings report the outcome."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator

from opbridge.torch_compat.exporting import LOGGER_OF_FAKE_TENSORS
from opbridge.torch_compat.symbols import LOGGER


@contextlib.contextmanager
def silence_torch_logs() -> Iterator[None]:
    """Lets the loggers of fake tensors and of symbolic sizes drop the records of this thread."""
    thread = threading.get_ident()

    def is_from_elsewhere(record: logging.LogRecord) -> bool:
        return record.thread != thread

    loggers = [logging.getLogger(name) for name in (LOGGER_OF_FAKE_TENSORS, LOGGER)]
    for logger in loggers:
        logger.addFilter(is_from_elsewhere)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(is_from_elsewhere)
