"""Branches that only pad or crop a tensor, as around windows of attention::

    if pad > 0:
        x = F.pad(x, (0, pad))

The way that pads is that of all sizes if it pads by nothing where the condition does not hold: the program has this way
alone. So it is with slices that keep the whole tensor, and with ``F.pad(x, (0, 8 - n % 8))`` under ``n % 8 != 0``,
which pads by ``(8 - n % 8) % 8``. Where the model writes to such a tensor, the ways differ in what else has its memory;
where it changes a shape in place, that of a slice or of what is sliced, in which tensors have that shape.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import functools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import sympy
import torch
from torch.nn import functional as F

from opbridge.capture.patching import patch
from opbridge.capture.rewrites.replaced_functions import Function, Replacements
from opbridge.capture.symbolic_sizes.padding_syntax import Candidate, KeptTest, candidates_in, pads_of, slices_of
from opbridge.capture.symbolic_sizes.syntax import Line, evaluated, running_line
from opbridge.capture.symbolic_sizes.whole_tests import condition_of
from opbridge.errors import UnsupportedError
from opbridge.torch_compat import transforms_are_active, version_of
from opbridge.torch_compat.symbols import PAD, Mod, PythonMod, free_unbacked_symbols

if TYPE_CHECKING:
    from opbridge.capture.failures import T
    from opbridge.capture.symbolic_sizes.model_branches import Branches

_DEPTH_OF_CALL = 6  # frames between the model's and the replacement of a function that it calls
_DEPTH_OF_MODES = 24  # where the function passes modes first, also those of the model


@dataclasses.dataclass
class _Taken:
    """A branch whose steps the model takes next. ``moduli`` has for each call of ``pad`` those of its numbers: the
    number is padded modulo it, unless it is 0."""

    line: Line
    frame: FrameType
    lines: range
    moduli: list[list[int]]


class _Kept(NamedTuple):
    """A test that the model keeps: its value is the first condition in it. Where it does not hold, ``given`` does."""

    line: Line
    frame: FrameType
    first: Any
    given: Sequence[Any]


class _NotPadding(BaseException):
    """A branch does more than padding, as it turned out. Not an Exception, which the model might catch."""


class PaddingBranches:
    """The branches of a capture that only pad or crop."""

    def __init__(self, branches: Branches) -> None:
        self._branches = branches
        self._excluded: set[Line] = set()
        self._is_off = self._were_taken = False
        self._begin()

    def _begin(self) -> None:
        self._taken: dict[int, _Taken] = {}  # the latest of each frame
        self._kept: dict[tuple[int, str], _Kept] = {}  # by frame and name
        self._watched: list[tuple[Line, Callable[[], Any], Any]] = []  # what is read then, and has been before
        self._crops = False

    def capture(self, capture: Callable[[], T]) -> T:
        """Calls ``capture()`` until the tensors of these branches are not written, and tests that the model keeps
        decide nothing else. If the model is refused with them, they are branches like others."""
        while True:
            excluded = len(self._excluded)
            self._were_taken = False
            try:
                made = capture()
            except _NotPadding:
                continue
            except UnsupportedError:
                if not self._were_taken:
                    raise
                break
            self._excluded |= {line for line, read, before in self._watched if read() != before}
            if len(self._excluded) == excluded:  # or the model has caught _NotPadding
                return made
        self._is_off = True
        return capture()

    @contextlib.contextmanager
    def follow(self) -> Iterator[None]:
        """Follows an attempt to capture."""
        self._begin()
        try:
            with patch(PAD, self._padding(F.pad)):
                yield
        finally:  # the frames hold what the model computes
            self._taken.clear()
            self._kept.clear()

    def answer(self, frame: FrameType, asked: Any, env: Any) -> bool | None:
        """The answer to the condition ``asked`` at the line of ``frame`` with which the model takes the way that pads,
        if that is the way of all sizes; otherwise None."""
        line = running_line(frame)
        if self._is_off or line in self._excluded or free_unbacked_symbols(asked) or transforms_are_active():
            return None
        candidate = candidates_in(frame.f_code).get(frame.f_lineno)
        if candidate is None:
            return None
        if isinstance(candidate, KeptTest):
            self._kept.pop((id(frame), candidate.name), None)
        truth = isinstance(candidate, KeptTest) or candidate.truth
        found = self._otherwise(candidate.test, truth, frame, asked, env)
        if found is None:
            return None
        given, answer = found
        if isinstance(candidate, KeptTest):
            self._kept[id(frame), candidate.name] = _Kept(line, frame, asked, given)
            return answer
        return answer if self._takes(candidate, frame, given) else None

    @property
    def keeps_tests(self) -> bool:
        return bool(self._kept)

    def answer_to_kept(self, frame: FrameType, asked: Any) -> bool | None:
        """The same for a test that the model has kept."""
        candidate = candidates_in(frame.f_code).get(frame.f_lineno)
        if not isinstance(candidate, Candidate) or not isinstance(candidate.test, ast.Name):
            return None
        kept = self._kept.get((id(frame), candidate.test.id))
        if kept is None or kept.first != asked:
            return None
        if running_line(frame) in self._excluded or not self._takes(candidate, frame, kept.given):
            self._exclude(kept.line)
        return True

    def _takes(self, candidate: Candidate, frame: FrameType, given: Sequence[Any]) -> bool:
        """Prepares for the steps of the candidate, if they change nothing where ``given`` holds."""
        moduli = None
        with contextlib.suppress(Exception):  # what Python would raise too, if the condition holds
            moduli = self._moduli(candidate, frame, given)
        if moduli is None:
            return False
        self._were_taken = True
        self._taken[id(frame)] = _Taken(running_line(frame), frame, candidate.lines, moduli)
        self._crops = self._crops or any(step.kind == "crop" for step in candidate.steps)
        return True

    def _exclude(self, line: Line) -> NoReturn:
        self._excluded.add(line)
        raise _NotPadding

    def _otherwise(
        self, test: ast.expr, truth: bool, frame: FrameType, asked: Any, env: Any
    ) -> tuple[Sequence[Any], bool] | None:
        """What holds where the test does not have the answer ``truth``, and the answer to ``asked`` with which it has.
        None if that is not known."""
        found = condition_of(test, truth, frame, env, self._branches)
        if found is None:
            return None
        whole, conditions = found
        same = next((same for condition, same in conditions if condition == asked), None)
        alternatives = whole.args if isinstance(whole, sympy.Or) else (whole,)
        if same is None or not all(isinstance(each, sympy.core.relational.Relational) for each in alternatives):
            return None
        return [~each for each in alternatives], same

    def _moduli(self, candidate: Candidate, frame: FrameType, given: Sequence[Any]) -> list[list[int]] | None:
        """The moduli of ``_Taken``, with which the steps change nothing where ``given`` holds; None if they do."""
        values: dict[str, Any] = dict(frame.f_locals)
        moduli = []
        for step in candidate.steps:
            if step.kind == "number":
                values[step.name] = evaluated(step.value, frame, values)
                if isinstance(values[step.name], torch.Tensor):
                    return None
                continue
            if not isinstance(values[step.name], torch.Tensor):
                return None
            if isinstance(step.value, ast.Call) and step.kind == "pad":
                pads = self._moduli_of_pads(step.value, frame, values, given)
                if pads is None:
                    return None
                moduli.append(pads)
            elif not self._keeps_all(step.value, values[step.name].shape, frame, values, given):
                return None
        return moduli

    def _moduli_of_pads(
        self, call: ast.Call, frame: FrameType, values: Mapping[str, Any], given: Sequence[Any]
    ) -> list[int] | None:
        given_pads = pads_of(call)
        if given_pads is None or evaluated(call.func, frame, values) is not vars(F)[PAD.attribute]:
            return None
        pads = evaluated(given_pads, frame, values)
        if not isinstance(pads, (list, tuple)):
            return None
        moduli = [self._modulus(_expression(each), given) for each in pads]
        return None if None in moduli else [each for each in moduli if each is not None]

    def _modulus(self, pad: Any, given: Sequence[Any]) -> int | None:
        """0 if ``pad`` is 0 where ``given`` holds. A number modulo which it is 0 there, and itself anywhere else; None
        if there is none."""
        if self._branches.follows(sympy.Eq(pad, 0), given):
            return 0
        for divisor in {each.args[1] for one in given for each in one.atoms(Mod, PythonMod)}:
            if not divisor.is_Integer:
                continue
            rest = PythonMod(pad, divisor)
            others = [[~each] for each in given]
            if self._branches.follows(sympy.Eq(rest, 0), given) and all(
                self._branches.follows(sympy.Eq(rest - pad, 0), other) for other in others
            ):
                return int(divisor)
        return None

    def _keeps_all(
        self, value: ast.expr, shape: Sequence[Any], frame: FrameType, values: Mapping[str, Any], given: Sequence[Any]
    ) -> bool:
        """Whether slices keep a tensor of that shape whole where ``given`` holds."""
        slices = slices_of(value)
        for each, size in zip(slices, _sizes_of_slices(slices, shape), strict=True):
            if not isinstance(each, ast.Slice):
                continue
            lower, upper = (None if end is None else evaluated(end, frame, values) for end in (each.lower, each.upper))
            if lower is not None and _expression(lower) != 0:
                return False
            if upper is not None and not self._branches.follows(
                sympy.Ge(_expression(upper) - _expression(size), 0), given
            ):
                return False
        return True

    def _padding(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(F.pad)
        def pad(input: torch.Tensor, pad: Sequence[Any], mode: str = "constant", value: Any = None) -> torch.Tensor:
            taken = self._taken_by(sys._getframe(1))
            if taken is None or not taken.moduli:
                unchanged: torch.Tensor = original(input, pad, mode, value)
                return unchanged
            moduli = taken.moduli.pop(0)
            pads = [number % modulus if modulus else number for number, modulus in zip(pad, moduli, strict=True)]
            result: torch.Tensor = original(input, pads, mode, value)
            self._watch(taken.line, input, result)
            return result

        return pad

    def watched(self) -> Replacements:
        """The functions whose results are watched, where a step that crops calls them."""
        watches = {torch.Tensor.contiguous: self._watch, torch.Tensor.__getitem__: self._watch_layouts}
        return {function: functools.partial(self._watching, watch) for function, watch in watches.items()}

    def _watching(
        self, watch: Callable[..., None], function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        taken = self._taken_by(sys._getframe(1), _DEPTH_OF_MODES) if self._crops else None
        if taken is None:
            return NotImplemented
        result = function(*args, **kwargs)
        watch(taken.line, args[0], result)
        return result

    def _watch(self, line: Line, *tensors: torch.Tensor) -> None:
        if any(tensor.is_inference() for tensor in tensors):  # torch does not count their writes
            self._exclude(line)
        self._watch_each(version_of, line, tensors)

    def _watch_layouts(self, line: Line, *tensors: torch.Tensor) -> None:
        self._watch_each(_layout_of, line, tensors)

    def _watch_each(self, read: Callable[[torch.Tensor], Any], line: Line, tensors: Sequence[torch.Tensor]) -> None:
        self._watched += [(line, functools.partial(read, tensor), read(tensor)) for tensor in tensors]

    def _taken_by(self, frame: FrameType | None, depth: int = _DEPTH_OF_CALL) -> _Taken | None:
        """The branch in whose steps a function is called, in ``frame`` or soon above it."""
        for _ in range(depth):
            if frame is None:
                break
            taken = self._taken.get(id(frame))
            if taken is not None:
                return taken if frame.f_lineno in taken.lines else None
            frame = frame.f_back
        return None


def _layout_of(tensor: torch.Tensor) -> str:
    return str((tensor.shape, tensor.stride()))  # whose comparison would fix sizes


def _expression(number: Any) -> Any:
    if isinstance(number, torch.SymInt):
        return number.node.expr
    if type(number) is int:
        return sympy.Integer(number)
    raise TypeError


def _sizes_of_slices(slices: Sequence[ast.expr], shape: Sequence[Any]) -> list[Any]:
    """The size of the axis of each slice; None for ``…``."""
    count = sum(isinstance(each, ast.Slice) for each in slices)
    if count == len(slices):
        return list(shape[:count])
    at = next(i for i, each in enumerate(slices) if not isinstance(each, ast.Slice))
    return [*shape[:at], None, *shape[len(shape) - (count - at) :]]
