"""Calls of torch.testing's operator database, by overload, from which other calls are derived."""

from __future__ import annotations

import contextlib
import enum
import functools
import itertools
import random
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch.autograd import forward_ad
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from conformance.operators import database
from hunt.tensors import spec_of
from opbridge.capture.dispatch_mode import intercept_operators


class Level(enum.Enum):
    """Which calls of a sample are recorded: as they are made, after PyTorch decomposes them, or those of autograd."""

    called = enum.auto()
    decomposed = enum.auto()
    derivatives = enum.auto()


Template = dict[str, Any]  # the arguments by name; tensors are specs
MOST_SAMPLES, MOST_TEMPLATES, LARGEST = 20, 60, 3000
# The entries of the database that call overloads of another name.
CALLERS: dict[str, tuple[str, ...]] = {
    "_adaptive_avg_pool2d": ("nn.functional.adaptive_avg_pool2d",),
    "_adaptive_avg_pool3d": ("nn.functional.adaptive_avg_pool3d",),
    "_cdist_forward": ("cdist",),
    "_embedding_bag_forward_only": ("nn.functional.embedding_bag",),
    "_fft_c2c": ("fft.fft2", "fft.ifftn"),
    "_fft_c2r": ("fft.hfft", "fft.irfft2"),
    "_fft_r2c": ("fft.fft", "fft.ihfft", "fft.rfft"),
    "_linalg_det": ("linalg.det",),
    "_linalg_eigh": ("linalg.eigh", "linalg.eigvalsh"),
    "_linalg_slogdet": ("linalg.slogdet",),
    "_linalg_solve_ex": ("linalg.solve", "linalg.tensorsolve"),
    "_linalg_svd": ("linalg.svd", "linalg.svdvals"),
    "_lu_with_info": ("lu",),
    "_pdist_forward": ("nn.functional.pdist",),
    "_safe_softmax": ("torch.ops.aten._safe_softmax.default",),
    "_scaled_dot_product_flash_attention_for_cpu": ("nn.functional.scaled_dot_product_attention",),
    "_trilinear": ("nn.functional.bilinear",),
    "_unique2": ("unique",),
    "_upsample_bilinear2d_aa": ("_upsample_bilinear2d_aa",),
    "_upsample_nearest_exact1d": ("nn.functional.interpolate.nearest-exact",),
    "_upsample_nearest_exact2d": ("nn.functional.interpolate.nearest-exact",),
    "_upsample_nearest_exact3d": ("nn.functional.interpolate.nearest-exact",),
    "convolution": (
        "nn.functional.conv1d",
        "nn.functional.conv2d",
        "nn.functional.conv3d",
        "nn.functional.conv_transpose1d",
        "nn.functional.conv_transpose2d",
        "nn.functional.conv_transpose3d",
    ),
    "embedding_dense": ("nn.functional.embedding",),
    "feature_dropout": ("nn.functional.dropout2d",),
    "grid_sampler": ("nn.functional.grid_sample",),
    "index": ("__getitem__",),
    "max_pool1d_with_indices": ("nn.functional.max_pool1d",),
    "max_pool2d_with_indices": ("nn.functional.max_pool2d",),
    "max_pool3d_with_indices": ("nn.functional.max_pool3d",),
    "native_dropout": ("nn.functional.dropout",),
    "native_group_norm": ("nn.functional.group_norm",),
    "nll_loss2d": ("nn.functional.nll_loss",),
    "nll_loss_nd": ("nn.functional.nll_loss",),
    "prelu_kernel": ("nn.functional.prelu",),
    "reflection_pad1d": ("nn.functional.pad.reflect",),
    "reflection_pad2d": ("nn.functional.pad.reflect",),
    "reflection_pad3d": ("nn.functional.pad.reflect",),
    "replication_pad1d": ("nn.functional.pad.replicate",),
    "replication_pad2d": ("nn.functional.pad.replicate",),
    "replication_pad3d": ("nn.functional.pad.replicate",),
    "rrelu_with_noise": ("nn.functional.rrelu",),
    "slice": ("__getitem__", "narrow"),
    "upsample_bicubic2d": ("nn.functional.interpolate.bicubic",),
    "upsample_bilinear2d": ("nn.functional.interpolate.bilinear",),
    "upsample_linear1d": ("nn.functional.interpolate.linear",),
    "upsample_nearest1d": ("nn.functional.interpolate.nearest",),
    "upsample_nearest2d": ("nn.functional.interpolate.nearest",),
    "upsample_nearest3d": ("nn.functional.interpolate.nearest",),
    "upsample_trilinear3d": ("nn.functional.interpolate.trilinear",),
    "value_selecting_reduction": ("kthvalue", "median", "mode"),
}
# The operators that compute derivatives, by the name of the operator that they belong to.
_DERIVATIVE = re.compile(r"_?(.*?)(_double)?(_backward|(_backward)?_jvp)(_data)?$")


def is_derivative(base: str) -> bool:
    """Whether autograd calls the operator, with tensors that fit each other, which PyTorch does not check."""
    return _DERIVATIVE.match(base) is not None


def templates(overload: str, base: str, dtype: torch.dtype) -> list[Template]:
    """Calls of the overload, at most MOST_TEMPLATES of each entry of the database."""
    for level in (Level.derivatives,) if is_derivative(base) else (Level.called, Level.decomposed):
        if calls := [call for entry in _entries(base) for call in _calls(entry, dtype, level).get(overload, ())]:
            return calls
    return []


def sampled_dtypes(base: str) -> list[torch.dtype]:
    """The types, among those that a sample may have, for which the database has calls."""
    wanted = (torch.float32, torch.int64, torch.bool, torch.complex64, torch.float64, torch.float16)
    return [dtype for dtype in wanted if any(dtype in database()[entry].dtypes for entry in _entries(base))]


@functools.cache
def _entries(base: str) -> list[str]:
    if derivative := _DERIVATIVE.match(base):
        base = derivative[1]
        return sorted({*_by_name().get(base, ()), *CALLERS.get(base, ()), *CALLERS.get(f"_{base}", ())})
    return [*_by_name().get(base, ()), *CALLERS.get(base, ())]


@functools.cache
def _by_name() -> dict[str, list[str]]:
    by_name: dict[str, list[str]] = {}
    for name, op in database().items():
        short = op.name.removeprefix("nn.functional.").replace(".", "_")
        for known in {short, op.aten_name, *(alias.name.replace(".", "_") for alias in op.aliases)}:
            by_name.setdefault(known, []).append(name)
    return by_name


@functools.cache
def _calls(entry: str, dtype: torch.dtype, level: Level) -> dict[str, list[Template]]:
    """The calls of the entry's samples by overload."""
    found: dict[str, list[Template]] = {}

    def note(func: Any, args: Any, kwargs: Any) -> None:
        if not isinstance(func, torch._ops.OpOverload):
            return
        calls = found.setdefault(
            func._schema.name + (f".{func._overloadname}" if func._overloadname != "default" else ""), []
        )
        if len(calls) < MOST_TEMPLATES and (template := _template(func, args, kwargs)) is not None:
            calls.append(template)

    op = database()[entry]
    if dtype not in op.dtypes:
        return {}
    recording = _before_decomposition if level is Level.called else _AfterDecomposition
    differentiates = level is Level.derivatives
    torch.manual_seed(0)
    random.seed(0)
    np.random.seed(0)
    with contextlib.suppress(Exception):
        for sample in itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=differentiates), MOST_SAMPLES):
            if differentiates:
                _differentiate(op.op, (sample.input, *sample.args), sample.kwargs, recording(note))
                continue
            with contextlib.suppress(Exception), torch.no_grad(), recording(note):
                op.op(sample.input, *sample.args, **sample.kwargs)
    return found


def _differentiate(function: Any, args: Any, kwargs: Any, recording: contextlib.AbstractContextManager[Any]) -> None:
    """Computes gradients, gradients of gradients, and derivatives of gradients along a direction."""
    with contextlib.suppress(Exception), torch.enable_grad(), recording:
        _gradients(function(*args, **kwargs), (args, kwargs), create_graph=False)
        gradients = _gradients(function(*args, **kwargs), (args, kwargs), create_graph=True)
        _gradients(gradients, (args, kwargs), create_graph=False)
    with contextlib.suppress(Exception), torch.enable_grad(), recording, forward_ad.dual_level():
        args, kwargs = pytree.tree_map_only(
            torch.Tensor,
            lambda t: forward_ad.make_dual(t, torch.randn_like(t)) if t.requires_grad else t,
            (args, kwargs),
        )
        _gradients(function(*args, **kwargs), (args, kwargs), create_graph=False)


def _gradients(result: Any, inputs: Any, *, create_graph: bool) -> Any:
    outputs, inputs = (
        [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
        for tree in (result, inputs)
    )
    of_outputs = [torch.randn_like(output, requires_grad=create_graph) for output in outputs]
    return torch.autograd.grad(outputs, inputs, of_outputs, create_graph=create_graph, allow_unused=True)


@contextlib.contextmanager
def _before_decomposition(note: Callable[..., None]) -> Iterator[None]:
    def call(func: Any, args: Any, kwargs: Any) -> Any:
        note(func, args, kwargs)
        return func(*args, **kwargs)

    with intercept_operators(call):
        yield


class _AfterDecomposition(TorchDispatchMode):
    def __init__(self, note: Callable[..., None]) -> None:
        super().__init__()
        self.note = note

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.note(func, args, kwargs or {})
        return func(*args, **(kwargs or {}))


def _template(func: Any, args: Any, kwargs: Any) -> Template | None:
    tensors = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    if (
        any(t.layout is not torch.strided or t.is_quantized for t in tensors)
        or sum(t.numel() for t in tensors) > LARGEST
    ):
        return None
    names = [argument.name for argument in func._schema.arguments]
    given = dict(zip(names, args, strict=False)) | kwargs
    kept = {}
    for name, value in given.items():
        leaves, structure = pytree.tree_flatten(value)
        leaves = [spec_of(leaf) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        kept[name] = pytree.tree_unflatten(leaves, structure)
    return kept
