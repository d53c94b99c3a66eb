"""The operators of PyTorch that have no mapping, and why: the last section of docs/coverage.md."""

from __future__ import annotations

import fnmatch
import functools
import json
from collections.abc import Iterator
from typing import Any

import torch

import opbridge
from opbridge import _core
from opbridge.symbolics.registry import registry

NO_KERNEL = "PyTorch has no kernel for dense tensors on CPUs"

# Patterns of names, without aten.
REASONS = {
    "of sparse layouts; where a model makes and consumes sparse tensors, the captures record dense operators": (
        "*sparse*, *_csr*, *_coo*, *_csc, *_bs[rc], *col_indices*, *row_indices*, values*, indices*, _values_copy, "
        "_indices_copy, *coalesce*, to_dense_backward, smm, _spdiags, sspaddmm, dense_dim, _validate_compressed*"
    ),
    "of nested tensors; where they are a fast path, the captures turn it off": "*nested*, *jagged*",
    "of quantized tensors and packed weights; the captures record integers, scales and zero points": (
        "quantize_per_*, dequantize*, quantized_*, _make_per_*, _empty_*affine*, fbgemm_*, *int4pack*, _dyn_quant_*, "
        "choose_qparams*, _choose_qparams*, _saturate_weight*, _wrapped_*, _rowwise_prune"
    ),
    "read by Python, so that a capture sees a number or a type, or a constant of the run, and warns of it": (
        "sym_*, is_*, size.int, stride.int, dim, numel, storage_offset, get_device, result_type*, promote_types, "
        "can_cast, output_nr, _version, data, equal, allclose, _has_same_storage_numel, _is_zerotensor, "
        "prims::minimum_value, prims::maximum_value, *internal_overlap, *_available, cudnn_is_acceptable, "
        "_fused_sdp_choice, _nnpack_available, _use_*, *_cufft_*"
    ),
    "checks, prints and tokens, which a graph leaves out": (
        "*assert*, _print, *sym_constrain_range*, _linalg_check_errors, prims::_sink_tokens, prims::_make_token, "
        "_make_dep_token"
    ),
    "of PyTorch's own tests": "_test_*, _foobar",
    "of autograd and of transforms, which the captures follow to the operators inside": (
        "_make_dual*, _fw_primal*, _unpack_dual, _backward, retain*, get_gradients, *_batch_dim, "
        "_new_zeros_with_same_feature_meta, _pack_padded_sequence*, _pad_packed_sequence"
    ),
    "that raise an error on CPUs: of other devices, or of one mode of PyTorch": (
        "*_overrideable*, _scaled_grouped_mm*, prims::xor_sum"
    ),
    "derivatives that C++ code of autograd calls; a capture sees the operators in them": (
        "_thnn_*_backward, to_mkldnn_backward, *_rnn_layer_backward, _batch_norm_impl_index_backward, "
        "_standard_gamma_grad, _dirichlet_grad"
    ),
    "random numbers by a method that ONNX lacks, or of a generator of the model's own": (
        "_philox*, _sobol_*_, *.generator, *_generator, *_generator_dtype, *.low_generator_dtype"
    ),
    "of which torch cannot determine the sizes, or returns a number": "unique_dim_consecutive, _batch_norm_impl_index",
    "parts of other operators, or private forms of them": ("slice_inverse, _thnn_*, _scaled_addmm*"),
    "of memory, devices and storages": (
        "set.*, set, set_*, shallow_copy_data_, *resize*, _pin_memory, _to_cpu, from_file, to_mkldnn*, "
        "_propagate_xla_data"
    ),
    "of the compiler behind torch.compile": (
        "prims::inductor_*, prims::fma, prims::prepare_softmax_online, prims::_low_memory_max_pool_*"
    ),
    "of half-precision complex numbers, which ONNX lacks": "chalf",
}

# Mapped, but not for the arguments with which `_is_known` calls them.
_NEED_FITTING_ARGUMENTS = frozenset({"view_as_real", "view_as_real_copy", "linalg_lstsq", "new_empty_strided"})

# In-place operators that functionalization replaces by operators of other names.
_REPLACED = frozenset({"aten::fill_diagonal_"})


def unmapped() -> Iterator[str]:
    """The operators of aten, prims and quantized_decomposed with a kernel for CPUs, other than out= forms, that the
    conversion does not know, without their namespace if that is aten."""
    for schema in torch._C._jit_get_all_schemas():
        name = f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name
        if name.split("::")[0] not in ("aten", "prims", "quantized_decomposed"):
            continue
        if any(argument.is_out for argument in schema.arguments) or not _runs_on_cpus(name):
            continue
        short = name.removeprefix("aten::")
        if short not in _NEED_FITTING_ARGUMENTS and not _is_mapped(name, schema):
            yield short


def reason_for(name: str) -> str | None:
    """Why the operator has no mapping; None if that is not listed."""
    for reason, patterns in REASONS.items():
        if any(fnmatch.fnmatchcase(name, pattern.strip()) for pattern in patterns.split(",")):
            return reason
    return None


def section() -> list[str]:
    """The lines of the section."""
    rows = [f"| {reason} | {patterns.replace('*', chr(92) + '*')} |" for reason, patterns in REASONS.items()]
    return [
        "## Without a mapping",
        "",
        f"Operators for which {NO_KERNEL} are left out, and `out=` forms. A program that calls one of these is refused "
        "by name.",
        "",
        "| why | operators |",
        "|---|---|",
        *rows,
    ]


def _runs_on_cpus(name: str) -> bool:
    keys = ("CPU", "CompositeImplicitAutograd", "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional")
    return torch._C._dispatch_has_kernel(name) and any(
        torch._C._dispatch_has_kernel_for_dispatch_key(name, key) for key in keys
    )


def _is_mapped(name: str, schema: Any) -> bool:
    kinds = ((torch.float32, torch.float32), (torch.float32, torch.complex64), (torch.complex64, torch.float32))
    return any(_is_known(name, schema, given, made) for given, made in kinds)


@functools.cache
def _mapped_names() -> frozenset[str]:
    return frozenset(key.partition(".")[0] for key, *_ in registry().entries())


def _has_mapping(name: str) -> bool:
    """Whether the operator, or that of which it is the in-place form, has a mapping. The operators of prims are
    replaced by those of aten, and some that write by others."""
    operator = name.partition(".")[0]
    mapped = _mapped_names() | _REPLACED
    return operator.startswith("prims::") or operator in mapped or operator.removesuffix("_") in mapped


def _is_known(name: str, schema: Any, given: torch.dtype, made: torch.dtype) -> bool:
    """Whether a call of the operator with some arguments is taken for anything but one without a mapping."""
    builder = _core.ProgramBuilder()
    tensor = builder.input("x", given, [2])
    by_kind = {"Tensor": tensor, "List[Tensor]": [tensor], "number": 1.0, "List[number]": [1.0]}
    arguments = [(each.name, by_kind[str(each.type)]) for each in schema.arguments if str(each.type) in by_kind]
    results = [(f"r{i}", made, [2]) for i in range(max(1, len(schema.returns)))]
    names, values = zip(*arguments, strict=True) if arguments else ((), ())
    builder.output(builder.call(name, names, values, {}, results, "", "")[0], "")
    try:
        _, report, _ = _core.diagnose_graph(
            builder.finish(), registry(), name="", target="onnxruntime", opset=21, json=True, mappings="", projects=""
        )
    except opbridge.Error:
        return given == made and _has_mapping(name)
    # A call with complex numbers that is unknown is reported as refused.
    return all(each["mapping"] and (given == made or not each["refused"]) for each in json.loads(report)["operators"])
