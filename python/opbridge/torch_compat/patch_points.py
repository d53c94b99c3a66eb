"""The attributes of torch that opbridge replaces, nearly all of them in every capture."""

from __future__ import annotations

import functools
import importlib
from typing import Any

import torch
import torch._functorch.eager_transforms
import torch._functorch.vmap
import torch._tensor_str
import torch._vmap_internals
import torch.fx._symbolic_trace
import torch.fx.traceback
from torch import nn
from torch.nn.attention.bias import CausalBias
from torch.nn.modules import activation
from torch.nn.utils import rnn

from opbridge.torch_compat import decomposition_table
from opbridge.torch_compat.lookup import PatchPoint, expect, find, look_up

# Flags by which a model detects a capture or torch.compile.
IS_COMPILING = PatchPoint(torch.compiler, "_is_compiling_flag")
IS_EXPORTING = PatchPoint(torch.compiler, "_is_exporting_flag")
COMPILE_SESSION = PatchPoint(torch.compiler, "_compile_session_context")
COMPILE = PatchPoint(torch, "compile")
_REGIONS: Any = importlib.import_module("torch._higher_order_ops.invoke_subgraph")  # hidden by a class of its name
CALL_OF_COMPILE_REGION = PatchPoint(_REGIONS, "invoke_subgraph_placeholder")
ANNOTATION = PatchPoint(torch.fx.traceback, "annotate")  # of nodes, by a dict that all threads share
with look_up():
    FX_IS_TRACING_OR_EXPORTING: Any = torch.fx._symbolic_trace.is_fx_tracing
REVERSION_OF_FX = PatchPoint(torch.fx._symbolic_trace, "_maybe_revert_all_patches")
REVERT_FX: Any = REVERSION_OF_FX.original

# The dispatch of calls to operators.
PREDISPATCH_MODES = PatchPoint(torch._ops, "mode_stack_state_for_pre_dispatch")
CALL_OF_HIGHER_ORDER_OPERATOR = PatchPoint(torch._ops.HigherOrderOperator, "__call__")
BRANCH_COMPILATION = PatchPoint(torch._higher_order_ops.utils, "_hop_compile_and_call")
with look_up():
    _SCANS = importlib.import_module("torch._higher_order_ops.associative_scan")
ASSOCIATIVE_SCAN = PatchPoint(_SCANS, "generic_associative_scan")
LOOKUP_IN_AUTOGRAD_FUNCTION = PatchPoint(type(torch.autograd.Function), "__getattribute__")

VMAP_OF_GRADIENTS = PatchPoint(torch._vmap_internals, "_vmap")  # of autograd.grad(…, is_grads_batched=True)
VMAP_OF_DERIVATIVES = PatchPoint(torch.autograd.functional, "_vmap")  # of jacobian(…, strategy="forward-mode")
JACOBIAN = PatchPoint(torch.autograd.functional, "jacobian")
BASIS_OF_OUTPUTS = PatchPoint(torch.autograd.functional, "_construct_standard_basis_for")
BASES_OF_OUTPUTS = PatchPoint(torch._functorch.eager_transforms, "_chunked_standard_basis_for_")  # of jacrev and jacfwd
CHUNKS_OF_VMAP = PatchPoint(torch._functorch.vmap, "_get_chunked_inputs")

TEXT_OF_TENSOR = PatchPoint(torch._tensor_str, "_str")

# The fast paths of transformers.
FAST_ATTENTION = PatchPoint(torch, "_native_multi_head_attention")
ATTENTION = PatchPoint(nn.MultiheadAttention, "forward")
ENCODER_LAYER = PatchPoint(nn.TransformerEncoderLayer, "forward")
ENCODER = PatchPoint(nn.TransformerEncoder, "forward")
MAKING_OF_CAUSAL_BIAS = PatchPoint(CausalBias, "__new__")
ATTENTION_OF_CAUSAL_BIAS = PatchPoint(CausalBias, "_dispatch")
with look_up():
    mask_of_bias: Any = find(CausalBias, "_materialize")
    make_subclass: Any = find(torch.Tensor, "_make_subclass")
CAUSAL_MASK = PatchPoint(torch.nn.modules.transformer, "_detect_is_causal_mask")
OVERRIDES = PatchPoint(torch.overrides, "has_torch_function")  # whether an argument's class overrides torch's functions
IS_TRACED_BY_FX = PatchPoint(activation, "_is_make_fx_tracing")

INTERPOLATE = PatchPoint(nn.functional, "interpolate")
CONVOLUTIONS = {  # by the number of axes of an image
    axes: tuple(PatchPoint(owner, f"conv{axes}d") for owner in (nn.functional, torch)) for axes in (1, 2, 3)
}
TRANSPOSED_CONVOLUTIONS = {
    axes: tuple(PatchPoint(owner, f"conv_transpose{axes}d") for owner in (nn.functional, torch)) for axes in (1, 2, 3)
}
# Whether a distribution checks its parameters and the values that are passed to its methods.
CHECKS_OF_DISTRIBUTIONS = PatchPoint(torch.distributions.Distribution, "_validate_args")
CONVERSION_OF_MODULE = PatchPoint(nn.Module, "_apply")  # by module.to(…), module.float() and the like
REGISTRATION = PatchPoint(nn.Module, "register_parameter")  # of the parameters of modules that are being built

AS_SUBCLASS = PatchPoint(torch.Tensor, "as_subclass")

# The functions that make sparse tensors.
SPARSE_COO = PatchPoint(torch, "sparse_coo_tensor")
SPARSE_CSR = PatchPoint(torch, "sparse_csr_tensor")
TO_SPARSE = PatchPoint(torch.Tensor, "to_sparse")
TO_SPARSE_COO = PatchPoint(torch.Tensor, "to_sparse_coo")
TO_SPARSE_CSR = PatchPoint(torch.Tensor, "to_sparse_csr")

# The functions that make quantized tensors, and those that make others of them.
QUANTIZE_PER_TENSOR = PatchPoint(torch, "quantize_per_tensor")
QUANTIZE_PER_CHANNEL = PatchPoint(torch, "quantize_per_channel")
QUANTIZED_OF_INTEGERS = PatchPoint(torch, "_make_per_tensor_quantized_tensor")
QUANTIZED_CHANNELS_OF_INTEGERS = PatchPoint(torch, "_make_per_channel_quantized_tensor")
DEQUANTIZE = PatchPoint(torch, "dequantize")
DEQUANTIZE_METHOD = PatchPoint(torch.Tensor, "dequantize")

# The recurrent layers of quantize_dynamic.
QUANTIZED_LSTM = PatchPoint(torch, "quantized_lstm")
QUANTIZED_GRU = PatchPoint(torch, "quantized_gru")

# Packed sequences, and the result sizes of recurrent layers.
PACKING = PatchPoint(rnn, "_VF")
RECURRENT_CHECK = PatchPoint(nn.RNNBase, "check_forward_args")
LSTM = PatchPoint(nn.LSTM, "forward")
GRU = PatchPoint(nn.GRU, "forward")
RNN = PatchPoint(nn.RNN, "forward")
PACK, PAD = "_pack_padded_sequence", "_pad_packed_sequence"  # the functions of PACKING
with look_up():
    expect(PACKING.original, PACK, PAD)
    RECURRENT_OPERATORS: tuple[Any, ...] = tuple(
        getattr(getattr(torch.ops.aten, name), form)
        for name in ("lstm", "gru", "rnn_tanh", "rnn_relu")
        for form in ("input", "data")  # "data" is the overload for packed sequences
    )
for _operator in RECURRENT_OPERATORS:
    expect(_operator, "py_kernels", "_dispatch_cache")
    if _operator not in decomposition_table:
        find(decomposition_table, str(_operator))

# Pools along one dim, whose kernel makes sizes numbers.
MAX_POOL1D: Any = torch.ops.aten.max_pool1d.default
COMPOSITE = torch._C.DispatchKey.CompositeImplicitAutograd
with look_up():
    expect(MAX_POOL1D, "py_kernels", "_dispatch_cache")
    MAX_POOL1D_OF_NUMBERS: Any = functools.partial(MAX_POOL1D._op_dk, COMPOSITE)
