"""Skips, with a message, what an older ONNX Runtime cannot run; wrong results still fail."""

from __future__ import annotations

from collections.abc import Iterator

import onnxruntime
import pytest
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented as NoKernel

import opbridge

NEWEST = (1, 31)
INSTALLED = tuple(map(int, onnxruntime.__version__.split(".")[:2]))

# The messages with which it refuses a model of a later ONNX version.
OF_LATER_ONNX = ("Unsupported model IR version", "official released onnx opset versions")


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call() -> Iterator[None]:
    try:
        return (yield)
    except (NoKernel, Fail, InvalidArgument, opbridge.Error) as raised:
        error = raised.__cause__ if isinstance(raised, opbridge.Error) else raised
        is_skipped = isinstance(error, NoKernel) or any(text in str(error) for text in OF_LATER_ONNX)
        if INSTALLED >= NEWEST or not is_skipped:
            raise
        pytest.skip(f"ONNX Runtime {onnxruntime.__version__}: {error}")
