"""A folder that shows a difference without PyTorch's model: the ONNX model, its inputs, PyTorch's outputs, a script."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from opbridge import _core
from opbridge.errors import FileError
from opbridge.operator_names import namespace
from opbridge.operators import COMPAT, loaded_ort_libraries, ort_library

if TYPE_CHECKING:
    from opbridge.verification import Comparison

_SCRIPT = '''"""Runs model.onnx in ONNX Runtime on inputs.npz and compares with expected.npz, PyTorch's outputs.

{summary}
"""

import ctypes
from pathlib import Path

import numpy as np
import onnxruntime

FOLDER = Path(__file__).parent
MODEL = {model}
LIBRARIES = {libraries}


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


def numbers(value):
    """The elements as float64, complex numbers as pairs."""
    if not isinstance(value, np.ndarray):
        if value.data_type() == "tensor(bfloat16)":
            bits = (ctypes.c_uint16 * int(np.prod(value.shape()))).from_address(value.data_ptr())
            value = np.array(bits).view("V2").reshape(value.shape())
        else:
            value = value.numpy()
    if value.dtype == np.dtype("V2"):
        value = (value.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    return value.astype(np.float64)


actual = run(MODEL, dict(np.load(FOLDER / "inputs.npz")))
for name, expected in np.load(FOLDER / "expected.npz").items():
    a, e = numbers(actual[name]), numbers(expected)
    if a.shape != e.shape:
        print(f"{{name}}: shape {{a.shape}}, PyTorch returns {{e.shape}}")
        continue
    with np.errstate(invalid="ignore"):
        differences = np.where((a == e) | (np.isnan(a) & np.isnan(e)), 0, np.abs(a - e))
    print(f"{{name}}: largest difference {{differences.max(initial=0):.6g}}")
'''


def write_reproduction(folder: str | os.PathLike[str], comparison: Comparison, summary: str) -> Path:
    """Writes the folder and returns its path. What it has of an earlier reproduction is replaced."""
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    model = _copied_model(Path(comparison.path), path)
    _save(path / "inputs.npz", comparison.feeds | comparison.parameters)
    _save(path / "expected.npz", dict(zip(comparison.names, comparison.expected, strict=False)))
    libraries = _copied_libraries(path, _core.operators_of(os.fspath(comparison.path)))
    (path / "reproduce.py").write_text(
        _SCRIPT.format(summary=summary, model=model, libraries=f"[{', '.join(libraries)}]"), encoding="utf-8"
    )
    return path


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


def _copied_libraries(folder: Path, operators: Mapping[str, int]) -> list[str]:
    """The expressions for the paths of the libraries with the model's operators."""
    domains = {namespace(name) for name in operators if "::" in name}
    if not domains:
        return []
    expressions = []
    shipped = [ort_library()] if "opbridge" in domains else []
    compat = [ort_library(COMPAT)] if domains - {"opbridge"} and not loaded_ort_libraries() else []
    for library in dict.fromkeys([*shipped, *compat, *loaded_ort_libraries()]):
        name = Path(library).name
        shutil.copyfile(library, folder / name)
        expressions.append(f'FOLDER / "{name}"')
    return expressions


def _save(path: Path, tensors: Mapping[str, object]) -> None:
    from opbridge.verification import in_pairs

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
