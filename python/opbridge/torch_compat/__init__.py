"""Every name of torch that no release promises to keep, under a name of opbridge's own.

No other file of opbridge uses a private name or an internal module of torch. Each module of this package looks its
names up when it is imported. Names that ``import torch`` does not load are in modules of their own:

- ``symbols``: symbolic sizes.
- ``patch_points``: the attributes of torch that opbridge replaces, nearly all of them in every capture.
- ``exporting``: the internals of torch.export. Loads torch._dynamo.
- ``dynamo``, ``flex_attention``, ``onnx_exporter``: for models that use these.
- ``fake_tensors``: the values that fake tensors keep.
- ``torchscript_exporter``: for symbolic functions that are written for it.
- ``torchvision``: functions of torchvision.
- ``messages``, ``torchscript_texts``: texts of torch that opbridge reads.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Any

import torch

from opbridge.torch_compat.lookup import expect, look_up, warn_of_untested_version

IS_ZERO = "_is_zerotensor"  # the method by which a tensor says that it is a derivative of 0, without memory

warn_of_untested_version()
with look_up():
    from torch._C import FunctionSchema
    from torch._decomp import decomposition_table
    from torch._dispatch.python import enable_python_dispatcher
    from torch._ops import HigherOrderOperator, OpOverload, OpOverloadPacket
    from torch._subclasses.fake_tensor import (
        DataDependentOutputException,
        DynamicOutputShapeException,
        FakeTensor,
        FakeTensorMode,
        UnsupportedOperatorException,
        is_fake,
        unset_fake_temporarily,
    )
    from torch._subclasses.schema_check_mode import SchemaCheckMode
    from torch.utils import _pytree as pytree
    from torch.utils._python_dispatch import (
        TorchDispatchMode,
        is_traceable_wrapper_subclass,
        is_traceable_wrapper_subclass_type,
    )
    from torch.utils._python_dispatch import _disable_current_modes as without_modes

    _C: Any = torch._C
    _ops: Any = torch._ops
    _refs: Any = torch._refs

    check: Callable[..., None] = torch._check
    find_schema = torch._C._get_schema
    safe_softmax = torch._safe_softmax
    tensor_of_symbols: Callable[..., torch.Tensor] = _refs.tensor  # torch.tensor that also takes symbols
    SHAPE_AS_TENSOR: Any = torch._shape_as_tensor  # torch.onnx.operators has this function and the next
    RESHAPE_FROM_TENSOR: Any = torch._reshape_from_tensor

    # Operators, and the dispatch of their calls.
    CHECK_OF_ASSIGNED_DATA = torch.ops.aten._has_compatible_shallow_copy_type.default
    DETACH = torch.ops.aten.detach.default
    DETERMINANTS = (torch.ops.aten._linalg_det.default, torch.ops.aten._linalg_slogdet.default)
    ZEROS_OF_LAYOUT = torch.ops.aten._new_zeros_with_same_feature_meta.default
    EAGER_KERNEL = torch._C.DispatchKey.CompositeExplicitAutograd
    PRE_DISPATCH = torch._C.DispatchKey.PreDispatch
    TRANSFORMS = torch._C.DispatchKey.FuncTorchDynamicLayerFrontMode
    DisableTorchFunction = torch._C.DisableTorchFunction
    DisableTorchFunctionSubclass = torch._C.DisableTorchFunctionSubclass
    DisablePythonDispatcher = torch._C._DisablePythonDispatcher
    disabled_torch_function = torch._C._disabled_torch_function_impl
    _DISPATCHED = list(inspect.signature(TorchDispatchMode.__torch_dispatch__).parameters)[1]  # the operator
    push_predispatch_mode: Callable[[Any], None] = _ops._set_mode_pre_dispatch
    pop_predispatch_mode: Callable[[], Any] = _ops._pop_mode_from_pre_dispatch
    PredispatchModes: Any = _ops._ModeStackStateForPreDispatch

    # Autograd and torch.func.
    _graph_task: Callable[[], int] = _C._current_graph_task_id
    _forward_ad: Any = torch.autograd.forward_ad
    expect(_forward_ad, "_current_level")
    _depth: Callable[[], int] = _C._functorch.get_dynamic_layer_stack_depth
    _leave_to_depth: Callable[[int], None] = _C._functorch.pop_dynamic_layer_stack_and_undo_to_depth
    _innermost_transform: Callable[[], Any] = _C._functorch.peek_interpreter_stack
    _JVP = _C._functorch.TransformType.Jvp
    transforms_are_active: Callable[[], bool] = _C._are_functorch_transforms_active
    is_transformed: Callable[[torch.Tensor], bool] = _C._functorch.is_functorch_wrapped_tensor
    unwrap_if_dead: Callable[[torch.Tensor], torch.Tensor] = _C._functorch.unwrap_if_dead
    _untransformed: Callable[[torch.Tensor], torch.Tensor] = _C._functorch.get_unwrapped

    MODULE_CALL = torch.nn.Module._call_impl  # the implementation of nn.Module.__call__
    expect(torch.nn.Module(), "_parameters", "_buffers", "_modules")
    expect(torch.nn.RNN(1, 1, device="meta"), "_flat_weights")
    expect(torch.Tensor, "_version", IS_ZERO)
    expect(torch.empty(0).untyped_storage(), "_cdata")
    expect(torch._C, "_dispatch_has_kernel_for_dispatch_key")
    expect(DETACH, "_schema", "py_kernels", "_dispatch_cache")
    expect(HigherOrderOperator, "__call__", "dispatch", "name")

CALL_OF_MODULE = "_call_impl"
# The attributes of a module that hold its registered parameters, buffers and modules.
PARAMETERS, BUFFERS, MODULES = "_parameters", "_buffers", "_modules"
CONSTANT_TO_DYNAMO = "_dynamo_marked_constant"  # marks a function that torch._dynamo must not trace
FLAT_WEIGHTS = "_flat_weight"  # the prefix of the attributes in which recurrent modules list their weights


def schema_of(operator: OpOverload) -> FunctionSchema:
    return operator._schema


def length_of(argument: Any) -> int | None:
    """The number of items of a list in a schema (``int[2]``); None if the schema leaves it open."""
    length: int | None = argument.N
    return length


def name_of(operator: Any) -> str:
    """The name of a higher-order operator; empty for anything else."""
    return str(getattr(operator, "_name", ""))


def kernels_of(operator: Any) -> dict[Any, Callable[..., Any]]:
    """The operator's Python kernels."""
    kernels: dict[Any, Callable[..., Any]] = operator.py_kernels
    return kernels


def has_kernel(operator: OpOverload, key: str) -> bool:
    """Whether the operator has a C++ kernel for a dispatch key."""
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(operator.name(), key))  # type: ignore[no-untyped-call]


def forget_dispatched(operator: Any) -> None:
    """Clears the dispatch cache, so that torch looks up the kernels of the operator again."""
    operator._dispatch_cache.clear()


def dispatched_in(frame: FrameType) -> OpOverload | None:
    """The operator that was passed to ``__torch_dispatch__`` if this frame runs it; None for other frames."""
    operator = frame.f_locals.get(_DISPATCHED)
    return operator if isinstance(operator, OpOverload) else None


def backward_is_running() -> bool:
    return _graph_task() != -1


def dual_numbers_exist() -> bool:
    """Whether the code runs in a level of forward-mode differentiation."""
    level: int = _forward_ad._current_level
    return level >= 0


def entered_transforms() -> tuple[int, int]:
    """The number of transforms of torch.func in which the code runs, and the level of forward-mode differentiation."""
    return _depth(), _forward_ad._current_level


def forward_mode_is_innermost() -> bool:
    """Whether no other transform of torch.func has been entered after forward-mode differentiation."""
    innermost = _innermost_transform()
    return innermost is None or innermost.key() == _JVP


def leave_transforms(before: tuple[int, int]) -> None:
    """Leaves the transforms that were entered after ``before`` was taken."""
    depth, level = before
    if _depth() > depth:
        _leave_to_depth(depth)
    while _forward_ad._current_level > level:
        _forward_ad.exit_dual_level()


@contextlib.contextmanager
def keep_function_modes() -> Iterator[None]:
    """Restores whether modes see calls of functions of torch, which torch leaves off after some errors of Dynamo."""
    state: Any = DisableTorchFunction()
    with state:
        pass
    try:
        yield
    finally:
        state.__exit__(None, None, None)


def version_of(tensor: torch.Tensor) -> int:
    """The version counter, which each write by an operator increments."""
    return tensor._version


def has_memory(tensor: torch.Tensor) -> bool:
    """Whether the tensor has memory. Sparse tensors, those of a transform of torch.func and zero derivatives have
    none."""
    return tensor.layout is torch.strided and not is_transformed(tensor) and not tensor._is_zerotensor()


def storage_id(tensor: torch.Tensor) -> int:
    """An id that is equal for tensors of the same storage while one of them lives."""
    while is_transformed(tensor):
        tensor = _untransformed(tensor)
    return int(tensor.untyped_storage()._cdata)


def wrapper_of_no_memory(kind: Any, size: Sequence[Any], like: torch.Tensor) -> Any:
    """A tensor of the subclass ``kind`` without memory; it has the element type and device of ``like``."""
    return torch.Tensor._make_wrapper_subclass(kind, size, dtype=like.dtype, device=like.device)


def quantized_decomposed() -> Any:
    """The operators of quantization that take and return plain tensors of integers and floating-point numbers."""
    with look_up():
        importlib.import_module("torch.ao.quantization.fx._decomposed")
    return torch.ops.quantized_decomposed


def script_class_of(value: torch.ScriptObject) -> str:
    """The name of the class of TorchScript, in its namespace."""
    name: str = value._type().qualified_name()
    return name.removeprefix("__torch__.torch.classes.")


def scan(step: Callable[..., Any], state: Any, xs: Any) -> Any:
    """torch's loop over the first dim of ``xs``: the last state, and the results of all steps."""
    with look_up():
        operators = importlib.import_module("torch._higher_order_ops")
    return operators.scan(step, state, xs)


def parameters_of(module: torch.nn.Module) -> dict[str, torch.nn.Parameter | None]:
    """The dict in which the module itself holds its parameters."""
    return module._parameters


def buffers_of(module: torch.nn.Module) -> dict[str, torch.Tensor | None]:
    return module._buffers


def buffers_not_stored(module: torch.nn.Module) -> set[str]:
    """The names of the buffers that ``state_dict`` leaves out."""
    return module._non_persistent_buffers_set


def dynamo_if_loaded() -> Any:
    """The module ``dynamo`` of this package; None if torch._dynamo is not loaded."""
    loaded = "torch._dynamo.eval_frame" in sys.modules
    return importlib.import_module("opbridge.torch_compat.dynamo") if loaded else None


def flex_attention_if_loaded() -> Any:
    loaded = "torch.nn.attention.flex_attention" in sys.modules
    return importlib.import_module("opbridge.torch_compat.flex_attention") if loaded else None


def symbolics_registered_with_torch() -> Iterator[tuple[str, int, Callable[..., Any]]]:
    """Operator, opset and function of each call of torch.onnx.register_custom_op_symbolic."""
    module = sys.modules.get("torch.onnx._internal.torchscript_exporter.registration")
    if module is None:
        return
    with look_up():
        groups: dict[str, Any] = module.registry._registry
        registered = [(key, group._functions._overrides) for key, group in groups.items()]
    for key, functions in registered:
        for opset, function in functions.items():
            yield key, opset, function


__all__ = [
    "BUFFERS",
    "CALL_OF_MODULE",
    "CHECK_OF_ASSIGNED_DATA",
    "CONSTANT_TO_DYNAMO",
    "DETACH",
    "EAGER_KERNEL",
    "FLAT_WEIGHTS",
    "IS_ZERO",
    "MODULES",
    "MODULE_CALL",
    "PARAMETERS",
    "PRE_DISPATCH",
    "RESHAPE_FROM_TENSOR",
    "SHAPE_AS_TENSOR",
    "ZEROS_OF_LAYOUT",
    "DataDependentOutputException",
    "DisablePythonDispatcher",
    "DisableTorchFunction",
    "DisableTorchFunctionSubclass",
    "DynamicOutputShapeException",
    "FakeTensor",
    "FakeTensorMode",
    "FunctionSchema",
    "HigherOrderOperator",
    "OpOverload",
    "OpOverloadPacket",
    "PredispatchModes",
    "SchemaCheckMode",
    "TorchDispatchMode",
    "UnsupportedOperatorException",
    "backward_is_running",
    "buffers_of",
    "check",
    "decomposition_table",
    "disabled_torch_function",
    "dispatched_in",
    "dual_numbers_exist",
    "dynamo_if_loaded",
    "enable_python_dispatcher",
    "entered_transforms",
    "find_schema",
    "flex_attention_if_loaded",
    "forget_dispatched",
    "has_kernel",
    "has_memory",
    "is_fake",
    "is_traceable_wrapper_subclass",
    "is_traceable_wrapper_subclass_type",
    "is_transformed",
    "keep_function_modes",
    "kernels_of",
    "leave_transforms",
    "length_of",
    "name_of",
    "parameters_of",
    "pop_predispatch_mode",
    "push_predispatch_mode",
    "pytree",
    "quantized_decomposed",
    "safe_softmax",
    "scan",
    "schema_of",
    "script_class_of",
    "storage_id",
    "symbolics_registered_with_torch",
    "tensor_of_symbols",
    "transforms_are_active",
    "unset_fake_temporarily",
    "unwrap_if_dead",
    "version_of",
    "without_modes",
    "wrapper_of_no_memory",
]
