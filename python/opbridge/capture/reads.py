"""Where a tensor's data leave torch by a way that is no operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

_OF_A_TENSOR = {torch.Tensor.numpy, torch.Tensor.__array__, torch.Tensor.tolist}
_FROM_DATA = {torch.tensor: 0, torch.as_tensor: 0, torch.Tensor.new_tensor: 1}  # and where the data stand


class ReadsSeenBy(TorchFunctionMode):
    """Calls ``read`` with tensors that become numbers of Python, or NumPy's, or are listed to make another of them."""

    def __init__(self, read: Callable[[torch.Tensor], None]) -> None:
        super().__init__()
        self._read = read

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in _OF_A_TENSOR:
            self._read(args[0])
        elif func in _FROM_DATA:
            place = _FROM_DATA[func]
            data = args[place] if len(args) > place else kwargs.get("data")
            for leaf in pytree.tree_leaves(data) if isinstance(data, (list, tuple)) else ():
                if isinstance(leaf, torch.Tensor):
                    self._read(leaf)
        return func(*args, **kwargs)
