"""Functions of torch that are replaced while sizes are symbolic."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch.overrides import TorchFunctionMode

Function = Callable[..., Any]
# From a function to what is called instead of it, with the function, its arguments and its keywords.
Replacements = Mapping[Any, Callable[[Function, tuple[Any, ...], dict[str, Any]], Any]]


class ReplaceFunctions(TorchFunctionMode):
    """Calls what one of the tables has for a function. No two of them have the same. This is a single mode because
    every call, also of ``x.shape``, passes each mode."""

    def __init__(self, *tables: Replacements) -> None:
        super().__init__()
        self._replacements = {function: around for table in tables for function, around in table.items()}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        around = self._replacements.get(func)
        return func(*args, **(kwargs or {})) if around is None else around(func, args, kwargs or {})
