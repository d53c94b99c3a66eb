"""The operators that are measured, and their inputs: torch.testing's operator database."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import pathlib
import sys
import types
import unittest
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils import _pytree as pytree

DTYPES = {
    "float32": torch.float32,
    "float64": torch.float64,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "int64": torch.int64,
    "int32": torch.int32,
    "uint8": torch.uint8,
    "bool": torch.bool,
    "complex64": torch.complex64,
}
# A quick pass takes the first of these that the operator supports, and three of its first samples.
QUICK_DTYPES = ("float32", "int64", "bool", "complex64")
QUICK_SAMPLES = 24


@dataclasses.dataclass(frozen=True)
class Sample:
    """One call of an operator: its name, its tensors, and the other parts of the call.

    ``resized``, if not empty, are tensors for the same call at other sizes, which are to be dynamic.
    """

    op: str
    call: Callable[..., Any]
    tensors: list[torch.Tensor]
    constants: list[Any]  # the arguments that are not tensors, and the nesting of all arguments
    resized: list[torch.Tensor] = dataclasses.field(default_factory=list)


@functools.cache
def database() -> dict[str, Any]:
    """torch.testing's operators by full name: ``add``, ``div.floor_rounding``, …"""
    # torch imports the base class of its own tests from a package that is not needed here.
    if "expecttest" not in sys.modules:
        try:
            import expecttest  # noqa: F401
        except ImportError:
            stand_in: Any = types.ModuleType("expecttest")
            stand_in.TestCase = unittest.TestCase
            sys.modules["expecttest"] = stand_in
    from torch.testing._internal.common_methods_invocations import op_db

    return {op.name + (f".{op.variant_test_name}" if op.variant_test_name else ""): op for op in op_db}


def dtypes_of(name: str) -> list[str]:
    """Those of DTYPES that the operator supports on the CPU."""
    return [dtype for dtype, torch_dtype in DTYPES.items() if torch_dtype in database()[name].dtypes]


def samples(name: str, dtype: str) -> Iterator[Sample]:
    """The database's calls of the operator, the same each time."""
    op = database()[name]
    for sample in op.sample_inputs("cpu", DTYPES[dtype], requires_grad=False):
        yield _as_call(name, op.op, (sample.input, *sample.args), sample.kwargs)


def resized_samples(name: str, dtype: str) -> Iterator[Sample]:
    """Calls that differ only in the sizes of tensors when the database's own constants for sizes are changed."""
    with _other_sizes():
        others = list(samples(name, dtype))
    for sample, other in zip(samples(name, dtype), others, strict=False):
        pairs = list(zip(sample.tensors, other.tensors, strict=False))
        alike = str(sample.constants) == str(other.constants) and all(a.dim() == b.dim() for a, b in pairs)
        if alike and any(a.shape != b.shape for a, b in pairs):
            yield dataclasses.replace(sample, resized=other.tensors)


@contextlib.contextmanager
def _other_sizes() -> Iterator[None]:
    """Increases torch.testing's constants S, M, L and XS by one, in every module that has imported them."""
    homes = [
        (module, name)
        for path, module in sys.modules.items()
        if path.startswith("torch.testing._internal")
        for name, size in (("S", 5), ("M", 10), ("L", 20), ("XS", 3))
        if getattr(module, name, None) == size
    ]
    for module, name in homes:
        setattr(module, name, getattr(module, name) + 1)
    try:
        yield
    finally:
        for module, name in homes:
            setattr(module, name, getattr(module, name) - 1)


def quick_indices(count: int) -> list[int]:
    """The first, the middle and the last index."""
    return sorted({0, count // 2, count - 1}) if count else []


def _as_call(name: str, op: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Sample:
    leaves, spec = pytree.tree_flatten((args, kwargs))
    indices = [index for index, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

    def call(*tensors: torch.Tensor) -> Any:
        given = list(leaves)
        for index, tensor in zip(indices, tensors, strict=True):
            given[index] = tensor
        args, kwargs = pytree.tree_unflatten(given, spec)
        return op(*args, **kwargs)

    constants = [*("a tensor" if index in indices else leaf for index, leaf in enumerate(leaves)), spec]
    return Sample(name, call, [leaves[index].detach() for index in indices], constants)


def deterministic_operators(cache: pathlib.Path) -> list[str]:
    """The operators that are measured, from the file ``cache`` if it exists.

    These are the operators of the database that run in eager PyTorch on the CPU on contiguous copies of their inputs,
    take a tensor, and whose result is a function of it: without random numbers and uninitialized memory. This is
    tested on three samples of the first of QUICK_DTYPES that they support. torch 2.15 has 635.
    """
    if cache.exists():
        return cache.read_text().split()
    names = [name for name in database() if _is_deterministic(name)]
    cache.parent.mkdir(parents=True, exist_ok=True)
    cache.write_text("\n".join(names) + "\n")
    return names


def _is_deterministic(name: str) -> bool:
    dtype = next((dtype for dtype in QUICK_DTYPES if dtype in dtypes_of(name)), None)
    if dtype is None or database()[name].has_nondeterministic_output:
        return False
    first = list(itertools.islice(samples(name, dtype), QUICK_SAMPLES))
    chosen = [first[index] for index in quick_indices(len(first))]
    if not any(sample.tensors for sample in chosen):
        return False
    # The database seeds the generator in each call that draws from it.
    seeds = 0
    seed = torch.manual_seed

    def counted(value: int) -> torch.Generator:
        nonlocal seeds
        seeds += 1
        return seed(value)

    torch.manual_seed = counted
    try:
        for sample in chosen:
            sample.call(*(tensor.clone() for tensor in sample.tensors))
    except (RuntimeError, AssertionError):
        return False
    finally:
        torch.manual_seed = seed
    return seeds == 0
