"""Answers about sizes that the model keeps, as ``few`` in ``few = n < 4 and flag``.

While a model is captured, such an answer is not one of Python's bools: ``few is False`` is never true.
"""

from __future__ import annotations

import dis
import functools
from types import CodeType, FrameType


def is_compared_with_bools(frame: FrameType) -> bool:
    """Whether the ``and`` or ``or`` at which ``frame`` stands may return the answer itself, in a function that asks
    whether something *is* True or False."""
    return frame.f_lasti in _keeping(frame.f_code)


@functools.lru_cache(maxsize=4096)
def compares_with_bools(code: CodeType) -> bool:
    """Whether a function may ask whether something *is* True or False, as ``flag is True`` does."""
    has_bools = any(each is True or each is False for each in code.co_consts)
    return has_bools and any(each.opname == "IS_OP" for each in dis.get_instructions(code))


@functools.lru_cache(maxsize=4096)
def compares_variables(code: CodeType) -> bool:
    """Whether a function may ask whether two variables hold the same object."""
    before = ""
    for each in dis.get_instructions(code):
        if each.opname == "IS_OP" and before != "LOAD_CONST":
            return True
        before = each.opname
    return False


@functools.lru_cache(maxsize=256)
def _keeping(code: CodeType) -> frozenset[int]:
    """The offsets of such operators; none if the function has no comparison of that kind."""
    if not compares_with_bools(code):
        return frozenset()
    instructions = list(dis.get_instructions(code))
    before = zip([None, *instructions], instructions, strict=False)
    return frozenset(
        each.offset
        for last, each in before
        if each.opname in ("JUMP_IF_FALSE_OR_POP", "JUMP_IF_TRUE_OR_POP")  # up to Python 3.11
        or (last is not None and last.opname == "COPY" and each.opname.startswith(("TO_BOOL", "POP_JUMP")))
    )
