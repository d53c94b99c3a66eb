"""Scenario 6: the tutorial's exercises: BitShift, and Resize whose scales are an input of the model."""

from __future__ import annotations

from typing import Any

import torch
from scenario import Row, check, table


# --8<-- [start:shift]
class Shift(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x << 1


# --8<-- [end:shift]


# --8<-- [start:resize]
class Interpolate(torch.autograd.Function):
    """Bilinear interpolation with scale factors in a tensor."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.interpolate(x, scale_factor=scales.tolist()[-2:], mode="bilinear")

    @staticmethod
    def symbolic(g: Any, x: Any, scales: Any) -> Any:
        resized = g.op("Resize", x, None, scales, mode_s="linear", coordinate_transformation_mode_s="half_pixel")
        # The example's sizes hold only for the example's scales.
        return resized.setType(x.type().with_sizes([1, 3, "height", "width"]))


class Upscale(torch.nn.Module):
    def forward(self, x: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
        return Interpolate.apply(x, scales)


# --8<-- [end:resize]


def rows() -> list[Row]:
    torch.manual_seed(0)
    image, scales = torch.rand(1, 3, 8, 8), torch.tensor([1.0, 1.0, 3.0, 2.0])
    return [
        check("x << 1 on uint8", "none missing", Shift(), (torch.randint(0, 256, (3, 4), dtype=torch.uint8),)),
        check(
            "interpolate, scales as input",
            "mapping",
            Upscale(),
            (image, scales),
            capture="trace",
            verify_on=((image, torch.tensor([1.0, 1.0, 2.0, 4.0])), {}),
        ),
    ]


if __name__ == "__main__":
    print(table(rows()))
