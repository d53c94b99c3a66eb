"""Compares results of ONNX Runtime with eager PyTorch's, and both with results in float64."""

from __future__ import annotations

from typing import Any

import torch

ROUNDED = (torch.float32, torch.float16, torch.bfloat16)


def real(value: Any) -> torch.Tensor:
    """The value as ONNX represents it: a number as a 0-d tensor, a complex tensor as pairs."""
    tensor = value if isinstance(value, torch.Tensor) else torch.tensor(value)
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def widened(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor in float64 or complex128."""
    if tensor.is_complex():
        return tensor.to(torch.complex128)
    return tensor.to(torch.float64) if tensor.is_floating_point() else tensor


def as_exact(actual: torch.Tensor, eager: torch.Tensor, exact: torch.Tensor) -> bool:
    """Whether each element is as close to the result in float64 as eager's own, or within the tolerance.

    Rounding moves some elements of eager PyTorch itself beyond the tolerance, above all in float16.
    """
    if exact.shape != actual.shape:
        return False
    # Both are judged after rounding to the type of the result, in which PyTorch overflows as well.
    exact = exact.to(actual.dtype).double()
    a, e = actual.double(), eager.double()
    rtol, atol = torch.testing._comparison.default_tolerances(actual)
    same = (a == e) | (a == exact) | (a.isnan() & (e.isnan() | exact.isnan()))
    bound = torch.maximum((e - exact).abs(), atol + rtol * exact.abs())
    return bool((same | ((a - exact).abs() <= bound)).all())
