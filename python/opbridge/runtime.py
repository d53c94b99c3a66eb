"""ONNX Runtime with opbridge's operators."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from opbridge.dtypes import ELEMENT_TYPES
from opbridge.errors import FileError
from opbridge.operators import COMPAT, libraries_at, loaded_ort_libraries, ort_library, read_operators
from opbridge.paths import checked_path
from opbridge.runtime_errors import explain_failures

if TYPE_CHECKING:
    import onnxruntime

# NumPy lacks these types; they are passed to ONNX Runtime as OrtValues over torch's memory. By the runtime's names.
_NOT_IN_NUMPY = {
    "tensor(bfloat16)": torch.bfloat16,
    "tensor(float8e4m3fn)": torch.float8_e4m3fn,
    "tensor(float8e4m3fnuz)": torch.float8_e4m3fnuz,
    "tensor(float8e5m2)": torch.float8_e5m2,
    "tensor(float8e5m2fnuz)": torch.float8_e5m2fnuz,
}

# If one factor of a product comes from DequantizeLinear, ONNX Runtime rounds the other to 8 bits, unless an option
# turns that off.
_IN_FLOAT32 = ("session.qdq_matmulnbits_accuracy_level", "1")


def session(
    path: str | os.PathLike[str] | bytes,
    *,
    sess_options: onnxruntime.SessionOptions | None = None,
    providers: Sequence[Any] = ("CPUExecutionProvider",),
    libraries: Sequence[str | os.PathLike[str]] = (),
    bundled: bool = True,
) -> onnxruntime.InferenceSession:
    """An InferenceSession of ONNX Runtime with opbridge's operators, and with those loaded by load_operators.

    Args:
        path: The ONNX model: its path, or the bytes of a file.
        sess_options: Options of the session, to which the libraries of operators are added. By default, those of ONNX
            Runtime with warnings hidden, and products of quantized weights computed in float32.
        providers: ONNX Runtime's execution providers by priority: names, or pairs of a name and its options. Nodes
            that the first ones do not take run on the CPU.
        libraries: Libraries of other operators, by their paths. A set made with opbridge may be named by its stem,
            which ``opbridge.build`` returns.
        bundled: Whether the session has the operators that ship with opbridge. It also has those of
            ``opbridge.operators.COMPAT``, unless another library has, or may have, operators of the same names.

    Returns:
        The session. ``run(None, {name: array})`` takes and returns NumPy arrays.

    Raises:
        FileError: There is no such file, or no such library.
        Error: ONNX Runtime cannot load the model or a library. The message says what would help, and the cause is ONNX
            Runtime's own error.
    """
    import onnxruntime

    used = libraries_of_session(libraries, bundled)
    model = path if isinstance(path, bytes) else _existing(path)
    options = sess_options or onnxruntime.SessionOptions()
    if sess_options is None:
        options.log_severity_level = 3
        options.add_session_config_entry(*_IN_FLOAT32)
    with explain_failures(model):
        for library in used:
            options.register_custom_ops_library(library)
        return onnxruntime.InferenceSession(model, options, providers=list(providers))


def _existing(path: str | os.PathLike[str]) -> str:
    checked = checked_path(path)
    if not os.path.exists(checked):
        raise FileError(f"no such file: {checked}")
    if os.path.isdir(checked):
        raise FileError(f"{checked} is a folder, not an ONNX model")
    return checked


def libraries_of_session(libraries: Sequence[str | os.PathLike[str]], bundled: bool = True) -> list[str]:
    """The paths of all libraries of a session for which ``libraries`` are given."""
    given = libraries_at(libraries)
    shipped, compat = ort_library(), ort_library(COMPAT)
    used = dict.fromkeys([shipped, compat, *loaded_ort_libraries(), *given])
    others = [library for library in used if library not in (shipped, compat)]
    left_out = []
    if not bundled:
        left_out = [shipped, compat]
    elif any(_may_share_names(library) for library in others):
        left_out = [compat]
    return [library for library in used if library not in left_out or library in given]


def _may_share_names(library: str) -> bool:
    """Whether a library may have operators of the names in COMPAT. Only one made with opbridge lists its names."""
    try:
        names = {operator.name for operator in read_operators(library)}
    except (OSError, ValueError):
        return True
    return not names.isdisjoint(operator.name for operator in read_operators(COMPAT))


def run(running: onnxruntime.InferenceSession, feeds: Mapping[str, torch.Tensor]) -> list[torch.Tensor]:
    """Runs a session on torch tensors; returns its outputs as torch tensors, in order."""
    import onnxruntime

    outputs = [value.name for value in running.get_outputs()]
    values = {name: _to_ort(tensor, onnxruntime.OrtValue) for name, tensor in feeds.items()}
    return [_from_ort(value) for value in running.run_with_ort_values(outputs, values)]


def _to_ort(tensor: torch.Tensor, ort_value: Any) -> Any:
    tensor = tensor.detach().cpu().contiguous()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    if tensor.dtype in _NOT_IN_NUMPY.values():
        bits = tensor.view(torch.int16 if tensor.itemsize == 2 else torch.uint8).numpy()
        return ort_value.ortvalue_from_numpy_with_onnx_type(bits, ELEMENT_TYPES[tensor.dtype])
    return ort_value.ortvalue_from_numpy(tensor.numpy())


def _from_ort(value: Any) -> torch.Tensor:
    if dtype := _NOT_IN_NUMPY.get(value.data_type()):
        tensor = torch.empty(value.shape(), dtype=dtype)
        ctypes.memmove(tensor.data_ptr(), value.data_ptr(), tensor.nbytes)
        return tensor
    array = value.numpy()
    if array.dtype == np.uint64:
        array = array.view(np.uint64)  # torch accepts only one of NumPy's two types of this size
    return torch.from_numpy(array)
