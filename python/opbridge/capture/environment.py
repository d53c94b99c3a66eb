"""What holds while a model is captured."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

from opbridge.errors import UnsupportedError


@contextlib.contextmanager
def capturing(model: Any) -> Iterator[None]:
    """Evaluation mode, no gradients, no fused transformer kernels; the model knows that it is exported.

    The fast paths of ``nn.MultiheadAttention`` and ``nn.TransformerEncoder`` call private kernels in place
    of the operators that the modules are made of. The modes of the model's modules are as before afterwards.
    """
    if torch.is_autocast_enabled("cpu"):
        raise UnsupportedError(
            "the model is captured inside torch.autocast, whose casts no capture sees; "
            "leave it, and convert the model itself (model.to(torch.bfloat16)) if that is wanted"
        )
    from torch.onnx._internal.exporter import _flags

    modules = list(model.modules()) if isinstance(model, torch.nn.Module) else []
    in_training = [module for module in modules if module.training]
    fastpath = torch.backends.mha.get_fastpath_enabled()
    exporting = _flags._is_onnx_exporting
    compiler: Any = torch.compiler
    compiler_flags = compiler._is_compiling_flag, compiler._is_exporting_flag
    try:
        for module in in_training:
            module.training = False
        torch.backends.mha.set_fastpath_enabled(False)
        _flags._is_onnx_exporting = True
        compiler._is_compiling_flag = compiler._is_exporting_flag = True
        with torch.no_grad():
            yield
    finally:
        compiler._is_compiling_flag, compiler._is_exporting_flag = compiler_flags
        _flags._is_onnx_exporting = exporting
        torch.backends.mha.set_fastpath_enabled(fastpath)
        for module in in_training:
            module.training = True
