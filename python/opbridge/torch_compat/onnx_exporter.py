"""The flag of torch.onnx by which a model detects that it is exported."""

from __future__ import annotations

from opbridge.torch_compat.lookup import PatchPoint, look_up

with look_up():
    from torch.onnx._internal.exporter import _flags

IS_EXPORTING = PatchPoint(_flags, "_is_onnx_exporting")
