"""Draws statements of programs for the existing variables. Running a statement shows whether PyTorch accepts it."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import torch

from hunt.tensors import FLOATS

# Classes and functions that a program may use, by name.
DEFINITIONS = {
    "Scaled": """class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        assert x.dtype == torch.float32
        return x * factor

    @staticmethod
    def symbolic(g, x, factor):
        return g.op("Mul", x, g.op("Constant", value_t=torch.tensor(factor)))
""",
    "Parts": """class Parts(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        assert x.dtype == torch.float32
        return x.relu(), -x

    @staticmethod
    def symbolic(g, x):
        return g.op("Relu", x), g.op("Neg", x)
""",
    "Summed": """class Summed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        assert x.dtype == y.dtype == torch.float32
        return x + y

    @staticmethod
    def symbolic(g, x, y):
        return g.op("Add", x, y)
""",
}
DTYPES = ("torch.float32", "torch.float64", "torch.float16", "torch.int64", "torch.int32", "torch.uint8", "torch.bool")
NUMBERS = ("0.5", "2", "-1", "3", "1.5", "-0.25", "0", "1", "True", "0.1", "10", "-2")


class Scope:
    """The variables for which a statement is drawn: tensors and sizes by name."""

    def __init__(self, rng: random.Random, space: dict[str, Any], is_dynamic: bool = False) -> None:
        self.rng = rng
        self.space = space
        self.is_dynamic = is_dynamic
        self.count = 0
        self.init: list[str] = []  # lines that the drawn statement needs in __init__

    def tensors(self) -> list[str]:
        return [name for name, value in self.space.items() if isinstance(value, torch.Tensor)]

    def any(self) -> str:
        """A tensor, preferably a recent one."""
        names = self.tensors()
        return names[-1 - min(int(self.rng.expovariate(0.5)), len(names) - 1)]

    def floating(self) -> str:
        names = [name for name in self.tensors() if self.space[name].dtype in FLOATS]
        return self.rng.choice(names) if names else self.any()

    def with_dims(self, least: int, most: int = 9) -> str:
        names = [name for name in self.tensors() if least <= self.space[name].dim() <= most]
        return self.rng.choice(names[-6:]) if names else self.any()

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self.space[name].shape)

    def new(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def axis(self, name: str) -> int:
        dims = self.space[name].dim()
        return self.rng.randint(-dims, dims - 1) if dims else 0

    def size(self) -> str:
        """An expression for a size."""
        numbers = [name for name, value in self.space.items() if type(value) is int]
        if numbers and self.rng.random() < 0.5:
            return self.rng.choice(numbers)
        name = self.with_dims(1)
        return f"{name}.size({self.axis(name)})" if self.rng.random() < 0.7 else f"{name}.shape[{self.axis(name)}]"

    def number(self) -> str:
        return self.rng.choice(NUMBERS)

    def layer(self, made: str) -> str:
        """Adds a module to ``__init__``, and returns its name."""
        self.count += 1
        self.init.append(f"self.m{self.count} = {made}")
        return f"self.m{self.count}"

    def buffer(self, made: str) -> str:
        self.count += 1
        self.init.append(f'self.register_buffer("b{self.count}", {made})')
        return f"self.b{self.count}"

    def attribute(self, made: str) -> str:
        self.count += 1
        self.init.append(f"self.a{self.count} = {made}")
        return f"self.a{self.count}"

    def other_like(self, name: str) -> str:
        """A second operand for a tensor: a number, or a tensor that may broadcast."""
        choice = self.rng.random()
        if choice < 0.4:
            return self.number()
        if choice < 0.5:
            return self.size()
        shape = self.shape(name)
        names = [n for n in self.tensors() if _broadcasts(self.shape(n), shape)]
        return self.rng.choice(names) if names else self.number()

    def index(self, name: str) -> str:
        rng, items = self.rng, []
        for size in self.shape(name)[: rng.choice((1, 1, 2, 3, 9))]:
            items.append(
                rng.choices(
                    [
                        lambda size=size: ":",
                        lambda size=size: str(rng.randint(-size, size - 1)) if size else ":",
                        lambda size=size: f"{rng.randint(0, size)}:",
                        lambda size=size: f":{rng.randint(-size, size)}",
                        lambda size=size: f"{rng.randint(0, 1)}::{rng.randint(1, 3)}",
                        lambda size=size: f"{rng.randint(-size, 0)}:{rng.randint(0, size)}:{rng.randint(1, 2)}",
                        lambda size=size: f": {self.size()} // 2",
                        lambda size=size: f"-{self.size()} :",
                        lambda size=size: f"{self.size()} - 1 :",
                        lambda size=size: "None",
                        lambda size=size: "...",
                    ],
                    [4, 3, 4, 4, 3, 2, 2, 1, 1, 1, 1],
                )[0]()
            )
        while items.count("...") > 1:
            items.remove("...")
        return ", ".join(items) or "..."


def _broadcasts(small: tuple[int, ...], large: tuple[int, ...]) -> bool:
    pairs = zip(reversed(small), reversed(large), strict=False)
    return len(small) <= len(large) and all(a in (1, b) for a, b in pairs)


Statement = Callable[[Scope], str]


def view(s: Scope) -> str:
    rng, new = s.rng, s.new()
    x = s.with_dims(rng.choice((1, 1, 2, 3)))
    shape, a, b = s.shape(x), s.axis(x), s.axis(x)
    choices: list[Callable[[], str]] = [
        lambda: f"{x}[{s.index(x)}]",
        lambda: f"{x}[{s.index(x)}]",
        lambda: f"{x}[{s.index(x)}]",
        lambda: f"{x}.transpose({a}, {b})",
        lambda: f"{x}.permute({', '.join(map(str, rng.sample(range(len(shape)), len(shape))))})",
        lambda: f"{x}.movedim({a}, {b})",
        lambda: f"{x}.reshape(-1)",
        lambda: f"{x}.reshape({x}.size(0), -1)",
        lambda: f"{x}.reshape(-1, {rng.choice((1, 2, 3, shape[-1] if shape else 1))})",
        lambda: f"{x}.view({', '.join([*map(str, shape[:-1]), '-1', '1'])})",
        lambda: f"{x}.flatten({rng.choice((0, 0, 1))}, {rng.choice((-1, -1, 1))})",
        lambda: f"{x}.unflatten({a}, ({rng.choice((1, 2, -1))}, {rng.choice((1, 2))}))",
        lambda: f"{x}.unsqueeze({rng.randint(-len(shape) - 1, len(shape))})",
        lambda: f"{x}.squeeze({rng.choice(('', str(a)))})",
        lambda: f"{x}.expand({rng.choice((2, 3))}, *{x}.shape)",
        lambda: f"{x}.expand({', '.join(['-1'] * len(shape))})",
        lambda: f"{x}.expand_as({s.any()})",
        lambda: f"{x}.select({a}, {rng.randint(-1, 1)})",
        lambda: f"{x}.narrow({a}, {rng.randint(0, 1)}, {rng.choice((str(rng.randint(0, 2)), s.size()))})",
        lambda: f"{x}.unfold({a}, {rng.randint(1, 3)}, {rng.randint(1, 2)})",
        lambda: f"{x}.diagonal({rng.randint(-1, 1)}, {a}, {b})",
        lambda: f"torch.as_strided({x}, ({rng.randint(1, 2)}, {rng.randint(1, 2)}), ({rng.choice((2, 3))}, 1))",
        lambda: f"{x}.split({rng.randint(1, 3)}, {a})[{rng.choice((0, -1))}]",
        lambda: f"{x}.chunk({rng.randint(1, 3)}, {a})[{rng.choice((0, -1))}]",
        lambda: f"{x}.tensor_split({rng.randint(1, 3)}, {a})[{rng.choice((0, -1))}]",
        lambda: f"{x}.unbind({a})[{rng.choice((0, -1))}]",
        lambda: f"{x}.{rng.choice(('mT', 'detach()', 'contiguous()', 'T', 'view_as(' + x + ')', 'real'))}",
        lambda: f"{x}.swapaxes({a}, {b})",
    ]
    return f"{new} = {rng.choice(choices)()}"


def write(s: Scope) -> str:
    rng = s.rng
    x = s.any() if rng.random() < 0.3 else s.with_dims(1)
    shape, a = s.shape(x), s.axis(x)
    first = rng.sample(range(max(shape[a], 1)), min(2, max(shape[a], 1))) if shape else [0]
    indices = f"torch.tensor({first})"
    choices: list[Callable[[], str]] = [
        lambda: f"{x}[{s.index(x)}] = {s.other_like(x)}",
        lambda: f"{x}[{s.index(x)}] = {s.any()}",
        lambda: f"{x}[{s.index(x)}] {rng.choice(('+=', '*=', '-='))} {s.other_like(x)}",
        lambda: f"{x}[{x} > {s.number()}] = {s.number()}",
        lambda: f"{x}.add_({s.other_like(x)})",
        lambda: f"{x}.mul_({s.other_like(x)})",
        lambda: f"{x}.copy_({s.other_like(x)})" if rng.random() < 0.2 else f"{x}.copy_({s.any()})",
        lambda: (
            f"{x}.{rng.choice(('zero_', 'relu_', 'neg_', 'abs_', 'sigmoid_', 'tanh_', 'squeeze_', 't_', 'floor_'))}()"
        ),
        lambda: f"{x}.fill_({s.number()})",
        lambda: f"{x}.clamp_(-1, {s.number()})",
        lambda: f"{x}.masked_fill_({x} {rng.choice(('>', '==', '<='))} {s.number()}, {s.number()})",
        lambda: f"{x} {rng.choice(('+=', '*=', '-=', '//=', '%='))} {s.other_like(x)}",
        lambda: f"{x}.index_fill_({a}, {indices}, {s.number()})",
        lambda: f"{x}.index_add_({a}, {indices}, {x}.index_select({a}, {indices}) * 2)",
        lambda: f"{x}.index_copy_({a}, {indices}, {x}.index_select({a}, {indices}).flip({a}))",
        lambda: f"{x}.index_put_(({indices},), {s.any()}, accumulate={rng.choice(('True', 'False'))})",
        lambda: f"{x}.transpose_({a}, {s.axis(x)})",
        lambda: f"{x}.unsqueeze_({a})",
        lambda: f"{x}.lerp_({s.any()}, 0.5)",
        lambda: f"{x}.addcmul_({s.any()}, {s.any()})",
        lambda: f"{x}.select({a}, {rng.randint(-1, 0)}).{rng.choice(('zero_()', 'add_(1)', 'mul_(2)', 'fill_(3)'))}",
        lambda: f"{x}.view(-1)[::2] = {s.number()}",
        lambda: f"torch.{rng.choice(('add', 'mul', 'sub', 'maximum'))}({x}, {s.any()}, out={x})",
        lambda: f"{x}.scatter_({a}, torch.zeros_like({x}, dtype=torch.int64).narrow({a}, 0, 1), {s.number()})",
    ]
    return rng.choice(choices)()


# fmt: off
_UNARY = (
    "relu", "sigmoid", "tanh", "neg", "abs", "floor", "ceil", "sign", "exp", "sin", "cos", "erf",
    "sqrt", "square", "round", "trunc", "log1p", "isnan", "logical_not", "clone", "zeros_like",
    "ones_like", "silu", "softplus", "bitwise_not", "rsqrt", "reciprocal",
)
# fmt: on


def elementwise(s: Scope) -> str:
    rng, new, x = s.rng, s.new(), s.any()
    choices: list[Callable[[], str]] = [
        lambda: f"{_called(rng.choice(_UNARY), x)}",
        lambda: f"{x} {rng.choice(('+', '-', '*', '/', '//', '%'))} {s.other_like(x)}",
        lambda: f"{s.number()} {rng.choice(('+', '-', '*', '/', '//', '%'))} {x}",
        lambda: f"{x} {rng.choice(('+', '-', '*', '/'))} {s.other_like(x)}",
        lambda: f"{x} ** {rng.choice(('2', '3', '0.5', '-1'))}",
        lambda: f"{x} {rng.choice(('>', '<', '>=', '==', '!='))} {s.other_like(x)}",
        lambda: f"torch.where({x} > {s.number()}, {x}, {s.other_like(x)})",
        lambda: f"torch.where({s.any()} != 0, {s.other_like(x)}, {x})",
        lambda: f"torch.{rng.choice(('maximum', 'minimum', 'fmod', 'atan2', 'add', 'sub', 'mul'))}({x}, {s.any()})",
        lambda: f"{x}.clamp({s.number()}, {s.number()})",
        lambda: f"{x}.masked_fill({x} < {s.number()}, {s.number()})",
        lambda: f"{x}.{rng.choice(('float', 'long', 'double', 'half', 'bool', 'int'))}()",
        lambda: f"{x}.to({rng.choice(DTYPES)})",
        lambda: f"{x}.type_as({s.any()})",
        lambda: (
            f"F.{rng.choice(('gelu', 'elu', 'leaky_relu', 'hardtanh', 'hardswish', 'selu', 'mish', 'logsigmoid'))}({x})"
        ),
        lambda: f"torch.addcmul({x}, {s.any()}, {s.any()}, value={s.number()})",
        lambda: f"torch.lerp({x}, {s.any()}, 0.25)",
        lambda: f"{x} {rng.choice('&|^')} {s.any()}",
    ]
    return f"{new} = {rng.choice(choices)()}"


def _called(name: str, x: str) -> str:
    return f"F.{name}({x})" if name in ("silu", "softplus") else f"torch.{name}({x})"


def reduction(s: Scope) -> str:
    rng, new = s.rng, s.new()
    x = s.with_dims(1)
    a = s.axis(x)
    keep = rng.choice(("", ", keepdim=True"))
    name = rng.choice(
        ("sum", "mean", "amax", "amin", "prod", "any", "all", "argmax", "argmin", "logsumexp", "norm", "std", "var")
    )
    choices: list[Callable[[], str]] = [
        lambda: f"{x}.{name}(dim={a}{keep})",
        lambda: f"{x}.{name}(dim={a}{keep})",
        lambda: f"{x}.{rng.choice(('sum', 'mean', 'max', 'min', 'any', 'all', 'argmax'))}()",
        lambda: f"{x}.sum(({a}, {s.axis(x)}){keep})",
        lambda: f"{x}.{rng.choice(('max', 'min'))}({a}{keep}).values",
        lambda: f"{x}.softmax({a})",
        lambda: f"{x}.log_softmax({a})",
        lambda: f"{x}.cumsum({a})",
        lambda: f"{x}.sort({a}).values",
        lambda: f"{x}.topk(1, {a}).values",
        lambda: f"{x}.flip({a})",
        lambda: f"{x}.roll({rng.randint(-2, 2)}, {a})",
        lambda: f"F.normalize({x}, dim={a})",
        lambda: f"{x}.count_nonzero({a})",
        lambda: f"{x}.cummax({a}).values",
        lambda: f"{x}.clone(memory_format=torch.contiguous_format).median({a}{keep}).values",
    ]
    return f"{new} = {rng.choice(choices)()}"


def structural(s: Scope) -> str:
    rng, new = s.rng, s.new()
    x = s.with_dims(1)
    a = s.axis(x)
    shape = s.shape(x)
    choices: list[Callable[[], str]] = [
        lambda: f"torch.cat([{x}, {x if rng.random() < 0.5 else s.any()}], {a})",
        lambda: f"torch.stack([{x}, {x if rng.random() < 0.5 else s.any()}], {a})",
        lambda: f"torch.zeros({s.size()}, {rng.randint(1, 3)})",
        lambda: f"torch.arange({s.size()})",
        lambda: f"torch.full(({s.size()},), {s.number()})",
        lambda: f"torch.ones({x}.shape, dtype={rng.choice(DTYPES)})",
        lambda: f"torch.eye({s.size()})",
        lambda: f"torch.linspace(0, 1, {s.size()})",
        lambda: f"torch.tensor([1.0, {s.number()}, {s.size()}])",
        lambda: f"{x}.new_zeros({s.size()}, 2)",
        lambda: f"{x}.index_select({a}, torch.tensor([0, {rng.randint(0, 1)}, 0]))",
        lambda: f"{x}[torch.tensor([0, -1]){rng.choice(('', ', None', ', ...', ', 0'))}]",
        lambda: f"{x}[{x} > {s.number()}].sum()",
        lambda: f"{x}.gather({a}, torch.zeros_like({x}, dtype=torch.int64))",
        lambda: f"torch.{rng.choice(('tril', 'triu'))}({x}, {rng.randint(-1, 1)})",
        lambda: f"F.pad({x}, ({rng.randint(-1, 2)}, {rng.randint(0, 2)}), value={rng.choice(('0.0', '1.5', '-1.0'))})",
        lambda: f"{x}.repeat({', '.join(str(rng.randint(1, 2)) for _ in shape)})",
        lambda: f"{x}.repeat_interleave(2, {a})",
        lambda: f"{x} @ {x}.mT" if len(shape) > 1 else f"{x} @ {x}",
        lambda: f"torch.einsum('...i,...i->...', {x}, {x})",
        lambda: f"torch.outer({x}.reshape(-1), torch.arange(2).to({x}.dtype))",
        lambda: f"F.one_hot({x}.abs().long() % 4, 4)",
        lambda: f"{x}.masked_select({x} > 0).sum()",
        lambda: f"torch.meshgrid({s.with_dims(1, 1)}, {s.with_dims(1, 1)}, indexing='ij')[{rng.choice((0, 1))}]",
        lambda: f"torch.broadcast_to({x}, (2, *{x}.shape))",
        lambda: f"torch.nan_to_num({x})",
        lambda: f"torch.bucketize({x}, torch.tensor([-1.0, 0.0, 1.0]))",
        lambda: f"{x}.clone()",
    ]
    return f"{new} = {rng.choice(choices)()}"


def arithmetic_of_sizes(s: Scope) -> str:
    s.count += 1
    size, other = s.size(), s.size()
    made = s.rng.choice(
        (
            f"{size}",
            f"{size} // 2",
            f"{size} + 1",
            f"{size} * 2 - 1",
            f"({size} + 1) // 2",
            f"min({size}, {other})",
            f"max({size} - 1, 1)",
            f"{size} * {other}",
            f"{size} % 3",
            f"abs({size} - {other})",
        )
    )
    return f"n{s.count} = {made}"


def layer(s: Scope) -> str:
    rng, new = s.rng, s.new()
    least = rng.choice((1, 2, 3, 4))
    names = [name for name in s.tensors() if s.space[name].dim() >= least and s.space[name].dtype == torch.float32]
    if not names:
        return f"{new} = {s.any()}.float()"
    x = rng.choice(names[-5:])
    shape = s.shape(x)
    last, second = shape[-1], shape[1] if len(shape) > 1 else 1
    out = rng.randint(1, 4)
    kernel = rng.randint(1, min(3, last) if last else 1)
    finite = f"{x}.nan_to_num(0, 1, -1)"  # README.md names these differences of ONNX Runtime
    factor, size = rng.choice((2, 1.5, 0.5, 1.2, 2.1)), rng.randint(1, 6)
    choices: list[Callable[[], str]] = [
        lambda: f"{s.layer(f'nn.Linear({last}, {out})')}({x})",
        lambda: f"{s.layer(f'nn.Linear({last}, {out}, bias=False)')}({x})",
        lambda: f"{s.layer(f'nn.LayerNorm({last})')}({x})",
        lambda: f"F.layer_norm({x}, ({x}.size(-1),))",
        lambda: f"{s.layer(f'nn.RMSNorm({last})')}({x})",
    ]
    if len(shape) in (2, 3):
        choices += [
            lambda: f"{s.layer(f'nn.BatchNorm1d({second})')}({x})",
            lambda: f"{s.layer(f'nn.LSTM({last}, {out})')}({finite})[0]",
            lambda: f"{s.layer(f'nn.GRU({last}, {out}, batch_first=True)')}({finite})[{rng.choice((0, 1))}]",
            lambda: f"{s.layer(f'nn.MultiheadAttention({last}, 1, batch_first=True)')}({x}, {x}, {x})[0]",
        ]
    if len(shape) == 3:
        choices += [
            lambda: f"{s.layer(f'nn.Conv1d({second}, {out}, {kernel}, padding={rng.randint(0, 1)})')}({x})",
            lambda: f"{s.layer(f'nn.ConvTranspose1d({second}, {out}, {kernel}, stride=2)')}({x})",
            lambda: f"F.{rng.choice((f'max_pool1d({x}.nan_to_num()', f'avg_pool1d({x}'))}, {kernel})",
            lambda: f"F.scaled_dot_product_attention({x}.nan_to_num(), {x}, {x})",
            lambda: f"F.interpolate({finite}, scale_factor={factor}, mode={rng.choice(('nearest', 'linear'))!r})",
            lambda: f"torch.bmm({x}, {x}.transpose(1, 2))",
        ]
    if len(shape) == 4:
        choices += [
            lambda: f"{s.layer(f'nn.Conv2d({second}, {out}, {kernel}, padding=1, stride={rng.randint(1, 2)})')}({x})",
            lambda: f"{s.layer(f'nn.BatchNorm2d({second})')}({x})",
            lambda: f"{s.layer(f'nn.GroupNorm(1, {second})')}({x})",
            lambda: (
                f"F.{rng.choice((f'max_pool2d({x}.nan_to_num()', f'avg_pool2d({x}'))}, {kernel}, {rng.randint(1, 2)})"
            ),
            lambda: f"F.adaptive_avg_pool2d({x}, {rng.randint(1, 3)})",
            lambda: f"F.interpolate({finite}, size=({size}, {out}), mode={rng.choice(('nearest', 'bilinear'))!r})",
            lambda: f"F.interpolate({finite}, scale_factor={factor}, mode={rng.choice(('nearest', 'bicubic'))!r})",
            lambda: f"F.pixel_unshuffle({x}, 1)",
            lambda: f"F.pad({x}, (1, 1, 0, 1), mode={rng.choice(('reflect', 'replicate', 'circular'))!r})",
        ]
    return f"{new} = {rng.choice(choices)()}"


def state(s: Scope) -> str:
    """Reads and writes buffers and attributes of the module."""
    rng, new = s.rng, s.new()
    x = s.any()
    kept = [f"self.{name}" for name, _ in s.space["self"].named_buffers(recurse=False)]
    buffer = (
        rng.choice(kept)
        if kept and rng.random() < 0.5
        else s.buffer(rng.choice(("torch.zeros(2)", "torch.tensor(1)", "torch.ones(3, 2)", "torch.tensor(0.5)")))
    )
    count = s.attribute(rng.choice(("0", "1.5", "3")))
    choices: list[Callable[[], str]] = [
        lambda: f"{new} = {buffer} + {x}.sum()",
        lambda: f"{buffer} = {buffer} * 0.5 + {x}.sum()\n{new} = {buffer} * 2",
        lambda: f"{buffer}.add_(1)\n{new} = {buffer} * 2",
        lambda: f"{buffer} += 1\n{new} = {x} + {buffer}.sum()",
        lambda: f"{buffer}[..., :1] = {x}.mean()\n{new} = {buffer}.clone()",
        lambda: f"{buffer}.copy_({x}.sum())\n{new} = {buffer} - 1",
        lambda: f"{count} += 1\n{new} = {x} * {count}",
        lambda: f"{count} = {x} * 2\n{new} = {count} + 1",
        lambda: f"{count} = [{x}, {x}.sum()]\n{new} = {count}[0] + {count}[1]",
        lambda: f"{s.attribute('{}')}['last'] = {x}\n{new} = {x} * 1",
    ]
    return rng.choice(choices)()


def function(s: Scope) -> str:
    """Autograd functions with symbolic, and operators written once."""
    rng, new, x = s.rng, s.new(), s.floating()
    choices: list[Callable[[], str]] = [
        lambda: f"{new} = Scaled.apply({x}, {rng.choice(('0.5', '2.0', '-1.5'))})",
        lambda: f"{new}, {s.new()} = Parts.apply({x})",
        lambda: f"{new} = Summed.apply({x}, {s.floating()})",
        lambda: f"{new} = torch.ops.custom.my_add({x}, {s.floating()})",
        lambda: f"{new} = torch.ops.opbridge.erfcx({x})",
        lambda: f"{new} = torch.ops.opbridge.i0({x})",
    ]
    return rng.choice(choices)()


def region(s: Scope) -> str:
    """Control flow that depends on data."""
    rng, new, x = s.rng, s.new(), s.any()
    made = rng.choice(("a * 2", "a + 1", "a - b", "a.clone()", "torch.sin(a)", "-a", "a.flip(0)", "a * a.shape[0]"))
    other = rng.choice(("a * 3", "a - 1", "a + b", "a.abs()", "a * 0.5"))
    y = s.other_like(x)
    times, start = rng.randint(0, 3), f"(torch.tensor(0), {x})"
    y = y if y in s.space and isinstance(s.space[y], torch.Tensor) else x
    choices: list[Callable[[], str]] = [
        lambda: f"{new} = torch.cond({x}.sum() > {s.number()}, lambda a, b: {made}, lambda a, b: {other}, ({x}, {y}))",
        lambda: f"_, {new} = while_loop(lambda i, a: i < {times}, lambda i, a: (i + 1, a * 0.5 + i), {start})",
        lambda: f"_, {new} = scan(lambda c, a: (c + a, c * 2), {x}[0].clone(), {x})",
    ]
    return rng.choice(choices)()


STATEMENTS: tuple[tuple[Statement, int], ...] = (
    (view, 30),
    (write, 26),
    (elementwise, 22),
    (reduction, 10),
    (structural, 14),
    (arithmetic_of_sizes, 6),
    (layer, 8),
    (state, 5),
    (function, 4),
    (region, 1),
)


def draw_statement(s: Scope) -> str:
    return s.rng.choices([made for made, _ in STATEMENTS], [weight for _, weight in STATEMENTS])[0](s)
