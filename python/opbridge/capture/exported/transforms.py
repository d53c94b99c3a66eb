"""Finds models whose derivatives, transforms or scans torch.export cannot capture.

torch.export records operators above autograd, and misses the tensors that autograd saves. Its second pass, which
resolves ``vmap``, supports no other transform of torch.func. The tracer captures such models instead, from one run on
fake tensors. It takes no way of a branch by data for granted either.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import torch

from opbridge.capture.failures import T
from opbridge.capture.loops import NodeFound, Noted, has_loops, note_loops
from opbridge.capture.patching import patch
from opbridge.capture.symbolic_sizes.asking import refuses_parts_of_example
from opbridge.errors import UnsupportedError
from opbridge.torch_compat.exporting import BACKWARD, DUAL_NUMBERS, NESTING_OF_GRAD, NESTING_OF_VMAP
from opbridge.torch_compat.messages import is_branch_on_data
from opbridge.torch_compat.patch_points import ASSOCIATIVE_SCAN


class _OnlyTraced(BaseException):
    """The model computes a derivative, or combines as many rows as a dynamic size says. Not an Exception, which the
    model might catch."""


def export_or_trace(export: Callable[[], T], trace: Callable[[], T]) -> T:
    """Calls ``export()``. If the model computes a derivative or combines rows of a dynamic axis, or is refused and uses
    a transform of torch.func, loops over a dynamic axis or branches by data, returns ``trace()``. At the first such
    loop or branch ``export()``, which tries several ways to capture the model, ends, and goes on only if ``trace()`` is
    refused."""
    has_transform = False
    scan_of_constants = ASSOCIATIVE_SCAN.original
    refused: UnsupportedError | None = None

    def noting(enter: Callable[..., Any]) -> Callable[..., Any]:
        def note(*args: Any) -> Any:
            nonlocal has_transform
            has_transform = True
            return enter(*args)

        return note

    def stop(*_: Any, **__: Any) -> Any:
        raise _OnlyTraced

    def scan(operator: Any, leaves: Any, dim: int = 0, additional_inputs: Any = ()) -> Any:
        if isinstance(leaves[0].shape[dim], torch.SymInt):
            stop()
        return scan_of_constants(operator, leaves, dim, additional_inputs)

    def trace_once() -> T:
        nonlocal refused
        if refused is None:
            try:
                return trace()
            except UnsupportedError as error:
                refused = error
        raise refused

    def attempt(ends_at: Callable[[Noted], bool]) -> T:
        try:
            with (
                note_loops(ends_at) as loops,
                patch(NESTING_OF_VMAP, noting(NESTING_OF_VMAP.original)),
                patch(NESTING_OF_GRAD, noting(NESTING_OF_GRAD.original)),
                patch(BACKWARD, stop),
                patch(DUAL_NUMBERS, stop),
                patch(ASSOCIATIVE_SCAN, scan),
            ):
                return export()
        except _OnlyTraced:
            return trace_once()
        except UnsupportedError as refusal:
            if not has_transform and not has_loops(loops):
                raise
            try:
                return trace_once()
            except UnsupportedError as other:
                says_the_same = other.__cause__ is not None and is_branch_on_data(other.__cause__)
                raise (refusal if has_transform or says_the_same else other) from None

    token = refuses_parts_of_example.set(True)
    try:
        return attempt(has_loops)
    except NodeFound:
        with contextlib.suppress(UnsupportedError):
            return trace_once()
        return attempt(lambda _: False)
    finally:
        refuses_parts_of_example.reset(token)
