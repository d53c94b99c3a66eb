from collections.abc import Sequence
from typing import Any

import torch

class Dim:
    """A size: an integer expression over named symbols."""

    @staticmethod
    def parse(text: str, names: dict[str, str] = ...) -> Dim: ...
    @property
    def symbols(self) -> list[str]: ...

class Graph:
    """A captured program. Its text is one node a line."""

    def verify(self) -> None: ...
    @property
    def source_lines(self) -> list[str]:
        """The line of the user's program of each node."""
    @property
    def node_count(self) -> int: ...

class ProgramValue:
    """A value of the program that is being built."""

class ProgramBuilder:
    """Builds a Graph of PyTorch operators, call by call.

    A shape is a sequence of ints and Dims; one Dim alone stands for a Python number.
    """

    def input(self, name: str, dtype: torch.dtype, shape: Sequence[int | Dim] | Dim) -> ProgramValue: ...
    def weight(
        self, name: str, dtype: torch.dtype, dims: Sequence[int], address: int, byte_count: int, owner: object
    ) -> ProgramValue: ...
    def call(
        self,
        op: str,
        names: Sequence[str],
        arguments: Sequence[Any],
        named: dict[str, Any],
        results: Sequence[tuple[str, torch.dtype, Sequence[int | Dim] | Dim]],
        scope: str,
        line: str,
    ) -> list[ProgramValue]: ...
    def output(self, value: ProgramValue, name: str) -> None: ...
    def finish(self) -> Graph: ...

def set_torch_types(dtype: type[torch.dtype], elements: dict[torch.dtype, int], opaque: tuple[type, ...]) -> None: ...
