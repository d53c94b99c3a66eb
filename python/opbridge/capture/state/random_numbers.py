"""Random numbers that a model draws from Python's and NumPy's generators, which are constants of a captured program."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from typing import Any

import numpy
import torch

from opbridge.capture.inputs import Inputs
from opbridge.capture.run_warnings import warn_of_run
from opbridge.capture.state.attributes import restore_attributes
from opbridge.capture.state.second_call import agree, called


@contextlib.contextmanager
def restore_generators() -> Iterator[list[str]]:
    """Restores the generators that functions of ``random`` and ``numpy.random`` use. Yields a list that has the names
    of those that were used once the run has ended."""
    of_python, of_numpy, used = random.getstate(), numpy.random.get_state(), list[str]()
    try:
        yield used
    finally:
        if random.getstate() != of_python:
            used.append("random")
            random.setstate(of_python)
        if not all(map(numpy.array_equal, of_numpy, numpy.random.get_state())):
            used.append("numpy.random")
            numpy.random.set_state(of_numpy)


def warn_of_drawn_numbers(model: torch.nn.Module, inputs: Inputs, used: list[str]) -> None:
    """Warns if what the model returns depends on the generators ``used``: a model may set their seeds itself."""
    with restore_attributes(model, *inputs.others) as attributes:
        results: list[Any] = []
        for seed in (1, 2):
            attributes.put_back()
            random.seed(seed)
            numpy.random.seed(seed)
            results.append(called(model, inputs))
    if not agree(*results):
        drawn = " and ".join(used)
        warn_of_run(f"the model uses numbers that {drawn} draws; use torch.rand, which draws anew in each run")
