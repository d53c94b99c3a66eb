"""What an older ONNX Runtime than the newest cannot run is left out, and said so; wrong results are not excused."""

from __future__ import annotations

from collections.abc import Iterator

import onnxruntime
import pytest
from onnxruntime.capi.onnxruntime_pybind11_state import Fail
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented as NoKernel

NEWEST = (1, 31)
INSTALLED = tuple(map(int, onnxruntime.__version__.split(".")[:2]))


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call() -> Iterator[None]:
    try:
        return (yield)
    except (NoKernel, Fail) as error:
        # A failure of another kind than to load what is of a later version of ONNX is one.
        if INSTALLED >= NEWEST or (isinstance(error, Fail) and "Unsupported model IR version" not in str(error)):
            raise
        pytest.skip(f"ONNX Runtime {onnxruntime.__version__}: {error}")
