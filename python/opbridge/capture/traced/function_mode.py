"""Intercepts uses of tensors that are not operators: reads into Python or NumPy, and assignments to ``.data``."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from opbridge.capture.loops.lists import JOINING, UnreadList, tensor_of_numbers
from opbridge.capture.rewrites.copies import COPIES
from opbridge.capture.rewrites.eager_only import EAGER_ONLY
from opbridge.capture.rewrites.scalar_masks import ScalarMasks
from opbridge.capture.state.real_tensors import READS, is_written_in_run
from opbridge.capture.symbolic_sizes.size_checks import passing_truth
from opbridge.capture.torchscript.branches import Truth
from opbridge.torch_compat import is_fake, pytree
from opbridge.torch_compat.fake_tensors import makes_fakes

_FROM_DATA = {torch.tensor: 0, torch.as_tensor: 0, torch.Tensor.new_tensor: 1}  # → the index of the data argument
DATA: Any = torch.Tensor.data
TRUTH: Any = torch.Tensor.__bool__
_WATCHED = frozenset({*READS, *_FROM_DATA, DATA.__get__, DATA.__set__, TRUTH})


def asks_truth_of_number(func: Any, args: Any) -> bool:
    return bool(func == TRUTH and args[0].dtype != torch.bool)


class TensorAccessMode(TorchFunctionMode):
    """Calls ``read`` with each tensor that is converted to Python or NumPy values, or is an element of a list that
    becomes a tensor. Calls ``assign_data`` instead of ``tensor.data = other``, and ``note`` with errors.

    It also intercepts reads of ``data``, an alias that torch makes without an operator, and conditions whose only
    effect is an error, which the program does not contain: they run while ``pause`` lasts."""

    def __init__(
        self,
        read: Callable[[torch.Tensor], None],
        assign_data: Callable[[torch.Tensor, torch.Tensor], None],
        note: Callable[[BaseException], None],
        is_weight: Callable[[torch.Tensor], bool],
        pause: Callable[[], contextlib.AbstractContextManager[None]],
    ) -> None:
        super().__init__()
        self._read = read
        self._assign_data = assign_data
        self._note = note
        self._is_weight = is_weight
        self._pause = pause
        self._substitutes = {**ScalarMasks().substitutes(), **COPIES, **EAGER_ONLY, **JOINING}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        try:
            if func in self._substitutes:
                return self._substitutes[func](*args, **(kwargs or {}))
            if func == TRUTH and (truth := passing_truth(sys._getframe(1))) is not None:
                if is_fake(args[0]):
                    return truth
                with self._pause():
                    return func(*args)
            if func in _WATCHED:
                return self._watched(func, args, kwargs or {})
            return func(*args, **(kwargs or {}))
        except Exception as error:
            self._note(error)
            raise

    def _watched(self, func: Any, args: Any, kwargs: Any) -> Any:
        if func in READS:
            if not is_written_in_run(args[0]):
                self._read(args[0])
            return READS[func](*args, **kwargs)
        if func in _FROM_DATA:
            index = _FROM_DATA[func]
            data = args[index] if len(args) > index else kwargs.get("data")
            if isinstance(data, UnreadList) and func is torch.tensor:
                return tensor_of_numbers(data, **kwargs)
            if type(data) is Truth or (isinstance(data, (list, tuple)) and any(type(each) is Truth for each in data)):
                return _tensor_of_truths(data, **kwargs)
            for leaf in pytree.tree_leaves(data) if isinstance(data, (list, tuple)) else ():
                if isinstance(leaf, torch.Tensor):
                    self._read(leaf)
        elif asks_truth_of_number(func, args) and makes_fakes():
            return func(args[0] != 0)  # a branch, for which torch would need a number
        elif func == DATA.__set__:
            return self._assign_data(*args)
        elif func == DATA.__get__ and self._is_weight(args[0]):
            return args[0].detach()
        return func(*args, **kwargs)


def _tensor_of_truths(data: Any, dtype: torch.dtype | None = None, **_: Any) -> torch.Tensor:
    if type(data) is Truth:
        made = data.scalar.clone()
    elif all(isinstance(each, bool) for each in data):
        made = torch.stack([each.scalar if type(each) is Truth else torch.tensor(each) for each in data])
    else:
        made = torch.tensor([each.number() if type(each) is Truth else each for each in data])
    return made if dtype is None else made.to(dtype)
