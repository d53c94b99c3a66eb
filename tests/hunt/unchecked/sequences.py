"""Losses, embeddings, recurrent layers and attention of sequences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from hunt.tensors import TensorSpec, spec_of
from hunt.unchecked.drawing import Arguments, Draw

aten = torch.ops.aten


def _ctc(d: Draw, tensors: bool) -> Arguments:
    d.dtype = d.choice(torch.float32, torch.float64)
    batch, classes, longest = d.size(1, 3), d.size(2, 4), d.size(1, 3)
    steps = 2 * longest + d.size(1, 3)
    log_probs = d.tensor(steps, batch, classes).make().log_softmax(-1)
    labels = d.indices(classes - 1, batch, longest).make() + 1
    lengths = [d.sizes(batch, longest, steps), d.sizes(batch, 0, longest)]
    given = [spec_of(torch.tensor(each)) for each in lengths] if tensors else lengths
    return {
        "log_probs": spec_of(log_probs),
        "targets": spec_of(labels),
        "input_lengths": given[0],
        "target_lengths": given[1],
        "blank": 0,
        "zero_infinity": d.choice(True, False),
    }


def _made(value: Any) -> Any:
    return value.make() if isinstance(value, TensorSpec) else value


def _ctc_backward(d: Draw, tensors: bool) -> Arguments:
    made = _ctc(d, tensors)
    loss, alpha = aten._ctc_loss(**{name: _made(value) for name, value in made.items()})
    return made | {"grad": d.tensor(*loss.shape), "neg_log_likelihood": spec_of(loss), "log_alpha": spec_of(alpha)}


def _bag(d: Draw) -> tuple[Arguments, list[torch.Tensor]]:
    """Arguments of _embedding_bag without weights, and its results."""
    d.dtype = d.choice(torch.float32, torch.float64)
    rows, width, count, bags = d.size(2, 4), d.size(1, 3), d.size(1, 5), d.size(1, 3)
    offsets = sorted([0, *d.sizes(bags - 1, 0, count)])
    made = {
        "weight": d.tensor(rows, width),
        "indices": d.indices(rows, count),
        "offsets": spec_of(torch.tensor(offsets)),
        "mode": d.choice(0, 1, 2),
        "padding_idx": d.choice(-1, 0),
    }
    return made, list(aten._embedding_bag(**{name: _made(value) for name, value in made.items()}))


def _embedding_bag_dense_backward(d: Draw) -> Arguments:
    made, results = _bag(d)
    weights = d.tensor(*made["indices"].size) if made["mode"] == 0 else None
    return {
        "grad": d.tensor(*results[0].shape),
        "indices": made["indices"],
        "offset2bag": spec_of(results[1]),
        "bag_size": spec_of(results[2]),
        "maximum_indices": spec_of(results[3]),
        "num_weights": made["weight"].size[0],
        "scale_grad_by_freq": made["mode"] != 2 and d.choice(True, False),
        "mode": made["mode"],
        "per_sample_weights": d.choice(None, weights),
        "padding_idx": made["padding_idx"],
    }


def _embedding_bag_weights_backward(d: Draw) -> Arguments:
    made, results = _bag(d)
    return made | {"mode": 0, "grad": d.tensor(*results[0].shape), "offset2bag": spec_of(results[1])}


def _embedding_backward(d: Draw) -> Arguments:
    rows, width, count = d.size(2, 4), d.size(), d.size()
    return {
        "grad": d.tensor(count, width),
        "indices": d.indices(rows, count),
        "num_weights": rows,
        "padding_idx": d.choice(-1, 0),
        "scale_grad_by_freq": d.choice(True, False),
        "sparse": False,
    }


def _transform_bias_rescale_qkv(d: Draw) -> Arguments:
    heads = d.size()
    width = 3 * heads * d.size()
    return {"qkv": d.tensor(*d.sizes(2), width), "qkv_bias": d.tensor(width), "num_heads": heads}


def _attention(d: Draw, *inputs: str) -> tuple[Arguments, int]:
    """The tensors of an attention, its mask, and its width."""
    batch, length, heads = d.sizes(3)
    width = heads * d.size(1, 3)
    mask_type = d.choice(None, 0, 1, 2)
    of_scores = (batch, heads, length, length)
    size = {0: (length, length), 1: (batch, length)}.get(mask_type, of_scores)
    return {
        **{name: d.tensor(batch, length, width) for name in inputs},
        "embed_dim": width,
        "qkv_weight": d.tensor(3 * width, width),
        "qkv_bias": d.tensor(3 * width),
        "proj_weight": d.tensor(width, width),
        "proj_bias": d.tensor(width),
        "mask": d.choice(None, d.mask(*size), d.tensor(*size), d.mask(*of_scores)),
        "mask_type": mask_type,
        ("num_heads" if "src" in inputs else "num_head"): heads,
    }, width


def _mkldnn_rnn_layer(d: Draw) -> Arguments:
    d.dtype = torch.float32
    length, batch, features, hidden = d.sizes(4)
    weights = (4 * hidden, features), (4 * hidden, hidden), (4 * hidden,), (4 * hidden,)
    return {
        "input": d.tensor(length, batch, features),
        **{f"weight{i}": d.tensor(*size) for i, size in enumerate(weights)},
        "hx_": d.tensor(1, batch, hidden),
        "cx_": d.tensor(1, batch, hidden),
        "reverse": d.choice(True, False),
        "batch_sizes": [],
        "mode": 2,
        "hidden_size": hidden,
        "num_layers": 1,
        "has_biases": d.choice(True, False),
        "bidirectional": False,
        "batch_first": False,
        "train": False,
    }


def _native_multi_head_attention(d: Draw) -> Arguments:
    made, _ = _attention(d, "query", "key", "value")
    return made | {"need_weights": True, "average_attn_weights": d.choice(True, False)}


def _transformer_encoder_layer(d: Draw) -> Arguments:
    made, width = _attention(d, "src")
    hidden = d.size()
    sizes = {f"norm_{kind}_{i}": (width,) for kind in ("weight", "bias") for i in (1, 2)} | {
        "ffn_weight_1": (hidden, width),
        "ffn_bias_1": (hidden,),
        "ffn_weight_2": (width, hidden),
        "ffn_bias_2": (width,),
    }
    flags = {"use_gelu": d.choice(True, False), "norm_first": d.choice(True, False), "eps": d.choice(1e-5, 0.5)}
    return made | flags | {name: d.tensor(*size) for name, size in sizes.items()}


RULES: dict[str, Callable[[Draw], Arguments]] = {
    "aten::_ctc_loss": lambda d: _ctc(d, tensors=False),
    "aten::_ctc_loss.Tensor": lambda d: _ctc(d, tensors=True),
    "aten::_ctc_loss_backward": lambda d: _ctc_backward(d, tensors=False),
    "aten::_ctc_loss_backward.Tensor": lambda d: _ctc_backward(d, tensors=True),
    "aten::_embedding_bag_dense_backward": _embedding_bag_dense_backward,
    "aten::_embedding_bag_per_sample_weights_backward": _embedding_bag_weights_backward,
    "aten::_native_multi_head_attention": _native_multi_head_attention,
    "aten::_transform_bias_rescale_qkv": _transform_bias_rescale_qkv,
    "aten::_transformer_encoder_layer_fwd": _transformer_encoder_layer,
    "aten::embedding_backward": _embedding_backward,
    "aten::mkldnn_rnn_layer": _mkldnn_rnn_layer,
}
