"""Scenario 4: an operator written once (operators/my_add): both runtimes and the mapping follow from it."""

from __future__ import annotations

import torch
from scenario import Row, check, table

import opbridge
from opbridge.operators import COMPAT


class Model(torch.nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.ops.custom.my_add(a, b)


def rows() -> list[Row]:
    opbridge.load_operators(COMPAT)
    x = (torch.rand(2, 3, 10), torch.rand(2, 3, 10))
    batch = torch.export.Dim("batch")
    other = ((torch.rand(7, 3, 10), torch.rand(7, 3, 10)), {})
    return [
        check("my_add written once", "all three", Model(), x),
        check(
            "my_add written once, dynamic batch",
            "all three",
            Model(),
            x,
            dynamic_shapes=({0: batch}, {0: batch}),
            verify_on=other,
        ),
    ]


if __name__ == "__main__":
    print(table(rows()))
