"""Draws calls of one operator from its schema and from the calls of torch.testing's database."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import keyword
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

import opbridge
from hunt import samples
from hunt.arguments import Drawer
from hunt.case import Case, Settings
from hunt.defined import may_overlap, undefined, value_kinds
from hunt.runs import other_run, other_values
from hunt.settings import draw_settings, simpler_settings
from hunt.strategies import STRATEGIES, strategy
from hunt.tensors import TensorSpec, draw_dtype, draw_tensor, resized, simpler_specs
from hunt.unchecked import arguments_of_unchecked, must_fit
from opbridge.symbolics.registry import registry

TRIES = 40

# Expressions to compare for results that are determined only up to signs, phases or order: `r` is the result.
INVARIANTS = {
    "linalg_svd": "r[1], (r[0][..., : r[1].shape[-1]] * r[1].unsqueeze(-2)) @ r[2][..., : r[1].shape[-1], :]",
    "svd": "r[1], (r[0][..., : r[1].shape[-1]] * r[1].unsqueeze(-2)) @ r[2][..., : r[1].shape[-1]].mH",
    "linalg_eigh": "r[0], (r[1] * r[0].unsqueeze(-2)) @ r[1].mH",
}
# The order of eigenvalues is not determined.
INVARIANTS["linalg_eigvals"] = INVARIANTS["_linalg_eigvals"] = "r.sum(-1), (r * r).sum(-1)"
INVARIANTS["linalg_eig"] = INVARIANTS["opbridge::eig"] = "r[0].sum(-1), (r[0] * r[0]).sum(-1)"
INVARIANTS["_linalg_svd"] = INVARIANTS["opbridge::svd"] = INVARIANTS["linalg_svd"]
INVARIANTS["opbridge::eigh"] = INVARIANTS["_linalg_eigh"] = INVARIANTS["linalg_eigh"]


@dataclasses.dataclass(frozen=True)
class Overload:
    name: str  # namespace::name.overload
    op: Any

    @property
    def base(self) -> str:
        return self.name.partition("::")[2].partition(".")[0]

    @property
    def is_aten(self) -> bool:
        return self.name.startswith("aten::")


@functools.cache
def overloads() -> list[Overload]:
    """The installed operators that opbridge maps."""
    shipped = [operator.schema for operator in opbridge.load_operators() if operator.backward_of is None]
    lines = {schema.partition("(")[0] for _, _, _, _, schema in registry().entries() if schema}
    names = sorted(lines | {schema.partition("(")[0] for schema in shipped})
    found = [Overload(name, op) for name in names if (op := _resolve(name)) is not None]
    return [overload for overload in found if overload.name not in _NOT_DRAWN]


# If their arguments do not fit each other, PyTorch reads out of bounds and the process may crash.
_CRASH_IN_EAGER = {"_fft_c2r", "_fft_r2c", "_fft_c2c", "lstm", "gru", "rnn_tanh", "rnn_relu"}
# They read memory as it is laid out, or return internal results by the layout, as the bag of each index.
_BY_LAYOUT = ("as_strided", "embedding_bag", "_embedding_bag")
# Their results are uninitialized memory.
_NOT_DRAWN = {
    "aten::empty.memory_format",
    "aten::empty_like",
    "aten::empty_permuted",
    "aten::empty_strided",
    "aten::new_empty",
}


def _resolve(name: str) -> Any:
    namespace, _, rest = name.partition("::")
    short, _, overload = rest.partition(".")
    try:
        return getattr(getattr(getattr(torch.ops, namespace), short), overload or "default")
    except AttributeError:
        return None


@dataclasses.dataclass(frozen=True)
class Call:
    """``roles`` says for each tensor, in order, whether it is an "input", a "weight" or a "parameter"."""

    seed: str
    op: Any
    name: str
    arguments: dict[str, Any]
    roles: tuple[str, ...]
    resized: tuple[tuple[TensorSpec, ...], ...]  # the inputs of other runs
    settings: Settings

    @property
    def specs(self) -> list[TensorSpec]:
        return [leaf for leaf in pytree.tree_leaves(list(self.arguments.values())) if isinstance(leaf, TensorSpec)]

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        return tuple(spec for spec, role in zip(self.specs, self.roles, strict=True) if role == "input")

    def case(self) -> Case:
        init: list[str] = []
        count = 0
        roles = iter(self.roles)

        def text(value: Any) -> str:
            nonlocal count
            if not isinstance(value, TensorSpec):
                return _text(value, text)
            role = next(roles)
            if role == "input":
                count += 1
                return f"x{count - 1}"
            name = f"w{len(init)}"
            if role == "parameter":
                init.append(f"self.{name} = nn.Parameter({value.text()}, requires_grad=False)")
            else:
                init.append(f'self.register_buffer("{name}", {value.text()})')
            return f"self.{name}"

        positional, named = [], []
        skipped = False
        for argument in self.op._schema.arguments:
            if argument.name not in self.arguments:
                skipped = True
                continue
            written = text(self.arguments[argument.name])
            (named if skipped or argument.kwarg_only else positional).append(
                f"{argument.name}={written}" if skipped or argument.kwarg_only else written
            )
        call = f"{_path(self.op)}({', '.join([*positional, *named])})"
        base = self.op._schema.name.removeprefix("aten::")
        invariant = INVARIANTS.get(base)
        if base == "topk" and not self.arguments.get("sorted", True):  # the order is not determined
            dim = self.arguments.get("dim", -1)
            invariant = f"r[0].sort({dim}).values, r[1].sort({dim}).values"
        body = [f"return {call}"] if invariant is None else [f"r = {call}", f"return {invariant}"]
        return Case(self.seed, self.name, tuple(init), tuple(body), (self.inputs, *self.resized), self.settings)

    def simpler(self) -> Iterator[Call]:
        """Simpler calls, the simplest first."""
        for simpler in (*self._simpler_settings(), *self._simpler_arguments()):
            if not simpler.undefined():
                yield simpler

    def undefined(self) -> str:
        """Why PyTorch's result is undetermined for one of the sets of inputs; empty if it is determined."""
        name = self.name.partition("::")[2]
        by_run = [self.arguments, *(self.with_inputs(run)["arguments"] for run in self.resized)]
        return next(filter(None, (undefined(self.op, name, arguments) for arguments in by_run)), "")

    def _simpler_settings(self) -> Iterator[Call]:
        for settings, runs in simpler_settings(self.settings, (self.inputs, *self.resized)):
            changed = self if runs[0] == self.inputs else dataclasses.replace(self, **self.with_inputs(runs[0]))
            yield dataclasses.replace(changed, settings=settings, resized=runs[1:])
        if set(self.roles) != {"input"} and not self.resized:
            settings = dataclasses.replace(self.settings, dynamic=None)
            yield dataclasses.replace(self, roles=("input",) * len(self.roles), settings=settings)

    def with_inputs(self, inputs: Sequence[TensorSpec]) -> dict[str, Any]:
        left, roles = iter(inputs), iter(self.roles)
        changed = pytree.tree_map_only(
            TensorSpec, lambda s: next(left) if next(roles) == "input" else s, self.arguments
        )
        return {"arguments": changed}

    def _simpler_arguments(self) -> Iterator[Call]:
        order = self.op._schema.arguments
        for argument in order:
            if argument.name not in self.arguments or not argument.has_default_value():
                continue
            value = self.arguments[argument.name]
            if not any(isinstance(leaf, TensorSpec) for leaf in pytree.tree_leaves(value)):
                left = {name: v for name, v in self.arguments.items() if name != argument.name}
                yield dataclasses.replace(self, arguments=left)
        if self.resized:
            return
        for index, spec in enumerate(self.specs):
            for simpler in simpler_specs(spec):
                if not must_fit(self.name) or (simpler.size, simpler.dtype) == (spec.size, spec.dtype):
                    yield self._with_spec(index, simpler)

    def _with_spec(self, index: int, spec: TensorSpec) -> Call:
        count = itertools.count()
        changed = pytree.tree_map_only(TensorSpec, lambda s: spec if next(count) == index else s, self.arguments)
        return dataclasses.replace(self, arguments=changed)


def _path(op: Any) -> str:
    """The overload as Python source."""
    packet, _, overload = str(op).rpartition(".")
    is_keyword = keyword.iskeyword(overload)  # as of random.from
    return f'getattr(torch.ops.{packet}, "{overload}")' if is_keyword else f"torch.ops.{op!s}"


def _text(value: Any, text: Callable[[Any], str]) -> str:
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(text, value))}]"
    if isinstance(value, torch.device):
        return f'torch.device("{value}")'
    return repr(value)  # valid for torch's types too


def draw_call(seed: int, overload: Overload) -> Call | None:
    """None if PyTorch rejected everything that was drawn."""
    rng = random.Random(f"call:{seed}")
    base = overload.base
    sampled = samples.sampled_dtypes(base) if overload.is_aten else []
    for attempt in range(TRIES):
        try:
            arguments = _proposed(rng, overload, sampled, attempt)
        except (ValueError, IndexError, RuntimeError, OverflowError):
            continue
        if arguments is None:
            continue
        op = overload.op
        if rng.random() < 0.06:
            op, arguments = _in_place(op, arguments)
        if undefined(op, overload.name.partition("::")[2], arguments):
            continue
        if accepts(op, arguments):
            return _with_roles(rng, seed, overload, op, arguments)
    return None


def _proposed(
    rng: random.Random, overload: Overload, sampled: list[torch.dtype], attempt: int
) -> dict[str, Any] | None:
    if fitting := arguments_of_unchecked(rng, overload.name):
        names = {argument.name for argument in overload.op._schema.arguments}
        return {name: value for name, value in fitting.items() if name in names}
    if samples.is_derivative(overload.base) and overload.name not in STRATEGIES:
        return _mutated(rng, overload, sampled, gentle=True, loose=False, strided=False)
    fitting = strategy(rng, overload.name, rng.choice((torch.float32, torch.float32, draw_dtype(rng))))
    if overload.base in _CRASH_IN_EAGER:
        return fitting or _mutated(rng, overload, sampled, gentle=True, loose=False)
    if fitting is not None and (must_fit(overload.name) or rng.random() < 0.9):
        return _drawn(rng, overload, fitting)
    if sampled and rng.random() < (0.6 if attempt < 20 else 0.9):
        return _mutated(rng, overload, sampled, gentle=attempt > 25)
    return _drawn(rng, overload)


def _drawn(rng: random.Random, overload: Overload, fitting: dict[str, Any] | None = None) -> dict[str, Any]:
    drawer = Drawer(rng, overload.base)
    drawer.kinds, drawer.overlapping = value_kinds(overload.op), may_overlap(overload.op)
    arguments = {}
    for argument in overload.op._schema.arguments:
        if fitting and argument.name in fitting:
            arguments[argument.name] = fitting[argument.name]
            continue
        value = drawer.argument(argument)
        if argument.has_default_value() and rng.random() < 0.5 and value == argument.default_value:
            continue
        arguments[argument.name] = value
    return arguments


def _mutated(
    rng: random.Random,
    overload: Overload,
    dtypes: list[torch.dtype],
    gentle: bool,
    loose: bool = True,
    strided: bool = True,
) -> dict[str, Any] | None:
    """A call of the database with other sizes, types, values, strides and arguments. ``gentle`` changes fewer of them.
    ``loose=False`` changes only the values and, if ``strided``, the strides."""
    if not dtypes:
        return None
    dtype = rng.choices(dtypes, [4, *[1] * (len(dtypes) - 1)])[0]
    name = overload.name
    calls = samples.templates(name, overload.base, dtype)
    if not calls:
        return None
    template = rng.choice(calls)
    other = draw_dtype(rng) if rng.random() < 0.4 and not gentle else dtype
    kept_values = rng.random() < 0.35
    sizes = _size_map(rng, gentle) if loose else lambda size: size
    other = other if loose else dtype
    kinds, overlapping = value_kinds(overload.op), may_overlap(overload.op)

    def tensor(spec: TensorSpec) -> TensorSpec:
        size = tuple(map(sizes, spec.size))
        if (spec.dtype != dtype and not spec.dtype.is_floating_point) or (kept_values and size == spec.size):
            return resized(rng, spec, size) if strided else spec
        wanted = other if spec.dtype == dtype else spec.dtype
        return draw_tensor(rng, wanted, size, kinds, memory=strided, overlapping=overlapping)

    arguments = {name: pytree.tree_map_only(TensorSpec, tensor, value) for name, value in template.items()}
    drawer = Drawer(rng, overload.base)
    drawer.kinds, drawer.overlapping = kinds, overlapping
    first = next((leaf for leaf in pytree.tree_leaves(list(arguments.values())) if isinstance(leaf, TensorSpec)), None)
    if first is not None:
        drawer.dtype, drawer.size = first.dtype, first.size
    for argument in overload.op._schema.arguments if loose else ():
        if rng.random() < (0.03 if gentle else 0.12):
            value = drawer.argument(argument)
            if argument.name in arguments or argument.has_default_value():
                arguments[argument.name] = value
    return arguments


def _size_map(rng: random.Random, gentle: bool) -> Callable[[int], int]:
    """A map from sizes to other sizes; equal sizes stay equal."""
    if rng.random() < (0.8 if gentle else 0.45):
        return lambda size: size
    known: dict[int, int] = {}

    def other(size: int) -> int:
        if size not in known:
            keep = rng.random() < (0.5 if size <= 5 else 0.2)
            known[size] = size if keep else rng.choices(range(7), [2, 9, 10, 10, 8, 6, 3])[0]
        return known[size]

    return other


def _in_place(op: Any, arguments: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The in-index form of the operator, if it has one that takes the arguments."""
    namespace, _, short = op._schema.name.partition("::")
    packet = getattr(getattr(torch.ops, namespace), f"{short}_", None)
    form = getattr(packet, op._overloadname, None) if packet is not None else None
    first = next(iter(arguments.values()), None)
    if (
        form is None
        or not isinstance(first, TensorSpec)
        or not {a.name for a in form._schema.arguments} >= set(arguments)
    ):
        return op, arguments
    return form, arguments


def accepts(op: Any, arguments: dict[str, Any]) -> bool:
    made = pytree.tree_map_only(TensorSpec, TensorSpec.make, arguments)
    try:
        with torch.no_grad():
            op(**made)
    except Exception:
        return False
    return True


def _with_roles(rng: random.Random, seed: int, overload: Overload, op: Any, arguments: dict[str, Any]) -> Call:
    order = [argument.name for argument in op._schema.arguments]
    arguments = {name: arguments[name] for name in order if name in arguments}
    specs = [leaf for leaf in pytree.tree_leaves(list(arguments.values())) if isinstance(leaf, TensorSpec)]
    roles = rng.choices(("input", "weight", "parameter"), (75, 15, 10), k=len(specs))
    if specs and "input" not in roles:
        roles[0] = "input"
    roles = [
        "weight" if role == "parameter" and not (spec.dtype.is_floating_point or spec.dtype.is_complex) else role
        for spec, role in zip(specs, roles, strict=True)
    ]
    if op._schema.is_mutable and roles:
        roles[0] = "input"
    inputs = [spec for spec, role in zip(specs, roles, strict=True) if role == "input"]
    fits = must_fit(overload.name)
    settings = draw_settings(rng, inputs, export_share=0.15, dynamic_share=0 if fits else 0.2)
    if fits:
        others = []
    elif settings.dynamic:
        others = [other_run(rng, inputs, settings) for _ in range(3)]
    else:
        others = [other_values(rng, inputs)] if inputs and rng.random() < 0.3 else []
    if overload.base.startswith(_BY_LAYOUT):  # which is that of the example
        others = [tuple(spec.plain() for spec in run) for run in others] if all(s.is_plain for s in inputs) else []
    call = Call(f"call:{seed}", op, overload.name, arguments, tuple(roles), (), settings)
    defined = [run for run in others if not dataclasses.replace(call, resized=(run,)).undefined()]
    return dataclasses.replace(call, resized=tuple(defined))
