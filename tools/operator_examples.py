"""Calls of operators that neither PyTorch's operator database nor a random call has, by the key of the mapping."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.ao.quantization.fx._decomposed  # registers quantized_decomposed
import torchvision  # noqa: F401 - registers torchvision's operators
from torch._higher_order_ops import map, scan, while_loop
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

X = torch.rand(1, 4, 6, 6)
ROWS = torch.rand(3, 4)
LEVELS = torch.randint(-128, 127, (3, 4), dtype=torch.int8)
ROIS = torch.tensor([[0.0, 0.0, 0.0, 4.0, 4.0]])
KERNEL = torch.rand(4, 4, 3, 3)
SCALE, ZERO = torch.tensor([0.1]), torch.tensor([0])
SCALES, ZEROS = torch.full((3,), 0.1), torch.zeros(3, dtype=torch.int64)
INT8 = (-128, 127, torch.int8)


class _Packed(torch.nn.Module):
    def __init__(self, layer: torch.nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: torch.Tensor) -> Any:
        packed = pack_padded_sequence(x, torch.tensor([3, 2]), batch_first=True)
        return pad_packed_sequence(self.layer(packed)[0], batch_first=True)[0]


def _convolution(*rest: bool) -> Callable[..., Any]:
    return lambda x, w: torch.ops.aten._convolution(x, w, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1, *rest)


def examples() -> dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]]:
    """Functions and their arguments."""
    vision, quantized = torch.ops.torchvision, torch.ops.quantized_decomposed
    sequences = torch.rand(2, 3, 4)
    found: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
        "torchvision::deform_conv2d": (
            lambda *tensors: vision.deform_conv2d(*tensors, 1, 1, 0, 0, 1, 1, 1, 1, True),
            (X, KERNEL, torch.rand(1, 18, 4, 4), torch.rand(1, 9, 4, 4), torch.rand(4)),
        ),
        "torchvision::nms": (lambda boxes, scores: vision.nms(boxes, scores, 0.5), (ROWS, torch.rand(3))),
        "torchvision::roi_pool": (lambda x, rois: vision.roi_pool(x, rois, 1.0, 2, 2), (X, ROIS)),
        "torchvision::ps_roi_pool": (lambda x, rois: vision.ps_roi_pool(x, rois, 1.0, 2, 2), (X, ROIS)),
        "torchvision::ps_roi_align": (lambda x, rois: vision.ps_roi_align(x, rois, 1.0, 2, 2, 2), (X, ROIS)),
        "aten::_convolution": (_convolution(False, False, False, False), (X, KERNEL)),
        "aten::_convolution.deprecated": (_convolution(False, False, False), (X, KERNEL)),
        "aten::_convolution_mode": (
            lambda x, w: torch.ops.aten._convolution_mode(x, w, None, [1, 1], "same", [1, 1], 1),
            (X, KERNEL),
        ),
        "aten::squeeze.dims": (lambda x: x.squeeze((0, 1)), (torch.rand(1, 1, 4),)),
        "aten::moveaxis.intlist": (lambda x: x.moveaxis((0,), (1,)), (ROWS,)),
        "aten::swapaxes": (lambda x: x.swapaxes(0, 1), (ROWS,)),
        "aten::swapdims": (lambda x: x.swapdims(0, 1), (ROWS,)),
        "higher_order::cond": (
            lambda x: torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,)),
            (ROWS,),
        ),
        "higher_order::map_impl": (lambda x: map(lambda row: row.relu(), x), (ROWS,)),
        "higher_order::scan": (lambda x: scan(lambda y, row: (y + row, y * 1), x[0] * 0, x), (ROWS,)),
        "higher_order::while_loop": (lambda x: while_loop(lambda y: y.sum() < 9, lambda y: (y + 1,), (x,)), (ROWS,)),
        "quantized_decomposed::choose_qparams.tensor": (
            lambda x: quantized.choose_qparams.tensor(x, -128, 127, 1e-6, torch.int8),
            (ROWS,),
        ),
        "quantized_decomposed::choose_qparams_symmetric.tensor": (
            lambda x: quantized.choose_qparams_symmetric.tensor(x, -128, 127, 1e-6, torch.int8),
            (ROWS,),
        ),
        "quantized_decomposed::quantize_per_channel_group": (
            lambda x, s, z: quantized.quantize_per_channel_group(x, s, z, *INT8, 4),
            (ROWS, SCALES[:, None], ZEROS[:, None].int()),
        ),
        "quantized_decomposed::dequantize_per_channel_group": (
            lambda x, s, z: quantized.dequantize_per_channel_group(x, s, z, *INT8, 4, torch.float32),
            (LEVELS, SCALES[:, None], ZEROS[:, None].int()),
        ),
        "quantized_decomposed::fake_quant_per_channel": (
            lambda x, s, z: quantized.fake_quant_per_channel(x, s, z, 0, -128, 127),
            (ROWS, SCALES, ZEROS),
        ),
    }
    for name in ("choose_qparams_per_token", "choose_qparams_per_token_asymmetric"):
        op = getattr(quantized, name)
        found[f"quantized_decomposed::{name}"] = (lambda x, op=op: op(x, torch.int8), (ROWS,))
    for direction, x in (("quantize", ROWS), ("dequantize", LEVELS)):
        per_tensor = getattr(quantized, f"{direction}_per_tensor")
        per_channel = getattr(quantized, f"{direction}_per_channel")
        per_token = getattr(quantized, f"{direction}_per_token")
        to_float = (torch.float32,) if direction == "dequantize" else ()
        name = f"quantized_decomposed::{direction}_per"
        found |= {
            f"{name}_tensor": (lambda x, op=per_tensor: op(x, 0.1, 0, *INT8), (x,)),
            f"{name}_tensor.tensor": (lambda *t, op=per_tensor: op.tensor(*t, *INT8), (x, SCALE, ZERO)),
            f"{name}_tensor.tensor2": (
                lambda *t, op=per_tensor: op.tensor2(*t, torch.int8),
                (x, SCALE, ZERO, torch.tensor(-128), torch.tensor(127)),
            ),
            f"{name}_channel": (lambda *t, op=per_channel: op(*t, 0, *INT8), (x, SCALES, ZEROS)),
            f"{name}_token": (
                lambda *t, op=per_token, to_float=to_float: op(*t, *INT8, *to_float),
                (x, SCALES[:, None], ZEROS[:, None]),
            ),
        }
    layers = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU}
    for name, layer in layers.items():
        found[f"aten::{name}.data"] = (_Packed(layer(4, 2, batch_first=True)), (sequences,))
    for kind in ("tanh", "relu"):
        packed = _Packed(torch.nn.RNN(4, 2, batch_first=True, nonlinearity=kind))
        found[f"aten::rnn_{kind}.data"] = (packed, (sequences,))
    return found
