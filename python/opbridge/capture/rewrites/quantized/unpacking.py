"""Stand-ins for quantized tensors and packed weights that exist before the model runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from opbridge.capture.rewrites.quantized.embeddings import Table, table_of
from opbridge.capture.rewrites.quantized.levels import INTEGERS, Levels
from opbridge.capture.rewrites.quantized.operators import Packed
from opbridge.capture.rewrites.quantized.recurrent import Cell
from opbridge.torch_compat import script_class_of


def unpacked(value: Any) -> Any:
    """Returns the stand-in; None for any other value."""
    if isinstance(value, torch.ScriptObject):
        unpack = _UNPACKED.get(script_class_of(value))
        return unpack(value) if unpack else None
    if isinstance(value, torch.Tensor) and value.is_quantized and value.dtype in INTEGERS:
        return _levels_of(value)
    return None


def _levels_of(tensor: torch.Tensor) -> Levels:
    tensor = tensor.detach()
    integers = tensor.int_repr()
    if tensor.qscheme() in (torch.per_tensor_affine, torch.per_tensor_symmetric):
        return Levels(integers, tensor.q_scale(), tensor.q_zero_point())
    return Levels(
        integers,
        tensor.q_per_channel_scales().to(torch.float32),
        tensor.q_per_channel_zero_points(),
        tensor.q_per_channel_axis(),
    )


def _linear(packed: Any) -> Packed:
    return _packed(*packed.unpack())


def _packed(weight: torch.Tensor, bias: torch.Tensor | None, **options: Any) -> Packed:
    return Packed(_levels_of(weight) if weight.is_quantized else weight.detach().half(), bias, options)


def _convolution(packed: Any) -> Packed:
    options = {name: getattr(packed, name)() for name in ("stride", "padding", "dilation", "groups")}
    if packed.transpose():
        options["output_padding"] = packed.output_padding()
    return _packed(*packed.unpack(), **options)


def _embedding(packed: Any) -> Table:
    return table_of(packed.unpack())


def _cell(packed: Any) -> Cell:
    kind, _, _, numbers, weights = packed.__getstate__()[0]
    reduced = kind == "quantized_dynamic" and bool(numbers[0])
    of_input, of_state = (_packed(*each.unpack()) for each in weights)
    return Cell(of_input, of_state, reduced)


_UNPACKED: dict[str, Callable[[Any], Any]] = {
    "quantized.LinearPackedParamsBase": _linear,
    "quantized.Conv2dPackedParamsBase": _convolution,
    "quantized.Conv3dPackedParamsBase": _convolution,
    "quantized.EmbeddingPackedParamsBase": _embedding,
    "rnn.CellParamsBase": _cell,
}
