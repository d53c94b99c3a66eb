"""A case: a module as Python source, its inputs, and the settings of its export."""

from __future__ import annotations

import dataclasses
import functools
import linecache
import re
from typing import Any

import torch

from checking.tensors import widened
from hunt.forms import Form
from hunt.tensors import TensorSpec

DYNAMIC = "torch.export.Dim.DYNAMIC"


@dataclasses.dataclass(frozen=True)
class Settings:
    """``dynamic`` has, for each input, the names of its dynamic dims; DYNAMIC is torch's own wildcard."""

    capture: str = "trace"
    opset: int | None = None
    simplify: bool = True
    dynamic: tuple[dict[int, str] | None, ...] | None = None

    @property
    def dynamic_shapes(self) -> Any:
        if self.dynamic is None:
            return None
        return {
            f"x{i}": dims and {dim: torch.export.Dim.DYNAMIC if name == DYNAMIC else name for dim, name in dims.items()}
            for i, dims in enumerate(self.dynamic)
        }

    def text(self) -> str:
        """The keyword arguments of opbridge.export."""
        words = [f'capture="{self.capture}"', "mutations_as_outputs=True"]
        if self.opset is not None:
            words.append(f"opset_version={self.opset}")
        if not self.simplify:
            words.append("simplify=False")
        if self.dynamic is not None:
            shapes = []
            for i, dims in enumerate(self.dynamic):
                names = {d: n if n == DYNAMIC else repr(n) for d, n in (dims or {}).items()}
                shapes.append(
                    f'"x{i}": {{{", ".join(f"{d}: {n}" for d, n in names.items())}}}' if dims else f'"x{i}": None'
                )
            words.append(f"dynamic_shapes={{{', '.join(shapes)}}}")
        return ", ".join(words)


PREAMBLE = """import functools
import itertools
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch._higher_order_ops import scan, while_loop

import opbridge
from opbridge.operators import COMPAT
from hunt import transforms
from hunt.forms import Output, Pair

nan, inf = float("nan"), float("inf")
opbridge.load_operators()
opbridge.load_operators(COMPAT)
"""


@dataclasses.dataclass(frozen=True)
class Case:
    """``runs[0]`` is the example that is exported; the model is compared on all runs."""

    seed: str
    about: str
    init: tuple[str, ...]
    body: tuple[str, ...]
    runs: tuple[tuple[TensorSpec, ...], ...]
    settings: Settings
    definitions: tuple[str, ...] = ()
    form: Form | None = None

    @functools.cached_property
    def source(self) -> str:
        """The source of the module, without PREAMBLE."""
        count = len(self.runs[0])
        parameters = self.form.parameters if self.form else ", ".join(f"x{i}" for i in range(count))
        lines = [*self.definitions, "", "class Model(nn.Module):"]
        if self.init:
            lines += ["    def __init__(self):", "        super().__init__()"]
            lines += [f"        {line}" for line in self.init]
            lines.append("")
        body = [*(self.form.unpacking if self.form else ()), *self.body]
        lines += self.form.lines(count) if self.form else []
        lines += [f"    def forward(self, {parameters}):" if parameters else "    def forward(self):"]
        lines += [f"        {line}" for line in body]
        return "\n".join(lines) + "\n"

    def module(self) -> torch.nn.Module:
        return _class_of(self.source)()

    def wide_module(self) -> torch.nn.Module:
        """The module in float64; call it inside ``in_float64``."""
        narrow = self.module()
        wide = _class_of(widened_source(self.source))()
        state = wide.state_dict()
        for name, tensor in narrow.state_dict().items():
            _memory_of(state[name]).copy_(widened(_memory_of(tensor)))
        return wide

    def inputs(self, run: int = 0) -> list[torch.Tensor]:
        return [spec.make() for spec in self.runs[run]]


def wide_spec(spec: TensorSpec) -> TensorSpec:
    wide = torch.complex128 if spec.dtype.is_complex else torch.float64
    exact = spec.dtype.is_complex or spec.dtype.is_floating_point
    return dataclasses.replace(spec, dtype=wide) if exact else spec


def _memory_of(tensor: torch.Tensor) -> torch.Tensor:
    """All of it: two elements of a tensor may be one in memory, which cannot be written to as that tensor."""
    return tensor.as_strided((tensor.untyped_storage().nbytes() // tensor.element_size(),), (1,), 0)


def widened_case(case: Case) -> Case:
    return dataclasses.replace(
        case,
        definitions=tuple(map(widened_source, case.definitions)),
        init=tuple(map(widened_source, case.init)),
        body=tuple(map(widened_source, case.body)),
        runs=tuple(tuple(map(wide_spec, run)) for run in case.runs),
    )


def widened_source(source: str) -> str:
    source = re.sub(r"torch\.(float32|float16|bfloat16|float|half)\b", "torch.float64", source)
    source = re.sub(r"\.(float|half|bfloat16)\(\)", ".double()", source)
    return source.replace("torch.complex64", "torch.complex128")


@functools.lru_cache(maxsize=64)
def _class_of(source: str) -> Any:
    # Register the source lines, which torch.export and opbridge print.
    name = f"<hunt {hash(source) & 0xFFFFFFFF:08x}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    space = dict(_preamble(), __name__="hunted")
    exec(compile(source, name, "exec"), space)
    return space["Model"]


@functools.cache
def _preamble() -> dict[str, Any]:
    space: dict[str, Any] = {}
    exec(PREAMBLE, space)
    return space
