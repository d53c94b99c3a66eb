"""The internals of torch.export."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from types import CodeType
from typing import Any

import torch

from opbridge.torch_compat.lookup import PatchPoint, expect, find, look_up
from opbridge.torch_compat.symbols import ShapeEnv

with look_up():
    import torch._dynamo.config
    import torch._functorch.config
    import torch._functorch.predispatch
    import torch._functorch.vmap
    import torch._higher_order_ops.utils
    import torch.export._trace
    import torch.fx._lazy_graph_module
    import torch.fx._symbolic_trace
    import torch.fx.proxy
    from torch._dynamo.source import ConstantSource
    from torch._export import non_strict_utils, verifier
    from torch._export.non_strict_utils import _NonStrictTorchFunctionHandler as ExportFunctionHandler
    from torch._functorch._aot_autograd import frontend_utils
    from torch._subclasses import fake_tensor, fake_utils
    from torch.fx.experimental import proxy_tensor

    _trace: Any = torch.export._trace
    _functorch: Any = torch._functorch.config
    _dynamo: Any = torch._dynamo.config
    expect(_dynamo, "assume_static_by_default", "automatic_dynamic_shapes")
    fx: Any = torch.fx._symbolic_trace  # the tracer of torch.fx, whose state is global
    proxies: Any = proxy_tensor
    FxPatch: Callable[..., Any] = fx._PatchedFnSetAttr
    CONVOLUTION_WITHOUT_LIBRARY = torch._C._ConvBackend.Slow2d  # type: ignore[attr-defined]
    _EXTREMUM: CodeType = find(non_strict_utils, "_tensor_min_max").__code__
    expect(ShapeEnv(), "backed_var_to_val", "var_to_range")  # ShapeEnv() loads torch._dynamo
    expect(fx, "is_fx_symbolic_tracing", "CURRENT_PATCHER", "_new_patcher")
    expect(fx._Patcher(), "patches_made")
    expect(fx.Tracer(), "module_stack")
    expect(proxy_tensor, "_CURRENT_MAKE_FX_TRACER")
    expect(_functorch, "fake_tensor_propagate_real_tensors", "generate_fake_kernels_from_real_mismatches")

# Global flags and backends that torch.export sets.
COMPILING_STATE = PatchPoint(_trace, "_compiling_state_context")
BACKEND_DECOMPOSITIONS = PatchPoint(_trace, "_ignore_backend_decomps")
CONVOLUTION_BACKEND = PatchPoint(torch._C, "_select_conv_backend")
BUILTINS_OF_EXPORT = PatchPoint(_trace, "_override_builtin_ops")

# The code of the function by which torch.export replaces max and min, and of the function in it.
CODE_OF_EXTREMA = frozenset({_EXTREMUM, *(part for part in _EXTREMUM.co_consts if isinstance(part, CodeType))})

# The steps in which torch.export runs the model.
FUNCTION_HANDLER = PatchPoint(_trace, "_NonStrictTorchFunctionHandler")
FAKE_INPUTS = PatchPoint(_trace, "make_fake_inputs")
FAKE_STATE = PatchPoint(_trace, "_fakify_params_buffers")
BUFFER_ASSIGNMENT_HOOK = PatchPoint(_trace, "register_buffer_assignment_hook")
METHOD_PATCH_OF_FX = PatchPoint(fx._Patcher, "patch_method")
MODULE_CALL_OF_FX = PatchPoint(fx.Tracer, "call_module")
TRACER_OF_MAKE_FX = PatchPoint(proxy_tensor, "_set_make_fx_tracer")
FX_IS_TRACING: Any = fx.is_fx_symbolic_tracing
FX_FLAG = "_is_fx_tracing_flag"
FX_FLAG_IS_SHARED = hasattr(fx, FX_FLAG)  # by all threads, as in torch 2.13
PATCHER_OF_FX, CURRENT_TRACER = "_new_patcher", "_CURRENT_MAKE_FX_TRACER"

# The classes of what programs may call.
CALLABLE_IN_PROGRAMS = PatchPoint(verifier.Verifier, "allowed_op_types")

# The functions by which a model takes derivatives, or enters vmap.
BACKWARD = PatchPoint(torch.autograd, "_engine_run_backward")
DUAL_NUMBERS = PatchPoint(torch.autograd.forward_ad, "make_dual")
NESTING_OF_VMAP = PatchPoint(torch._functorch.vmap, "_vmap_increment_nesting")
NESTING_OF_GRAD = PatchPoint(torch._functorch.eager_transforms, "_grad_increment_nesting")

# Operators whose results may share memory with an argument, contrary to their schemas: run_decompositions loses what
# is written to these results unless it decomposes the operators.
_ALIASES = (
    torch.ops.aten.type_as.default,
    torch.ops.aten.einsum.default,
    torch.ops.aten.sum_to_size.default,
    torch.ops.aten.broadcast_tensors.default,
    torch.ops.aten.meshgrid.default,
    torch.ops.aten.meshgrid.indexing,
    torch.ops.aten.atleast_1d.Sequence,
    torch.ops.aten.atleast_2d.Sequence,
    torch.ops.aten.atleast_3d.Sequence,
)
_COMPOSITE = torch._C.DispatchKey.CompositeImplicitAutograd
DECOMPOSITIONS_OF_ALIASES: dict[Any, Callable[..., Any]] = {
    each: functools.partial(each._op_dk, _COMPOSITE) for each in _ALIASES
}

# Warnings, logs and records of stack traces.
ATTRIBUTE_WARNINGS = PatchPoint(frontend_utils, "warnings")
PRINT = PatchPoint(_trace, "print")
STACK_TRACE = PatchPoint(torch.fx.proxy, "CapturedTraceback")
STACK_TRACE_FILTER = PatchPoint(torch.fx.proxy.TracerBase, "_filter_traceback_frames")
LAZY_GRAPH_MODULE = PatchPoint(torch.fx._lazy_graph_module, "_use_lazy_graph_module_flag")
LOGGER_OF_FAKE_TENSORS = fake_tensor.__name__
CHECK_OF_FAKE_TENSORS = PatchPoint(fake_utils, "_check_fake_real_tensors")  # if fake tensors carry real ones


def is_of_vmap(target: Any) -> bool:
    """Whether a node calls a function of torch.vmap's implementation, which torch resolves in a second pass."""
    return str(getattr(target, "__module__", "")).startswith(torch._functorch.predispatch.__name__)


def propagate_data(enabled: bool) -> contextlib.AbstractContextManager[None]:
    """Sets whether fake tensors carry real ones. If a fake kernel then returns another type than the real kernel, as
    for signbit, the real one's is used."""
    patched: contextlib.AbstractContextManager[None] = _functorch.patch(
        fake_tensor_propagate_real_tensors=enabled, generate_fake_kernels_from_real_mismatches=enabled
    )
    return patched


def keep_constant_sizes() -> contextlib.AbstractContextManager[None]:
    """Makes Dynamo treat sizes that are numbers as constant. torch.export makes it treat them as dynamic; by default,
    Dynamo treats sizes as dynamic that differ from those of another call."""
    patched: contextlib.AbstractContextManager[None] = _dynamo.patch(
        assume_static_by_default=True, automatic_dynamic_shapes=False
    )
    return patched


__all__ = [
    "ATTRIBUTE_WARNINGS",
    "BACKEND_DECOMPOSITIONS",
    "BACKWARD",
    "BUFFER_ASSIGNMENT_HOOK",
    "BUILTINS_OF_EXPORT",
    "CALLABLE_IN_PROGRAMS",
    "CHECK_OF_FAKE_TENSORS",
    "CODE_OF_EXTREMA",
    "COMPILING_STATE",
    "CONVOLUTION_BACKEND",
    "CONVOLUTION_WITHOUT_LIBRARY",
    "CURRENT_TRACER",
    "DECOMPOSITIONS_OF_ALIASES",
    "DUAL_NUMBERS",
    "FAKE_INPUTS",
    "FAKE_STATE",
    "FUNCTION_HANDLER",
    "FX_FLAG",
    "FX_FLAG_IS_SHARED",
    "FX_IS_TRACING",
    "LAZY_GRAPH_MODULE",
    "LOGGER_OF_FAKE_TENSORS",
    "METHOD_PATCH_OF_FX",
    "MODULE_CALL_OF_FX",
    "NESTING_OF_GRAD",
    "NESTING_OF_VMAP",
    "PATCHER_OF_FX",
    "PRINT",
    "STACK_TRACE",
    "STACK_TRACE_FILTER",
    "TRACER_OF_MAKE_FX",
    "ConstantSource",
    "ExportFunctionHandler",
    "FxPatch",
    "fx",
    "is_of_vmap",
    "keep_constant_sizes",
    "propagate_data",
    "proxies",
]
