"""Random numbers that a captured program cannot draw: of Python's and NumPy's generators, and from a seed of torch."""

from __future__ import annotations

import contextlib
import functools
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import torch

from opbridge.capture.inputs import Inputs
from opbridge.capture.patching import patch_attributes
from opbridge.capture.run_warnings import warn_of_run
from opbridge.capture.state.attributes import restore_attributes
from opbridge.capture.state.isolated_call import restore_model
from opbridge.capture.state.second_call import agree, called
from opbridge.errors import UnsupportedError
from opbridge.torch_compat import OpOverload

_TORCH = "torch"


@contextlib.contextmanager
def restore_generators() -> Iterator[list[str]]:
    """Restores the generators that functions of ``random``, ``numpy.random`` and torch use. Yields a list that has the
    names of those that were used once the run has ended."""
    of_python, of_numpy, of_torch = random.getstate(), numpy.random.get_state(), torch.get_rng_state()
    used: list[str] = []
    # A model that sets its own seed has left the generator, if it was called before, as it will leave it again.
    torch.default_generator.manual_seed(torch.default_generator.initial_seed() ^ 1)
    before = torch.get_rng_state()
    try:
        with _note_seeds(used):
            yield used
    finally:
        if random.getstate() != of_python:
            used.append("random")
            random.setstate(of_python)
        if not all(map(numpy.array_equal, of_numpy, numpy.random.get_state())):
            used.append("numpy.random")
            numpy.random.set_state(of_numpy)
        if _TORCH not in used and not torch.equal(torch.get_rng_state(), before):
            used.append(_TORCH)
        torch.set_rng_state(of_torch)


@contextlib.contextmanager
def _note_seeds(used: list[str]) -> Iterator[None]:
    """Adds torch to ``used`` if the model sets its generator, as by a seed, and perhaps puts it back."""

    def noting(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def noted(*args: Any, **kwargs: Any) -> Any:
            if _TORCH not in used:
                used.append(_TORCH)
            return function(*args, **kwargs)

        return noted

    setting = {name: noting(getattr(torch, name)) for name in ("manual_seed", "set_rng_state")}
    with patch_attributes(torch, **setting), patch_attributes(torch.random, **setting):
        yield


def check_drawn_numbers(model: torch.nn.Module, inputs: Inputs, used: list[str]) -> None:
    """Warns if what the model returns depends on the generators ``used`` of Python and NumPy, whose seeds it may set
    itself, and refuses it if it sets the seed of torch's."""
    if _TORCH in used and _seeds_torch(model, inputs):
        raise UnsupportedError(
            "the model sets the seed of torch's generator, and an exported model draws other numbers than PyTorch from "
            "the same seed; make the numbers when the model is built, or call torch.manual_seed outside of it"
        )
    used = [name for name in used if name != _TORCH]
    if not used:
        return
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


def _seeds_torch(model: torch.nn.Module, inputs: Inputs) -> bool:
    """Whether the model draws numbers of torch where the state of the generator does not depend on the one before."""
    states: list[list[int]] = []  # of each run, at each draw

    def note(function: OpOverload, _: Any) -> None:
        if torch.Tag.nondeterministic_seeded in function.tags:
            states[-1].append(hash(torch.get_rng_state().numpy().tobytes()))

    for seed in (1, 2):
        copies = inputs.copied()
        states.append([])
        with torch.random.fork_rng(devices=[]), restore_model(model, inputs, note), contextlib.suppress(Exception):
            torch.manual_seed(seed)
            model(*copies.args, **copies.kwargs)
    return any(first == second for first, second in zip(*states, strict=False))
