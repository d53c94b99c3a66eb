"""Both ways of a model that branches by its dynamic sizes.

A capture follows one run of the model. Where that run asks whether a condition on sizes holds, the model is captured
again with sizes for which the answer is the other one, and the program chooses between the two captures when it runs.
A branch the other way of which cannot be captured stays that of the example, with a warning.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch

from opbridge import _core
from opbridge.capture.program import NUMBER, Program, Sizes, argument_names, returned
from opbridge.capture.run_warnings import Warned, hold_warnings, show_warnings
from opbridge.capture.symbolic_sizes.dynamic_axes import FixedByComparison
from opbridge.capture.symbolic_sizes.numbers import number
from opbridge.errors import UnsupportedError

if TYPE_CHECKING:
    from opbridge.capture.autograd_function.calls import FunctionCall
    from opbridge.capture.inputs import Inputs
    from opbridge.capture.symbolic_sizes.dynamic_axes import DynamicSizes
    from opbridge.capture.symbolic_sizes.model_branches import Axis, Branch, Branches

_MOST_WAYS = 16


@dataclasses.dataclass(frozen=True)
class Way:
    """What a capture starts from. ``constant`` are the axes of each leaf that are constant in this way alone, ``equal``
    names the axes that have one size in it, and ``calls`` are the calls of functions that those of its program follow.
    ``ranges_hold`` is whether torch refuses a program that does not hold for all sizes of the ranges that the caller
    has declared."""

    inputs: Inputs
    constant: list[set[int]]
    calls: list[FunctionCall]
    ranges_hold: bool
    equal: Mapping[Axis, str] = dataclasses.field(default_factory=dict)
    is_first: bool = False


@dataclasses.dataclass
class Captured:
    """A program of one way, and what it asked about its sizes."""

    program: Program
    branches: Branches
    way: Way


Capture = Callable[[Way], Captured]


def capture_ways(capture: Capture, inputs: Inputs, sizes: DynamicSizes, has_ranges: bool) -> Program:
    """The program of all ways that ``capture`` finds for the model. ``sizes`` are the dynamic sizes of ``inputs``;
    ``has_ranges`` is whether torch keeps ranges that the caller has declared for them."""
    way = Way(inputs, [set() for _ in inputs.leaves], [], True, is_first=True)
    try:
        return _of_example(capture, way)
    except UnsupportedError as error:
        refusal = error
    # The ways together may do what a single one cannot: then nothing is left to warn of.
    if isinstance(refusal, FixedByComparison):
        other = dataclasses.replace(way, inputs=sizes.inputs_without(refusal.size), ranges_hold=False)
    elif has_ranges:
        other = dataclasses.replace(way, ranges_hold=False)
    else:
        raise refusal
    with hold_warnings() as held, contextlib.suppress(Exception):  # the model may not run with other inputs
        program = _of_example(capture, other)
        if not held:
            return program
    raise refusal


def _of_example(capture: Capture, way: Way) -> Program:
    """The program of all ways from that of the example on, or from one in which fewer sizes are equal."""
    held: list[Warned] = []
    try:
        with hold_warnings() as held:
            captured = capture(way)
    except BaseException:
        show_warnings(held)
        raise
    unequal = captured.branches.unequal(way.inputs)
    if unequal is not None:
        with hold_warnings() as of_unequal, contextlib.suppress(Exception):  # the model may not run with them
            program = _Ways(capture).all_from(capture(dataclasses.replace(way, inputs=unequal, ranges_hold=False)), 0)
            if not of_unequal:
                return program
    show_warnings(held)
    return _Ways(capture).all_from(captured, 0)


class _Ways:
    def __init__(self, capture: Capture) -> None:
        self._capture = capture
        self._captures = 1
        self._are_few: bool | None = None  # whether all ways can be captured; None if that isn't known yet

    def all_from(self, captured: Captured, known: int) -> Program:
        """The program of the ways that differ from ``captured`` after the first ``known`` branches."""
        program, branches = captured.program, captured.branches
        branches.warn_of_failed_attempts()
        # The example goes the other way of the first branch that has a refusal.
        refused = next((i for i, branch in enumerate(branches.asked) if branch.refusal), None)
        for i in reversed(range(known, len(branches.asked))):
            branch = branches.asked[i]
            wanted = [(each, each.truth) for each in branches.asked[:i]] + [(branch, not branch.truth)]
            if branches.are_impossible(wanted):
                continue
            chosen = self._with_other_way(program, captured, wanted)
            if chosen is not None:
                program = chosen
            elif i == refused:
                raise UnsupportedError(branch.refusal, branch.line)
            elif not branch.is_known:
                branch.warn()
        return program

    def _with_other_way(
        self, program: Program, captured: Captured, wanted: list[tuple[Branch, bool]]
    ) -> Program | None:
        """The choice between ``program`` and the way of the branches ``wanted``, which goes the other way of the last;
        None if it cannot be captured."""
        branch, way = wanted[-1][0], captured.way
        if branch.keeps_way or self._captures == _MOST_WAYS or not self._may_have_all(captured.branches):
            return None
        with hold_warnings() as held:
            try:
                sizes = captured.branches.other_sizes(way.inputs, wanted)
                if sizes is None:
                    return None
                self._captures += 1
                constant = [a | b for a, b in zip(way.constant, sizes.constant, strict=True)]
                equal = {**way.equal, **sizes.equal}
                other = self._capture(Way(sizes.inputs, constant, program.calls, ranges_hold=False, equal=equal))
                if other.branches.fixes_more_than(captured.branches, constant, sizes.equal):
                    return None
                # Of constant and of equal sizes, and of what torch knows, the other way asks nothing.
                texts = [(sizes.text_of(each, captured.branches.sizes), truth) for each, truth in wanted]
                answers = [answer for answer in texts if answer[0] is not None]
                if [each.answer for each in other.branches.asked[: len(answers)]] != answers:
                    return None
                others = self.all_from(other, len(answers))
                condition = _condition(branch, captured.branches, program.graph)
                graphs = (program.graph, others.graph) if branch.truth else (others.graph, program.graph)
                chosen = Program(_core.choose(condition, *graphs), others.calls)
            except Exception:  # the model may not run the other way
                return None
        show_warnings(held)
        return chosen

    def _may_have_all(self, branches: Branches) -> bool:
        """Whether the ways are few, as far as ``branches``, the first that were asked, tell."""
        if self._are_few is None:
            self._are_few = branches.count_ways(_MOST_WAYS) <= _MOST_WAYS
        return self._are_few


def _condition(branch: Branch, branches: Branches, graph: _core.Graph) -> _core.Graph:
    """A program with the inputs of ``graph`` that returns whether the condition of the branch holds."""
    env = branches.env
    sizes = Sizes(branches.names, branches.sizes, branches.range_of)
    symbols = {symbol: sizes.dim_of(symbol, env) for symbol in env.backed_var_to_val}
    builder = _core.ProgramBuilder.like(graph, {str(dim): dim for dim in symbols.values()})
    made = 0

    def emit(key: str, arguments: tuple[Any, ...], dtype: torch.dtype, size: _core.Dim = NUMBER) -> _core.ProgramValue:
        nonlocal made
        made += 1
        names = argument_names(arguments)
        return builder.call(key, names, arguments, {}, [(f"condition_{made}", dtype, size)], "", branch.line)[0]

    sizes.compute_with(emit)
    value = number(env.replace(branch.asked), env, emit, sizes)
    builder.output(returned(builder, branch.truth, value, "condition"), "")
    return builder.finish()
