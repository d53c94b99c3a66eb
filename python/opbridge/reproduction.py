"""A folder that shows a difference without PyTorch's model: the ONNX model, its inputs, PyTorch's outputs, a script."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch

from opbridge import _core
from opbridge.errors import FileError
from opbridge.operator_names import namespace
from opbridge.operators import COMPAT, ort_library
from opbridge.runtime import libraries_of_session
from opbridge.verification import Comparison, in_pairs

_SCRIPT = '''"""Runs model.onnx in ONNX Runtime on inputs.npz and compares with expected.npz, PyTorch's outputs.

{summary}
"""

import ctypes
import sys
from pathlib import Path

import numpy as np
import onnxruntime

FOLDER = Path(__file__).parent
MODEL = {model}
LIBRARIES = {libraries}
TOLERANCES = {tolerances}  # of each output: relative, absolute


def run(path, feeds):
    options = onnxruntime.SessionOptions()
    for library in LIBRARIES:
        options.register_custom_ops_library(str(library))
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    bfloat16 = 16  # its number in ONNX; NumPy reads such tensors as two bytes, V2
    values = {{
        name: onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(array.view(np.int16), bfloat16)
        if array.dtype == np.dtype("V2")
        else onnxruntime.OrtValue.ortvalue_from_numpy(array)
        for name, array in feeds.items()
    }}
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run_with_ort_values(names, values)))


def as_array(value):
    if isinstance(value, np.ndarray):
        return value
    if value.data_type() != "tensor(bfloat16)":
        return value.numpy()
    bits = (ctypes.c_uint16 * int(np.prod(value.shape()))).from_address(value.data_ptr())
    return np.array(bits).view("V2").reshape(value.shape())


def numbers(array):
    """The elements as float64, complex numbers as pairs."""
    if array.dtype == np.dtype("V2"):
        array = (array.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    return array.astype(np.float64)


def compared(name, actual, expected):
    """Whether both agree, and a line that says how far they do."""
    if actual.dtype != expected.dtype:
        return False, f"{{name}}: element type {{actual.dtype}}, PyTorch returns {{expected.dtype}}"
    if actual.shape != expected.shape:
        return False, f"{{name}}: shape {{actual.shape}}, PyTorch returns {{expected.shape}}"
    relative, absolute = TOLERANCES[name]
    a, e = numbers(actual), numbers(expected)
    with np.errstate(invalid="ignore"):
        differences = np.where((a == e) | (np.isnan(a) & np.isnan(e)), 0, np.abs(a - e))
        agree = np.isfinite(differences) & (differences <= absolute + relative * np.abs(e))
    return agree.all(), (
        f"{{name}}: largest difference {{differences.max(initial=0):.6g}}; {{np.sum(~agree)}} of {{agree.size}} "
        f"elements differ by more than {{absolute:g}} + {{relative:g}} * |expected|"
    )


actual = run(MODEL, dict(np.load(FOLDER / "inputs.npz")))
agreements = []
for name, expected in np.load(FOLDER / "expected.npz").items():
    agrees, line = compared(name, as_array(actual[name]), expected)
    agreements.append(agrees)
    print(line)
if not all(agreements):
    sys.exit("ONNX Runtime and PyTorch differ")
print("all outputs agree")
'''


def write_reproduction(folder: str | os.PathLike[str], comparison: Comparison, summary: str) -> Path:
    """Writes the folder and returns its path. Files of an earlier reproduction are replaced."""
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    model = _copied_model(Path(comparison.path), path)
    _save(path / "inputs.npz", comparison.feeds | comparison.parameters)
    expected = {name: in_pairs(value) for name, value in zip(comparison.names, comparison.expected, strict=False)}
    _save(path / "expected.npz", expected)
    operators = _core.operators_of(os.fspath(comparison.path))
    libraries = _copied_libraries(path, operators, libraries_of_session(comparison.libraries))
    tolerances = {name: _tolerances(tensor.dtype, *comparison.tolerances) for name, tensor in expected.items()}
    (path / "reproduce.py").write_text(
        _SCRIPT.format(summary=summary, model=model, libraries=f"[{', '.join(libraries)}]", tolerances=tolerances),
        encoding="utf-8",
    )
    return path


def _tolerances(dtype: torch.dtype, rtol: float | None, atol: float | None) -> tuple[float, float]:
    relative, absolute = _core.tolerances_of(dtype)
    return relative if rtol is None else rtol, absolute if atol is None else atol


def _copied_model(model: Path, folder: Path) -> str:
    """The expression for the model's path: of a copy, or of the original if its weights are in files of others."""
    data = model.with_name(f"{model.name}.data")
    copy = folder / "model.onnx"
    shutil.copyfile(model, copy)
    if data.exists():
        shutil.copyfile(data, folder / data.name)
    try:
        _core.operators_of(str(copy))
    except FileError:  # its weights are in other files
        copy.unlink()
        return f"Path({str(model.resolve())!r})  # not copied, since its weights are in other files"
    return 'FOLDER / "model.onnx"'


def _copied_libraries(folder: Path, operators: Mapping[str, int], libraries: Sequence[str]) -> list[str]:
    """The expressions for the paths of the libraries with the model's operators, copies of ``libraries``."""
    domains = {namespace(name) for name in operators if "::" in name}
    if not domains:
        return []
    unneeded = [ort_library()] if "opbridge" not in domains else []
    unneeded += [ort_library(COMPAT)] if domains == {"opbridge"} else []
    names: list[str] = []
    for library in libraries:
        if library in unneeded:
            continue
        name = Path(library).name
        if name in names:
            name = f"{len(names)}_{name}"
        shutil.copyfile(library, folder / name)
        names.append(name)
    return [f"FOLDER / {name!r}" for name in names]


def _save(path: Path, tensors: Mapping[str, object]) -> None:
    arrays = {}
    for name, value in tensors.items():
        tensor = in_pairs(value).contiguous()
        is_bfloat16 = tensor.dtype == torch.bfloat16
        arrays[name] = tensor.view(torch.int16).numpy().view(np.dtype("V2")) if is_bfloat16 else tensor.numpy()
    _savez(path, list(arrays), list(arrays.values()))


def _savez(path: Path, names: Sequence[str], arrays: Sequence[np.ndarray]) -> None:
    """numpy.savez, whose own keyword ``file`` may also be the name of a tensor."""
    import zipfile

    with zipfile.ZipFile(path, "w") as archive:
        for name, array in zip(names, arrays, strict=True):
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, array, allow_pickle=False)
