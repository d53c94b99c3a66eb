"""Captures in which torch, or the model, uses the attributes that opbridge replaces meanwhile."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.attention.flex_attention
from torch import nn
from torch._higher_order_ops import associative_scan
from torch.ao.quantization import quantize_dynamic
from torch.nn.attention.bias import causal_lower_right
from torch.nn.attention.flex_attention import flex_attention
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import opbridge
from opbridge.capture import capture


class Model(nn.Module):
    def __init__(self, function: Callable[..., Any], **parts: nn.Module) -> None:
        super().__init__()
        self.function = function
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, *args: Any) -> Any:
        return self.function(self, *args)


def of_questions(model: Model, x: torch.Tensor) -> torch.Tensor:
    questions = torch.compiler.is_compiling, torch.compiler.is_exporting, torch.onnx.is_in_onnx_export
    return x + sum(question() for question in questions)


@torch.library.custom_op("replacement_test::negated", mutates_args=())
def negated(x: torch.Tensor) -> torch.Tensor:
    return -x


@negated.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


def of_sparse_tensors(model: Model, x: torch.Tensor) -> torch.Tensor:
    indices = torch.tensor([0, 1])
    made = [
        torch.sparse_coo_tensor(torch.stack([indices, indices]), x[0], (2, 2)),
        torch.sparse_csr_tensor(torch.tensor([0, 1, 2]), indices, x[0], (2, 2)),
        *(x.to_sparse(), x.to_sparse_coo(), x.to_sparse_csr()),
    ]
    return torch.stack([each.to_dense() for each in made])


def of_quantized_tensors(model: Model, x: torch.Tensor) -> torch.Tensor:
    scales, zero_points = torch.tensor([0.1, 0.2]), torch.tensor([0, 1])
    made = [
        torch.quantize_per_tensor(x, 0.1, 0, torch.quint8),
        torch.quantize_per_channel(x, scales, zero_points, 0, torch.quint8),
        torch._make_per_tensor_quantized_tensor(x.to(torch.uint8), 0.1, 0),
        torch._make_per_channel_quantized_tensor(x.to(torch.uint8), scales, zero_points, 0),
    ]
    return torch.stack([each.dequantize() for each in made] + torch.dequantize(made))


def quantized_layers() -> nn.Module:
    class Layers(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm, self.gru = nn.LSTM(3, 3), nn.GRU(3, 3)

        def forward(self, x: torch.Tensor) -> Any:
            return self.lstm(x)[0] + self.gru(x)[0]

    return quantize_dynamic(Layers().eval(), {nn.LSTM, nn.GRU})


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @staticmethod
    def symbolic(g: Any, x: Any) -> Any:
        return g.op("Add", x, x)


def of_branches(model: Model, x: torch.Tensor) -> torch.Tensor:
    return torch.cond(x.sum() > 0, lambda t: t * 2, lambda t: t * 3, (x,))


def of_attributes(model: Model, x: torch.Tensor) -> torch.Tensor:
    model.latest = x * 2
    model.counter = model.counter + 1
    return model.latest + model.counter


def counting() -> Model:
    model = Model(of_attributes)
    model.latest = torch.zeros(4, 3)
    model.register_buffer("counter", torch.zeros(1))
    return model


def branching_on_a_buffer() -> Model:
    model = Model(lambda model, x: x if model.counter > 0 else -x)
    model.register_buffer("counter", torch.zeros(1))
    return model


def of_sizes(model: Model, x: torch.Tensor, y: torch.Tensor) -> Any:
    n = x.shape[0]
    texts = f"{n!r} {n / 2!r} {n > 2} {n:3d} {n / 2:.1f}"
    cache = {}
    cache[n] = y
    z = x + y if n > 2 else x
    made = [torch.linspace(0, 1, n), torch.as_tensor(n / 2), torch.asarray(n / 2), x.new_tensor(n / 2)]
    z = nn.functional.pad(z, (0, 1), value=n / 2) * round(n, -1)
    z = z * (math.ceil(n / 2) + math.floor(n / 2) + int(n / 2) + torch.sym_max(n, 3))
    z = z * (n // 0.1 + 0.1 // n + n / 2 // 0.1 + 0.1 // (n / 2))
    made += [x.new_ones(torch._C._infer_size(x.shape, x[:1].shape))]
    made += [*torch.tensor_split(x, 3), *x.tensor_split(2), torch.complex(x, x) + n]
    return [z * len(texts) * torch.SymInt.bit_length(n), cache[n], *made, *z.split(n // 2)]


def of_packed(model: Model, x: torch.Tensor, lengths: torch.Tensor) -> Any:
    packed = pack_padded_sequence(x, lengths, batch_first=True)
    for name in ("lstm", "gru", "rnn"):
        packed, _ = getattr(model, name)(packed)
    return pad_packed_sequence(packed, batch_first=True)


def of_attention(model: Model, x: torch.Tensor) -> Any:
    padding = torch.zeros(x.shape[:2], dtype=torch.bool)
    attended = model.attention(x, x, x, key_padding_mask=padding)
    return model.encoder(x, src_key_padding_mask=padding), model.encoder(x), attended


def of_causal_attention(model: Model, x: torch.Tensor) -> torch.Tensor:
    return nn.functional.scaled_dot_product_attention(x, x, x, causal_lower_right(2, 2))


def of_recurrent_and_vmap(model: Model, x: torch.Tensor) -> Any:
    return torch.vmap(lambda row: row * 2)(model.lstm(x)[0])


def of_derivatives(model: Model, x: torch.Tensor) -> Any:
    with torch.enable_grad():
        (x.requires_grad_() ** 2).sum().backward()
    return x.grad


def of_forward_mode(model: Model, x: torch.Tensor) -> Any:
    return torch.func.jvp(lambda x: (x * 2).lerp_(x, torch.tensor(0.3)), (x,), (x,))


def of_batches(model: Model, x: torch.Tensor) -> Any:
    jacobian = torch.autograd.functional.jacobian
    chunked = torch.vmap(torch.func.jacrev(torch.sin), chunk_size=1)(x)
    return (
        chunked,
        jacobian(torch.sin, x, vectorize=True),
        jacobian(torch.sin, x, vectorize=True, strategy="forward-mode"),
    )


def encoder() -> Model:
    layer = nn.TransformerEncoderLayer(4, 2, 8, 0.0, batch_first=True)
    attention = nn.MultiheadAttention(4, 2, batch_first=True)
    return Model(of_attention, encoder=nn.TransformerEncoder(layer, 1), attention=attention)


def of_compiled(x: torch.Tensor) -> torch.Tensor:
    return x.view(x.size(0), -1)


def scripted() -> Any:
    layer, function = torch.jit.script(nn.Linear(3, 3)), torch.jit.script(of_compiled)
    return Model(lambda model, x: function(model.layer(x)), layer=layer)


def recurrent() -> Model:
    return Model(of_packed, lstm=nn.LSTM(3, 3), gru=nn.GRU(3, 3), rnn=nn.RNN(3, 3))


def compiled() -> Model:
    torch._dynamo.reset()
    inner = torch.compile(torch.sin, backend="eager")
    return Model(lambda _, x: inner(torch.compile(torch.cos, backend="eager")(x)))


def built_without_memory() -> None:
    with opbridge.meta_parameters():
        nn.Linear(1, 1)


def of_torchvision(model: Model, x: torch.Tensor) -> Any:
    ops, roi_heads, transform, resizing, resizing_v2 = map(importlib.import_module, OF_TORCHVISION)
    boxes = torch.tensor([[0.0, 0, 4, 4]])
    results = [{"boxes": boxes, "masks": torch.ones(1, 1, 4, 4)}]
    resized = transform.GeneralizedRCNNTransform(4, 4, [0.0], [1.0]).eval().postprocess(results, [(4, 4)], [(8, 8)])
    kept = [module.batched_nms(boxes, boxes[:, 0], torch.zeros(1), 0.5) for module in (ops, ops.boxes)]
    masks = roi_heads.paste_masks_in_image(torch.ones(1, 1, 4, 4), boxes, (8, 8))
    keypoints = roi_heads.keypointrcnn_inference(torch.rand(1, 1, 8, 8), [boxes])
    images = [module.resize(x, [2], antialias=False) for module in (resizing, resizing_v2)]
    return resized, kept, masks, keypoints, images


OF_TORCHVISION = (
    "torchvision.ops",
    "torchvision.models.detection.roi_heads",
    "torchvision.models.detection.transform",
    "torchvision.transforms.functional",
    "torchvision.transforms.v2.functional",
)
X = torch.arange(12.0).reshape(4, 3)
SCENARIOS: dict[str, Callable[[], Any]] = {
    "questions": lambda: capture(Model(of_questions), (X,)),
    "function": lambda: capture(Model(lambda _, x: Doubled.apply(x)), (X,)),
    "custom": lambda: capture(Model(lambda _, x: negated(x)), (X,)),
    "constants": lambda: capture(Model(lambda _, x: x + torch.tensor([1, 2, 3])), (X,)),
    "branches": lambda: capture(Model(of_branches), (X,)),
    "traced branches": lambda: capture(Model(of_branches), (X,), how="trace"),
    "scanned": lambda: capture(lambda x: associative_scan(torch.add, x, 0, combine_mode="generic"), (X,)),
    "compiled": lambda: capture(compiled(), (X,), how="trace"),
    "region": lambda: capture(lambda x: torch.compiler.nested_compile_region(lambda y: y.exp())(x), (X,), how="trace"),
    "attributes": lambda: capture(counting(), (X,)),
    "sizes": lambda: capture(Model(of_sizes), (X, X), dynamic_axes={"args_0": {0: "n"}, "args_1": {0: "m"}}),
    "slice": lambda: capture(
        Model(lambda _, x: x[: x.shape[0] - x.shape[0] // 2]), (X,), how="trace", dynamic_axes={"args_0": {0: "n"}}
    ),
    "buffer": lambda: capture(branching_on_a_buffer(), (X,)),
    "float": lambda: capture(Model(lambda _, x: x * float(x.shape[0] / 2)), (X,), dynamic_axes={"args_0": {0: "n"}}),
    "fixed": lambda: capture(Model(lambda _, x: x.view(4, 3)), (X,), dynamic_axes={"args_0": {0: "n"}}),
    "no rows": lambda: capture(Model(lambda _, x: x * 2), (X[:0],), dynamic_axes={"args_0": {0: "n"}}),
    "different": lambda: capture(Model(lambda _, x: torch.unique_consecutive(x, dim=-1)), (X,)),
    "broadcast": lambda: capture(lambda x: x[x > 0.5] + x[x > 0], (X,), how="trace"),
    "subclass": lambda: capture(lambda x: x.as_subclass(type("Angle", (torch.Tensor,), {})) * 2, (X,)),
    "branch on found": lambda: capture(lambda x: x[x > 0.5] if x.sum() > 9 else x[x > 0], (X,), how="trace"),
    "data": lambda: capture(lambda x: nn.functional.smooth_l1_loss(x[x > 0.5], X[X > 0.5]), (X,), how="trace"),
    "copied": lambda: capture(Model(lambda _, x: x.clone().copy_(x)), (X,), dynamic_axes={"args_0": {0: "n"}}),
    "refused": lambda: capture(Model(lambda _, x: x if x.sum() > 0 else -x), (X,)),
    "convolution": lambda: capture(nn.Conv2d(2, 2, 3), (torch.rand(2, 2, 4, 4),), dynamic_axes={"input": {0: "n"}}),
    "recurrent": lambda: capture(
        Model(of_recurrent_and_vmap, lstm=nn.LSTM(3, 3)), (torch.rand(4, 2, 3),), dynamic_axes={"args_0": {0: "n"}}
    ),
    "derivatives": lambda: capture(Model(of_derivatives), (X,)),
    "batched gradients": lambda: capture(Model(of_batches), (X,)),
    "forward mode": lambda: capture(Model(of_forward_mode), (X,)),
    "packed": lambda: capture(recurrent(), (torch.rand(2, 4, 3), torch.tensor([4, 2])), how="trace"),
    "attention": lambda: capture(encoder(), (torch.rand(2, 3, 4),)),
    "flexible": lambda: capture(Model(lambda _, q: flex_attention(q, q, q)), (torch.rand(1, 2, 4, 8),)),
    "converted": lambda: capture(Model(lambda model, x: model.layer.to(x)(x), layer=nn.Linear(3, 3)), (X,)),
    "quantized": lambda: capture(Model(of_quantized_tensors), (torch.rand(2, 2),)),
    "layers": lambda: capture(quantized_layers(), (torch.rand(2, 3, 3),)),
    "scripted": lambda: capture(scripted(), (X,), how="trace"),
    "scaled": lambda: capture(nn.Upsample(scale_factor=2.0), (torch.rand(1, 1, 4, 4),)),
    "distribution": lambda: capture(Model(lambda _, x: torch.distributions.Normal(x, x.exp()).log_prob(x)), (X,)),
    "weights": built_without_memory,
    "torchvision": lambda: capture(Model(of_torchvision), (torch.rand(3, 4, 6),), how="trace"),
    "causal": lambda: capture(Model(of_causal_attention), (torch.rand(1, 2, 2),)),
    "sparse": lambda: capture(Model(of_sparse_tensors), (torch.rand(2, 2),)),
}
