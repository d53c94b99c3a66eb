"""torch goes through each attribute that a capture replaces, and has the state that a capture reads."""

from __future__ import annotations

import contextlib
import functools
import importlib
import logging
import sys
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from replacement_scenarios import OF_TORCHVISION, SCENARIOS, Model, X
from seen import Seen
from torch import nn
from torch.fx.experimental import proxy_tensor

import opbridge
from opbridge import UnsupportedError
from opbridge.capture import capture
from opbridge.capture.patching import ByThread
from opbridge.torch_compat import (
    FLAT_WEIGHTS,
    dynamo,
    exporting,
    fake_tensors,
    onnx_exporter,
    patch_points,
    symbols,
    torchscript,
)
from opbridge.torch_compat import flex_attention as flex
from opbridge.torch_compat.lookup import PatchPoint
from opbridge.torch_compat.torchvision import loaded_patch_points

PACKAGE = Path(opbridge.__file__).parent
MODULES = (dynamo, exporting, fake_tensors, flex, onnx_exporter, patch_points, symbols, torchscript)
POINTS = {
    f"{module.__name__.rpartition('.')[2]}.{name}": value
    for module in MODULES
    for name, value in vars(module).items()
    if isinstance(value, PatchPoint)
}
# The scenario in which torch or the model uses each replacement.
USED = {
    "dynamo.STANCE": "compiled",
    "exporting.ATTRIBUTE_WARNINGS": "attributes",
    "exporting.BACKEND_DECOMPOSITIONS": "questions",
    "exporting.BACKWARD": "derivatives",
    "exporting.BUFFER_ASSIGNMENT_HOOK": "attributes",
    "exporting.BUILTINS_OF_EXPORT": "questions",
    "exporting.CALLABLE_IN_PROGRAMS": "questions",
    "exporting.CHECK_OF_FAKE_TENSORS": "data",
    "exporting.COMPILING_STATE": "questions",
    "exporting.CONVOLUTION_BACKEND": "convolution",
    "exporting.DUAL_NUMBERS": "forward mode",
    "exporting.FAKE_INPUTS": "questions",
    "exporting.FAKE_STATE": "buffer",
    "exporting.FUNCTION_HANDLER": "questions",
    "exporting.LAZY_GRAPH_MODULE": "questions",
    "exporting.METHOD_PATCH_OF_FX": "questions",
    "exporting.NESTING_OF_GRAD": "batched gradients",
    "exporting.NESTING_OF_VMAP": "recurrent",
    "exporting.PRINT": "refused",
    "exporting.STACK_TRACE": "questions",
    "exporting.STACK_TRACE_FILTER": "questions",
    "exporting.MODULE_CALL_OF_FX": "questions",
    "exporting.TRACER_OF_MAKE_FX": "questions",
    "fake_tensors.COPY_OF_DATA": "branch on found",
    "fake_tensors.FAKE_KERNEL": "custom",
    "fake_tensors.MAKE_CACHE_ENTRY": "sizes",
    "fake_tensors.CALL_ON_FAKES": "constants",
    "fake_tensors.DISPATCH_ON_FAKES": "constants",
    "fake_tensors.MAY_TURN_CONST": "constants",
    "flex_attention.EMPTY_BLOCK_MASK": "flexible",
    "flex_attention.OPERATOR": "flexible",
    "flex_attention.RUNS_UNCOMPILED": "flexible",
    "onnx_exporter.IS_EXPORTING": "questions",
    "patch_points.ANNOTATION": "branches",
    "patch_points.ASSOCIATIVE_SCAN": "scanned",
    "patch_points.ATTENTION": "attention",
    "patch_points.ATTENTION_OF_CAUSAL_BIAS": "causal",
    "patch_points.CALL_OF_COMPILE_REGION": "region",
    "patch_points.AS_SUBCLASS": "subclass",
    "patch_points.BRANCH_COMPILATION": "branches",
    "patch_points.CALL_OF_HIGHER_ORDER_OPERATOR": "traced branches",
    "patch_points.CAUSAL_MASK": "attention",
    "patch_points.CHECKS_OF_DISTRIBUTIONS": "distribution",
    "patch_points.COMPILE": "compiled",
    "patch_points.COMPILE_SESSION": "branches",
    "patch_points.ENCODER": "attention",
    "patch_points.ENCODER_LAYER": "attention",
    "patch_points.FAST_ATTENTION": "attention",
    "patch_points.GRU": "packed",
    "patch_points.INTERPOLATE": "scaled",
    "patch_points.IS_COMPILING": "questions",
    "patch_points.JACOBIAN": "batched gradients",
    "patch_points.IS_EXPORTING": "questions",
    "patch_points.IS_TRACED_BY_FX": "attention",
    "patch_points.LOOKUP_IN_AUTOGRAD_FUNCTION": "function",
    "patch_points.LSTM": "packed",
    "patch_points.MAKING_OF_CAUSAL_BIAS": "causal",
    "patch_points.OVERRIDES": "attention",
    "patch_points.PACKING": "packed",
    "patch_points.BASES_OF_OUTPUTS": "batched gradients",
    "patch_points.BASIS_OF_OUTPUTS": "batched gradients",
    "patch_points.CHUNKS_OF_VMAP": "batched gradients",
    "patch_points.PREDISPATCH_MODES": "questions",
    "patch_points.CONVERSION_OF_MODULE": "converted",
    "patch_points.DEQUANTIZE": "quantized",
    "patch_points.DEQUANTIZE_METHOD": "quantized",
    "patch_points.QUANTIZED_GRU": "layers",
    "patch_points.QUANTIZED_LSTM": "layers",
    "patch_points.QUANTIZED_CHANNELS_OF_INTEGERS": "quantized",
    "patch_points.QUANTIZED_OF_INTEGERS": "quantized",
    "patch_points.QUANTIZE_PER_CHANNEL": "quantized",
    "patch_points.QUANTIZE_PER_TENSOR": "quantized",
    "patch_points.RECURRENT_CHECK": "packed",
    "patch_points.REGISTRATION": "weights",
    "patch_points.REVERSION_OF_FX": "branches",
    "patch_points.RNN": "packed",
    "patch_points.SPARSE_COO": "sparse",
    "patch_points.SPARSE_CSR": "sparse",
    "patch_points.TO_SPARSE": "sparse",
    "patch_points.TO_SPARSE_COO": "sparse",
    "patch_points.TO_SPARSE_CSR": "sparse",
    "patch_points.TEXT_OF_TENSOR": "forward mode",
    "patch_points.VMAP_OF_DERIVATIVES": "batched gradients",
    "patch_points.VMAP_OF_GRADIENTS": "batched gradients",
    "symbols.AS_ARRAY": "sizes",
    "symbols.AS_TENSOR": "sizes",
    "symbols.BIT_LENGTH": "sizes",
    "symbols.BOOL_OF_SYMBOL": "sizes",
    "symbols.BOOL_TEXT": "sizes",
    "symbols.BROADCAST_SHAPE": "sizes",
    "symbols.CEIL_OF_SYMBOL": "sizes",
    "symbols.INT_FORMAT": "sizes",
    "symbols.FLOAT_FORMAT": "sizes",
    "symbols.DIFFERENCE_OF_SYMBOLS": "slice",
    "symbols.EXPECTED_SYMBOL": "broadcast",
    "symbols.FLOAT_OF_SYMBOL": "float",
    "symbols.EQUALITY": "sizes",
    "symbols.FLOAT_TEXT": "sizes",
    "symbols.FLOOR_DIVISION": "sizes",
    "symbols.FLOOR_DIVISION_BY_FLOAT": "sizes",
    "symbols.FLOOR_DIVISION_BY_SYMBOL": "sizes",
    "symbols.FLOOR_DIVISION_OF_FLOAT": "sizes",
    "symbols.FLOOR_OF_SYMBOL": "sizes",
    "symbols.INDEX_OF_SLICE": "slice",
    "symbols.INEQUALITY": "sizes",
    "symbols.INTEGER_DIVISION": "sizes",
    "symbols.INT_OF_SYMBOL": "sizes",
    "symbols.HASH_OF_SYMBOL": "sizes",
    "symbols.INT_TEXT": "sizes",
    "symbols.LINSPACE": "sizes",
    "symbols.MAXIMUM_OF_SYMBOLS": "sizes",
    "symbols.MINIMUM_OF_SYMBOLS": "sizes",
    "symbols.NEW_SYMBOL": "no rows",
    "symbols.NEW_TENSOR": "sizes",
    "symbols.NODE_OF_OPERAND": "sizes",
    "symbols.NUMBER_OF_TYPE": "sizes",
    "symbols.PAD": "sizes",
    "symbols.ROUND": "sizes",
    "symbols.OVERLAP": "copied",
    "symbols.SPLIT": "sizes",
    "symbols.SPLIT_METHOD": "sizes",
    "symbols.UNIQUE_SHAPES": "different",
    "symbols.TRUNC_OF_SYMBOL": "sizes",
    "symbols.STATIC_VALUE": "sizes",
    "symbols.SUM_OF_SYMBOLS": "sizes",
    "symbols.SYMBOL_OF_SIZE": "no rows",
    "symbols.SYMBOL_REPLACEMENT": "fixed",
    "torchscript.CALL_OF_FUNCTION": "scripted",
    "torchscript.CALL_OF_METHOD": "scripted",
}


@functools.cache
def replacements_used(scenario: str) -> frozenset[str]:
    """The replaced attributes as code outside of opbridge sees them."""
    used = set()
    current = ByThread.current

    def spied(self: Any) -> Any:
        if torch.compiler.is_dynamo_compiling():  # Dynamo traces this function
            return current(self)
        frame: Any = sys._getframe(1)
        while frame.f_code.co_filename == sys.modules[ByThread.__module__].__file__:
            frame = frame.f_back
        if not frame.f_code.co_filename.startswith(str(PACKAGE)):
            used.add(self.replaces)
        return current(self)

    ByThread.current = spied  # type: ignore[method-assign]
    try:
        with warnings.catch_warnings(), contextlib.suppress(UnsupportedError):
            warnings.simplefilter("ignore")
            SCENARIOS[scenario]()
    finally:
        ByThread.current = current  # type: ignore[method-assign]
    return frozenset(used)


def test_each_patch_has_a_scenario() -> None:
    assert set(USED) == set(POINTS)


@pytest.mark.parametrize("point", USED)
def test_torch_goes_through_the_replacement(point: str) -> None:
    assert str(POINTS[point]) in replacements_used(USED[point])


def test_torchvision_goes_through_the_replacements() -> None:
    pytest.importorskip("torchvision")
    for name in OF_TORCHVISION:
        importlib.import_module(name)
    points = loaded_patch_points()
    assert len(points) == 7
    assert {str(point) for point in points} <= replacements_used("torchvision")


def test_a_missing_function_of_torchvision_is_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    ops = pytest.importorskip("torchvision").ops
    monkeypatch.delattr(ops, "batched_nms")
    message = r"torchvision \S+ has no 'torchvision.ops.batched_nms', .* supports torch .* and the torchvision of each"
    with pytest.raises(UnsupportedError, match=message):
        loaded_patch_points()


def test_torch_goes_through_the_tables_of_recurrent_layers() -> None:
    """The tables of kernels and decompositions, with which torch traces a program a second time."""
    assert {"DispatchKey.CompositeImplicitAutograd", "aten.lstm.input"} <= replacements_used("recurrent")


def test_the_state_of_torch_fx_is_of_the_thread() -> None:
    assert exporting.PATCHER_OF_FX in replacements_used("questions")
    seen = Seen()

    def look(model: Model, x: torch.Tensor) -> torch.Tensor:
        proxies: Any = exporting.proxies
        seen.put((getattr(proxies, exporting.CURRENT_TRACER), vars(proxies)[exporting.CURRENT_TRACER]))
        return x + 1

    capture(Model(look), (X,))
    assert any(here is not None and elsewhere is None for here, elsewhere in seen.taken())


def test_sizes_are_numbers_to_the_model() -> None:
    kinds = Seen()

    def look(model: Model, x: torch.Tensor) -> torch.Tensor:
        kinds.put((isinstance(x.shape[0], torch.SymInt), isinstance(x.shape[0], int)))
        return x + 1

    for how in ("export", "trace"):
        capture(Model(look), (X,), how=how, dynamic_axes={"args_0": {0: "n"}})
    assert set(kinds.taken()) == {(True, True)}


def test_torch_gives_functions_signatures_by_lambdas() -> None:
    codes = []

    def noting(*args: torch.Tensor) -> torch.Tensor:
        codes.append(sys._getframe(1).f_code)
        return args[0] * 2

    proxy_tensor.make_fx(noting)(X)
    assert any(map(symbols.is_signature, codes))
    assert not symbols.is_signature(eval("lambda x: x + 1").__code__)


def test_recurrent_modules_list_their_weights() -> None:
    assert any(name.startswith(FLAT_WEIGHTS) for name in vars(nn.LSTM(1, 1)))


@pytest.mark.parametrize("name", [symbols.LOGGER, exporting.LOGGER_OF_FAKE_TENSORS])
def test_loggers_are_those_of_torch(name: str) -> None:
    module = sys.modules[name]
    assert isinstance(module, ModuleType)
    assert any(isinstance(value, logging.Logger) and value.name == name for value in vars(module).values())
