"""Skips, with a message, what an older ONNX Runtime cannot run; wrong results still fail."""

from __future__ import annotations

from collections.abc import Iterator

import onnxruntime
import pytest
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented as NoKernel

NEWEST = (1, 31)
INSTALLED = tuple(map(int, onnxruntime.__version__.split(".")[:2]))


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call() -> Iterator[None]:
    try:
        return (yield)
    except (NoKernel, Fail, InvalidArgument) as error:
        # Only a failure to load a model of a later ONNX version is skipped.
        if INSTALLED >= NEWEST or (
            not isinstance(error, NoKernel) and "Unsupported model IR version" not in str(error)
        ):
            raise
        pytest.skip(f"ONNX Runtime {onnxruntime.__version__}: {error}")
