"""Branches on sizes: the model's, and those by which torch compares sizes or fixes them."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Collection, Iterator
from types import CodeType, FrameType
from typing import Any

import sympy
import torch

from opbridge.capture.loops import note_branch, note_loop, stops_at_counting
from opbridge.capture.operators import operator_of
from opbridge.capture.patching import patch, patch_attributes
from opbridge.capture.rewrites.assignments import drops_axis
from opbridge.capture.run_warnings import location_of_run, warn_of_run
from opbridge.capture.source import line_of_frame, runs_users, users_frame
from opbridge.capture.suppressed_errors import Caught
from opbridge.capture.symbolic_sizes.asking import (
    GUARDS,
    NeedsNumberOfData,
    asked_by_capture,
    asked_by_cpp,
    asked_by_layer,
    asked_by_model,
    asking_frame,
    frame_of_python,
    refused,
)
from opbridge.capture.symbolic_sizes.bounds import answer_in_step
from opbridge.capture.symbolic_sizes.decided import truth_of_elements
from opbridge.capture.symbolic_sizes.dynamic_axes import AS_IN_EXAMPLE, DynamicSizes, Fixing
from opbridge.capture.symbolic_sizes.kept_answers import is_compared_with_bools
from opbridge.capture.symbolic_sizes.model_branches import Branch, Branches
from opbridge.capture.symbolic_sizes.size_checks import is_check, is_required, is_without_effect, passing_truth
from opbridge.capture.symbolic_sizes.slices import are_always_equal
from opbridge.capture.symbolic_sizes.tracing_flag import avoid_shortcut
from opbridge.capture.symbolic_sizes.try_blocks import in_try_block
from opbridge.capture.symbolic_sizes.whole_tests import whole_test
from opbridge.torch_compat import dispatched_in
from opbridge.torch_compat import symbols as points
from opbridge.torch_compat.messages import is_branch_on_data
from opbridge.torch_compat.symbols import (
    BROADCASTING,
    EXPANSION,
    EXPECTATION,
    LAYOUT,
    Min,
    always,
    asserted_minimum,
    expanded_size,
    free_unbacked_symbols,
    leave_unlimited,
    uninteresting_files,
)

_DEPTH_OF_CHECK = 6  # frames between a function that calls torch._check and the symbol that is asked


@contextlib.contextmanager
def note_branches(sizes: DynamicSizes, caught: Caught) -> Iterator[None]:
    """Notes the branches of the model on symbolic sizes. Warns of checks of sizes by torch whose error the model
    catches, and of those by which torch takes the way of the example."""
    original = points.BOOL_OF_SYMBOL.original

    def is_one_in_example(asked: Any, env: Any) -> bool:
        """Whether one of the sizes that are compared is 1 in the example, so that it would broadcast."""
        return isinstance(asked, sympy.Eq) and any(sizes.in_example(side, env) == 1 for side in asked.args)

    def guard_bool(self: Any, file: str, line: int) -> Any:
        asked, env = self.expr, self.shape_env
        fixed = always(env, asked) is not None
        frame = sys._getframe(1)
        if sizes.padding.keeps_tests:
            answer = sizes.padding.answer_to_kept(asking_frame(frame), asked)
            if answer is not None:
                return answer
        if not fixed and drops_axis(asked, frame):
            return True
        hint = None if fixed else self.hint
        if isinstance(hint, bool) and sizes.branches.is_decided(asked, hint):
            return hint
        if not fixed and free_unbacked_symbols(asked):
            if (answer := answer_in_step(asked, env)) is not None:
                return answer
            truth = passing_truth(asking_frame(frame))
            if truth is None and not asked_by_model(frame) and not asked_by_capture(frame):
                truth = truth_of_elements(asked)
            if truth is not None:
                return truth
        by_model = not fixed and asked_by_model(frame)
        if by_model and is_without_effect(asking := asking_frame(frame)):
            if isinstance(hint, bool) and not is_required(asking) and not in_try_block(frame):
                return hint  # of which torch is not to learn, as it need not hold for other sizes
        elif by_model:
            if stops_at_counting(asking):
                raise refused(caught, f"a loop runs while '{sizes.text_of(asked)}', which depends on a dynamic size")
            if (answer := sizes.padding.answer(asking, asked, env)) is not None:
                return answer
            if (answer := sizes.branches.answer_to(asked)) is not None:
                return answer
            whole = whole_test(asking, asked, env, sizes.branches)
            if whole is not None:
                truth = whole.truth
                return (truth if isinstance(truth, bool) else guard_bool(truth, file, line)) == whole.same
        forgotten = not fixed and _is_forgotten(self, frame, file)
        try:
            with env.suppress_guards() if forgotten else contextlib.nullcontext():
                result = original(self, file, line)
        except Exception as error:
            branching = frame_of_python(frame)
            if is_branch_on_data(error) and branching is not None and runs_users(branching):
                note_branch(branching)
            caught.note(error)
            raise
        differs = sizes.in_example(asked, env) not in (result, None)
        if fixed and not differs:
            return result
        tried = in_try_block(frame)
        differs |= tried and not result and is_one_in_example(asked, env) and _asked_in(frame, BROADCASTING)
        if tried or asked_by_model(frame):
            asking = asking_frame(frame)
            if not differs and not tried and (is_without_effect(asking) or sizes.branches.is_decided(asked, result)):
                return result
            avoid_shortcut(asking)
            shown = sizes.text_of(asked)
            what = f"the model branches by '{shown}', which a capture takes as {result}; {AS_IN_EXAMPLE}"
            if asked_by_model(frame):
                keeps_way = bool(free_unbacked_symbols(asked)) or is_compared_with_bools(asking)
                refusal = what if differs else ""
                location = location_of_run()
                sizes.branches.note(Branch(asked, shown, bool(result), fixed, keeps_way, location, refusal))
            elif differs:
                raise refused(caught, what)
            else:
                warn_of_run(f"an error that the model may catch: torch checked whether '{shown}', which was {result}")
        elif not fixed and free_unbacked_symbols(asked) and (asked_by_layer(frame) or asked_by_cpp(file)):
            if not is_check(frame) and _operator_of(frame) != "aten::is_nonzero":  # of which the recorder warns
                shown = sizes.text_of(asked)
                warn_of_run(f"torch branches by a size that depends on data: whether '{shown}' was read as {result}")
        elif result and not fixed and _broadcasts(frame, env) and (size := _may_be_one(asked, env, sizes.branches)):
            one, other = map(sizes.text_of, asked.args if size == asked.args[0] else reversed(asked.args))
            warn_of_run(
                f"sizes that broadcast: torch assumes that '{one}' equals '{other}', as in the example, though '{one}' "
                "may be 1"
            )
        return result

    sizes.branches.begin()
    uninteresting_files().update(GUARDS)  # torch must not report these files as the location of the branch
    with (
        patch(points.BOOL_OF_SYMBOL, guard_bool),
        sizes.padding.follow(),
        patch_attributes(torch, is_same_size=_have_same_size),
        patch_attributes(torch.Tensor, is_same_size=_have_same_size),
    ):
        yield


def _have_same_size(input: torch.Tensor, other: torch.Tensor) -> bool:
    """What torch asks in C++, as the model would ask it."""
    return input.shape == other.shape


def _is_forgotten(node: Any, frame: FrameType, file: str) -> bool:
    """Whether the answer stays no fact: torch asks in order to choose a way, such as a kernel or a layout; not the
    model, and not a check."""
    if _is_constant_by_rounding(node) and (asked_by_cpp(file) or _asked_in(frame, LAYOUT)):
        return True
    if free_unbacked_symbols(node.expr) or _is_equality(node):
        return False
    return not asked_by_model(frame) and not _asked_in(frame, {EXPECTATION})


def _is_equality(node: Any) -> bool:
    """Whether the answer is that two sizes are equal, which the exported model then requires. After a choice of torch,
    any other answer, such as that a batch is small, must not be taken for granted when the model asks the same."""
    asked = node.expr
    return isinstance(asked, sympy.Eq | sympy.Ne) and node.hint is isinstance(asked, sympy.Eq)


def _is_constant_by_rounding(node: Any) -> bool:
    """Whether torch asks if an expression of sizes, such as ``n // 2``, is a certain number, and it is that number in
    the example only by rounding: it does not fix a dynamic size. torch asks this to find the layout of a tensor, and
    would take the answer for all sizes: later results would have the example's size."""
    asked = node.expr
    if not isinstance(asked, sympy.Eq | sympy.Ne):
        return False
    numbers = [side for side in asked.args if side.is_number]
    others = [side for side in asked.args if not side.is_number]
    return len(numbers) == 1 and not others[0].is_polynomial() and node.hint is isinstance(asked, sympy.Eq)


def _is_choice(frame: FrameType | None) -> bool:
    """Whether torch continues differently for unequal sizes. If it only checks them, eager mode fails too."""
    codes = _torch_code(frame)
    return EXPECTATION not in codes or bool(codes & BROADCASTING)


def _torch_code(frame: FrameType | None) -> set[CodeType]:
    """The code of the frames that the innermost frame of the user has called."""
    codes = set()
    while frame is not None and not runs_users(frame):
        codes.add(frame.f_code)
        frame = frame.f_back
    return codes


def _broadcasts(frame: FrameType | None, env: Any) -> bool:
    """Whether torch asks to find the shape of a broadcast. It only checks sizes when it expands one that is never 1:
    eager mode fails for all that are not equal."""
    asking = _asking(frame, BROADCASTING)
    if asking is None:
        return False
    size = expanded_size(asking)
    expression = size.node.expr if isinstance(size, torch.SymInt) else sympy.sympify(size)
    return size is None or always(env, sympy.Ne(expression, 1)) is not sympy.true


def _asked_in(frame: FrameType | None, codes: Collection[CodeType]) -> bool:
    """Whether a function with one of the ``codes`` asks, directly or by torch._check."""
    return _asking(frame, codes) is not None


def _asking(frame: FrameType | None, codes: Collection[CodeType]) -> FrameType | None:
    """The frame of the function with one of the ``codes`` that asks, directly or by torch._check."""
    for _ in range(_DEPTH_OF_CHECK):
        if frame is None or frame.f_code in codes:
            return frame
        frame = frame.f_back
    return None


def _may_be_one(asked: Any, env: Any, branches: Branches) -> Any:
    """The size in the equation ``asked`` that may be 1 when the other is greater; None if there is none. Of no elements
    and one, the result has no elements, in ONNX too."""
    if not isinstance(asked, sympy.Eq) or not env.replace(asked).free_symbols or are_always_equal(*asked.args):
        return None
    one, other = asked.args
    if _is_limited(one, other, env) or _is_limited(other, one, env):
        return None
    return next((a for a, b in ((one, other), (other, one)) if not branches.is_never_one_below(a, b)), None)


def _is_limited(limited: Any, size: Any, env: Any) -> bool:
    """Whether ``limited`` is the minimum of ``size`` and of numbers above 1, as the length of ``table[:n]``: it is 1 if
    and only if ``size`` is."""
    if not isinstance(limited, Min) or size not in limited.args:
        return False
    return all(each == size or always(env, sympy.Ge(each, 2)) for each in limited.args)


@contextlib.contextmanager
def judge_assumptions(sizes: DynamicSizes, caught: Caught) -> Iterator[None]:
    """Judges what torch assumes about sizes that depend on data.

    Refuses to broadcast such a size: torch assumes that it equals the other one, though it may be 1; an expansion to
    given sizes leaves this open. Warns if both depend on data, or if the model may catch an error of the check.
    """
    original = points.EXPECTED_SYMBOL.original

    def expect_true(self: Any, file: str, line: int) -> Any:
        asked, frame = self.expr, sys._getframe(1)
        if not free_unbacked_symbols(asked) or always(self.shape_env, asked) is not None:
            return original(self, file, line)
        if _asked_in(frame, EXPANSION):
            return True  # if it were noted, the size would be taken for the other one, though it may be 1
        # In C++, only composite operators ask. Those that broadcast cannot be distinguished from the others.
        differ = isinstance(asked, sympy.Eq) and not are_always_equal(*asked.args)
        broadcasts = differ and (_broadcasts(frame, self.shape_env) or asked_by_cpp(file))
        if broadcasts and any(asserted_minimum(self.shape_env, side) < 2 for side in asked.args):
            if not all(map(free_unbacked_symbols, asked.args)):
                sides = sorted(asked.args, key=lambda side: not free_unbacked_symbols(side))
                found, other = map(sizes.text_of, sides)
                raise refused(
                    caught,
                    f"a size that depends on data ('{found}') broadcasts with '{other}'; torch assumes that they are "
                    "equal, which is wrong if the former is 1; reshape the tensor to the size that it has",
                    NeedsNumberOfData,
                )
            one, other = map(sizes.text_of, asked.args)
            warn_of_run(
                f"sizes that broadcast: torch assumes that '{one}' equals '{other}', which is wrong if one of them is 1"
            )
        if in_try_block(frame):
            warn_of_run(f"an error that the model may catch: torch assumed '{sizes.text_of(asked)}'")
        return original(self, file, line)

    with patch(points.EXPECTED_SYMBOL, expect_true):
        yield


def _operator_of(frame: FrameType | None) -> str:
    """The operator that the user's code has called, if one runs."""
    name = ""
    while frame is not None and not runs_users(frame):
        called = dispatched_in(frame)
        if called is not None:
            name = operator_of(called).key
        frame = frame.f_back
    return name


@contextlib.contextmanager
def note_fixed_sizes(sizes: DynamicSizes, fixings: dict[str, Fixing], caught: Caught) -> Iterator[None]:
    """Records the first cause that fixes a size to each constant. Refuses an equality that holds for the sizes of the
    capture but not for those of the example."""
    original = points.SYMBOL_REPLACEMENT.original

    def set_replacement(self: Any, symbol: Any, value: Any, message: str) -> None:
        leave_unlimited(self, symbol)
        is_known = symbol in self.replacements  # torch shortens the chains of its equations
        original(self, symbol, value, message)
        if is_known:
            return
        frame = sys._getframe(1)
        size, equal = sizes.text_of(symbol), sizes.text_of(value)
        if value.is_number:
            note_loop(users_frame(frame))
            compared = points.BOOL_OF_SYMBOL.original.__code__ in _torch_code(frame)
            fixings.setdefault(str(value), Fixing(line_of_frame(frame), _operator_of(frame), compared))
        elif None not in (one := {sizes.in_example(each, self) for each in (symbol, value)}) and len(one) > 1:
            raise refused(caught, f"the model assumes that '{size}' equals '{equal}'; {AS_IN_EXAMPLE}")
        elif not value.is_Symbol and users_frame(frame) and _is_choice(frame):
            warn_of_run(f"torch assumes that the size '{size}' equals '{equal}', as in the example")

    with patch(points.SYMBOL_REPLACEMENT, set_replacement):
        yield
