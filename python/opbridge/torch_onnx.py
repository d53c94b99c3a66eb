"""``import opbridge.torch_onnx as torch_onnx``: stands in for ``torch.onnx`` in a script.

It has the names of torch.onnx; some of them are torch's own objects. The error for a name that it lacks says what to
use instead.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.onnx

from opbridge.errors import Error as OnnxExporterError
from opbridge.exporter import export
from opbridge.onnx_program import ONNXProgram

__all__ = [
    "ExportableModule",
    "ONNXProgram",
    "OnnxExporterError",
    "export",
]

# The names that are torch.onnx's own objects, as far as the installed torch has them.
_OF_TORCH = frozenset(
    {
        "OperatorExportTypes",
        "TrainingMode",
        "is_in_onnx_export",
        "ops",
        "register_custom_op_symbolic",
        "select_model_mode_for_export",
        "symbolic_helper",
        "unregister_custom_op_symbolic",
    }
)

_INSTEAD = {
    "dynamo_export": "call export(model, args), with dynamic_shapes for dynamic sizes",
    "ExportOptions": "pass its options to export: dynamic_shapes, opset_version, custom_translation_table",
    "enable_fake_mode": "load the weights before the export",
    "OnnxRegistry": "use register_custom_op_symbolic, or the custom_translation_table of export",
    "is_onnxrt_backend_supported": "call opbridge.session, or the program that export returns",
    "errors": "catch the exceptions of opbridge (opbridge.Error and its subclasses)",
    "verification": "call opbridge.verify, or export(…, verify=True)",
    "utils": "use the functions of opbridge.torch_onnx itself, such as export and register_custom_op_symbolic",
    "InputObserver": "record the inputs with torch.onnx.InputObserver, and pass its dynamic shapes to export",
    "JitScalarType": "use torch.dtype: value.type().dtype(), and g.cast",
    "TensorProtoDataType": "use torch.dtype: value.type().dtype(), and g.cast",
    "export_to_pretty_string": "call opbridge.export and print its text with the command 'opbridge inspect'",
    "register_custom_op": "use register_custom_op_symbolic",
}


class ExportableModule(getattr(torch.onnx, "ExportableModule", torch.nn.Module)):  # type: ignore[misc]
    """torch.onnx.ExportableModule, whose ``to_onnx`` uses opbridge."""

    def to_onnx(self, **kwargs: Any) -> ONNXProgram:
        """Exports the module with its own example arguments, names and dynamic shapes.

        Args:
            **kwargs: The keywords of ``export``.

        Returns:
            The program.
        """
        return export(self, **kwargs)


def __getattr__(name: str) -> Any:
    if name in _OF_TORCH and hasattr(torch.onnx, name):
        return getattr(torch.onnx, name)
    if name.startswith("symbolic_opset"):
        advice = "opbridge has mappings of its own; call g.op in your function"
    else:
        advice = _INSTEAD.get(name, "")
    if not advice and hasattr(torch.onnx, name):
        advice = f"torch.onnx.{name} belongs to torch's exporter, which opbridge does not use"
    raise AttributeError(f"opbridge.torch_onnx has no '{name}'" + (f": {advice}" if advice else ""))
