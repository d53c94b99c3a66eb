"""Scenario 3: a C++ extension inside a torch.autograd.Function with `symbolic`, under both captures."""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from typing import Any, Literal

import torch
from scenario import Row, check, table
from torch.utils import cpp_extension


@functools.cache
def my_lib() -> Any:
    """Builds my_add.cpp once; torch keeps it in its cache of extensions."""
    source = Path(__file__).parent / "cpp_extension" / "my_add.cpp"
    return cpp_extension.load("my_lib", [str(source)], extra_cflags=["-O1"])


# --8<-- [start:function]
class MyAdd(torch.autograd.Function):
    """Calls the kernel through ATen."""

    @staticmethod
    def forward(ctx: Any, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return my_lib().my_add(a, b)

    @staticmethod
    def symbolic(g: Any, a: Any, b: Any) -> Any:
        two = g.op("Constant", value_t=torch.tensor([2]))
        return g.op("Add", g.op("Mul", a, two), b)


# --8<-- [end:function]


class MyAddRaw(MyAdd):
    """Calls the kernel on raw memory, which tracers cannot see through."""

    @staticmethod
    def forward(ctx: Any, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return my_lib().my_add_raw(a, b)


# --8<-- [start:pair]
class ScaledPair(torch.autograd.Function):
    """Arguments that are not tensors, and two outputs."""

    @staticmethod
    def forward(
        ctx: Any, a: torch.Tensor, b: torch.Tensor, factor: float, mode: str
    ) -> tuple[torch.Tensor, torch.Tensor]:
        total = my_lib().my_add(a, b)
        return total, (factor * total if mode == "scale" else total + factor)

    @staticmethod
    def symbolic(g: Any, a: Any, b: Any, factor: float, mode: str) -> tuple[Any, Any]:
        total = g.op("Add", g.op("Mul", a, 2.0), b)
        return total, g.op("Mul" if mode == "scale" else "Add", total, factor)


# --8<-- [end:pair]


my_add = MyAdd.apply  # bound early, as in the tutorial
my_add_raw = MyAddRaw.apply
scaled_pair = ScaledPair.apply


# --8<-- [start:layer]
class Layer(torch.nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return self.function(a, b)


# --8<-- [end:layer]


class Nested(torch.nn.Module):
    """The function inside modules inside modules, with ordinary layers around it."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.inner = torch.nn.ModuleDict({"add": Layer(function)})
        self.linear = torch.nn.Linear(10, 10)

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return scaled_pair(self.inner["add"](self.linear(a), b), b, 0.5, "scale")


def rows() -> list[Row]:
    torch.manual_seed(0)
    x = (torch.rand(2, 3, 10), torch.rand(2, 3, 10))
    other = ((torch.rand(5, 3, 10), torch.rand(5, 3, 10)), {})
    batch = torch.export.Dim("batch")
    result = []
    captures: tuple[Literal["export", "trace"], ...] = ("export", "trace")
    for capture in captures:
        for name, function in (("ATen kernel", my_add), ("raw data_ptr kernel", my_add_raw)):
            result.append(check(f"my_add, {name} ({capture})", "mapping", Layer(function), x, capture=capture))
            result.append(
                check(
                    f"nested, dynamic batch, {name} ({capture})",
                    "mapping",
                    Nested(function).eval(),
                    x,
                    capture=capture,
                    dynamic_shapes=({0: batch}, {0: batch}),
                    verify_on=other,
                )
            )
    return result


if __name__ == "__main__":
    sys.stdout.write(table(rows()) + "\n")
