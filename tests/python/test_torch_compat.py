"""The private names of torch are in one place, a missing one causes one error, and patches of torch take effect."""

from __future__ import annotations

import ast
import contextlib
import functools
import importlib
import logging
import re
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
import torch.nn.attention.flex_attention
from torch import nn
from torch.ao.quantization import quantize_dynamic
from torch.fx.experimental import proxy_tensor
from torch.nn.attention.flex_attention import flex_attention
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import opbridge
from opbridge import UnsupportedError
from opbridge.capture import capture
from opbridge.capture.patching import ByThread
from opbridge.torch_compat import (
    FLAT_WEIGHTS,
    FakeTensorMode,
    dynamo,
    exporting,
    fake_tensors,
    messages,
    onnx_exporter,
    patch_points,
    symbols,
    torchscript,
    torchscript_texts,
)
from opbridge.torch_compat import flex_attention as flex
from opbridge.torch_compat.lookup import KNOWN_VERSIONS, PatchPoint, expect, look_up, warn_of_untested_version
from opbridge.torch_compat.torchvision import loaded_patch_points

PACKAGE = Path(opbridge.__file__).parent
MODULES = (dynamo, exporting, fake_tensors, flex, onnx_exporter, patch_points, symbols, torchscript)
POINTS = {
    f"{module.__name__.rpartition('.')[2]}.{name}": value
    for module in MODULES
    for name, value in vars(module).items()
    if isinstance(value, PatchPoint)
}


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def is_internal(module: str) -> bool:
    """Whether the name is that of a module of torch."""
    path = module.split(".")
    internal = any(map(is_private, path)) or module.startswith("torch.fx.experimental")
    return path[0] == "torch" and internal


NAMES_OF_OTHERS = {  # private names in strings that are not torch's
    "_core": "opbridge's module in C++",
    "_exported_once": "a function of opbridge in another file",
    "_graph": "the name of a parameter that opbridge makes",
    "_outputs": "torch.onnx documents this parameter of symbolic functions",
    "_thread": "Python's module",
    **dict.fromkeys(
        (
            "_fake_quantize_learnable_per_channel_affine",
            "_fake_quantize_learnable_per_tensor_affine",
            "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams",
            "_get_tracing_state",
        ),
        "an operator, which a program may name",
    ),
}
LOCALS = {"self": "Python's convention", "path": "of a function of opbridge"}


def names_in_strings(tree: ast.AST) -> Iterator[ast.Constant]:
    """The strings of the file, without those of f-strings and without prefixes and suffixes."""
    parts: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr) or (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in ("endswith", "startswith", "removeprefix", "removesuffix")
        ):
            parts.update(id(part) for part in ast.walk(node) if isinstance(part, ast.Constant))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            yield node


def names_in_frames(node: ast.AST) -> Iterator[str]:
    """The names of functions and of local variables that the code looks for in a frame."""
    if isinstance(node, ast.Compare) and isinstance(node.left, ast.Attribute) and node.left.attr.startswith("co_name"):
        for side in node.comparators:
            yield from (part.value for part in ast.walk(side) if isinstance(part, ast.Constant))
    is_read = isinstance(node, ast.Call) and ast.unparse(node.func).endswith("f_locals.get")
    if is_read or (isinstance(node, ast.Subscript) and ast.unparse(node.value).endswith("f_locals")):
        key = node.args[0] if isinstance(node, ast.Call) else node.slice
        yield from [key.value] if isinstance(key, ast.Constant) and key.value not in LOCALS else []


def private_names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Private attributes and private names in strings that the file does not define, all names of internal modules of
    torch, and the names by which code finds torch's functions and variables in frames."""
    functions = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    own = functions | {
        node.id if isinstance(node, ast.Name) else node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store)
    }
    for node in names_in_strings(tree):
        name = str(node.value)
        if re.fullmatch(r"_[A-Za-z]\w*", name):
            yield from [] if name in own or name in NAMES_OF_OTHERS else [(node.lineno, name)]
        elif re.fullmatch(r"torch[\w.]+", name) and is_internal(name):
            yield node.lineno, name
    for node in ast.walk(tree):
        yield from ((node.lineno, name) for name in names_in_frames(node) if name != "forward")  # which is public
        if isinstance(node, ast.Attribute) and is_private(node.attr) and node.attr not in functions:
            owner = ast.unparse(node.value)
            if owner not in ("self", "cls", "sys") and not owner.startswith("self."):
                yield node.lineno, ast.unparse(node)
        elif isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names if is_internal(alias.name))
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from ((node.lineno, name) for name in names if is_internal(name))
        elif isinstance(node, ast.keyword) and is_private(node.arg or ""):
            yield node.value.lineno, f"{node.arg}="


@pytest.mark.parametrize(
    "line",
    [
        "torch._C._select_conv_backend()",
        "tensor.untyped_storage()._cdata",
        "import torch._dynamo",
        "from torch.utils import _pytree",
        "from torch.fx.experimental.symbolic_shapes import ShapeEnv",
        "patch_attributes(torch.compiler, _is_compiling_flag=True)",
        "sys.modules.get('torch._dynamo')",
        "getattr(target, '_name', '')",
        "name == '_is_zerotensor'",
        "frame.f_code.co_name != 'int_'",
        "frame.f_code.co_names == ('fn',)",
        "frame.f_locals.get('func')",
    ],
)
def test_private_names_are_found(line: str) -> None:
    assert list(private_names(ast.parse(line)))


def test_private_names_of_torch_stand_in_one_place() -> None:
    found = [
        f"{path.relative_to(PACKAGE)}:{line}: {name}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if path.parent.name != "torch_compat"
        for line, name in private_names(ast.parse(path.read_text()))
    ]
    assert found == []


@pytest.mark.parametrize(
    ("statement", "name"),
    [
        ("from torch._ops import NoSuchThing", "torch._ops.NoSuchThing"),
        ("from torch.fx import _no_such_thing", "torch.fx._no_such_thing"),
        ("import torch._no_such_module", "torch._no_such_module"),
        ("import torch; torch._C._no_such_thing", "torch._C._no_such_thing"),
        ("import torch; torch._no_such_thing", "torch._no_such_thing"),
        ("import torch; torch.nn.LSTM._no_such_thing", "LSTM._no_such_thing"),
        ("import torch; torch.nn.ReLU()._no_such_thing", "ReLU._no_such_thing"),
        ("PatchPoint(torch.compiler, '_no_such_flag')", "torch.compiler._no_such_flag"),
        ("PatchPoint(torch.compiler, 'print')", "torch.compiler.print"),  # a builtin that the module does not use
        ("expect(torch.nn.Module(), '_parameters', '_no_such_dict')", "Module._no_such_dict"),
    ],
)
def test_a_missing_name_is_one_error(statement: str, name: str) -> None:
    oldest, newest = KNOWN_VERSIONS
    message = f"torch {torch.__version__} has no '{name}', which opbridge needs; this opbridge supports torch {oldest}"
    with pytest.raises(UnsupportedError, match=re.escape(message)) as caught, look_up():
        exec(statement, {"torch": torch, "PatchPoint": PatchPoint, "expect": expect})
    assert newest in caught.value.message


@pytest.mark.parametrize(
    ("part", "owner", "name"),
    [
        ("opbridge.torch_compat.exporting", torch._C, "_select_conv_backend"),
        ("opbridge.torch_compat.exporting", torch.export._trace, "make_fake_inputs"),
        ("opbridge.torch_compat.patch_points", torch.compiler, "_is_compiling_flag"),
        ("opbridge.torch_compat.patch_points", nn.RNNBase, "check_forward_args"),
        ("opbridge.torch_compat.symbols", symbols.SymNode, "guard_int"),
        ("opbridge.torch_compat", torch._C, "_get_schema"),
    ],
)
def test_names_are_looked_up_when_a_part_is_imported(
    part: str, owner: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, part)
    monkeypatch.delattr(owner, name)
    with pytest.raises(UnsupportedError, match=rf"has no '{owner.__name__}\.{name}', which opbridge needs"):
        importlib.import_module(part)


def test_an_untested_version_of_torch_causes_a_warning() -> None:
    with pytest.warns(UserWarning, match=r"tested with torch 2\.13 to \d\.\d+; torch 9\.0\.0a0 is installed"):
        warn_of_untested_version("9.0.0a0")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_untested_version(f"{KNOWN_VERSIONS[1]}.1+cu132")
        warn_of_untested_version(f"{KNOWN_VERSIONS[0]}.0")


def test_make_compat_takes_the_oldest_version() -> None:
    script = (Path(__file__).parents[2] / "tools/compat.sh").read_text()
    assert f'"torch=={KNOWN_VERSIONS[0]}.0 onnxruntime"' in script


def test_an_error_of_another_kind_passes() -> None:
    with pytest.raises(ImportError, match="no_such_package"), look_up():
        import no_such_package  # noqa: F401


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


def of_sizes(model: Model, x: torch.Tensor, y: torch.Tensor) -> Any:
    n = x.shape[0]
    texts = f"{n} {n / 2} {n > 2}"
    z = x + y if n > 2 else x
    made = [torch.linspace(0, 1, n), torch.as_tensor(n / 2), torch.asarray(n / 2), x.new_tensor(n / 2)]
    z = nn.functional.pad(z, (0, 1), value=n / 2) * round(n, -1)
    return [z * len(texts) * type(n).bit_length(n), *made, *z.split(n // 2)]


def of_packed(model: Model, x: torch.Tensor, lengths: torch.Tensor) -> Any:
    packed = pack_padded_sequence(x, lengths, batch_first=True)
    for name in ("lstm", "gru", "rnn"):
        packed, _ = getattr(model, name)(packed)
    return pad_packed_sequence(packed, batch_first=True)


def of_attention(model: Model, x: torch.Tensor) -> Any:
    padding = torch.zeros(x.shape[:2], dtype=torch.bool)
    attended = model.attention(x, x, x, key_padding_mask=padding)
    return model.encoder(x, src_key_padding_mask=padding), model.encoder(x), attended


def of_recurrent_and_vmap(model: Model, x: torch.Tensor) -> Any:
    return torch.vmap(lambda row: row * 2)(model.lstm(x)[0])


def of_derivatives(model: Model, x: torch.Tensor) -> Any:
    with torch.enable_grad():
        (x.requires_grad_() ** 2).sum().backward()
    return x.grad


def of_forward_mode(model: Model, x: torch.Tensor) -> Any:
    return torch.func.jvp(torch.sin, (x,), (x,))


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
    "constants": lambda: capture(Model(lambda _, x: x + torch.tensor([1, 2, 3])), (X,)),
    "branches": lambda: capture(Model(of_branches), (X,)),
    "traced branches": lambda: capture(Model(of_branches), (X,), how="trace"),
    "compiled": lambda: capture(compiled(), (X,), how="trace"),
    "attributes": lambda: capture(counting(), (X,)),
    "sizes": lambda: capture(Model(of_sizes), (X, X), dynamic_axes={"args_0": {0: "n"}, "args_1": {0: "m"}}),
    "float": lambda: capture(Model(lambda _, x: x * float(x.shape[0] / 2)), (X,), dynamic_axes={"args_0": {0: "n"}}),
    "fixed": lambda: capture(Model(lambda _, x: x.view(4, 3)), (X,), dynamic_axes={"args_0": {0: "n"}}),
    "different": lambda: capture(Model(lambda _, x: torch.unique_consecutive(x, dim=-1)), (X,)),
    "broadcast": lambda: capture(lambda x: x[x > 0.5] + x[x > 0], (X,), how="trace"),
    "data": lambda: capture(lambda x: x[x > 0.5].cummax(0).values, (X,), how="trace"),
    "copied": lambda: capture(Model(lambda _, x: x.clone().copy_(x)), (X,), dynamic_axes={"args_0": {0: "n"}}),
    "refused": lambda: capture(Model(lambda _, x: x if x.sum() > 0 else -x), (X,)),
    "convolution": lambda: capture(nn.Conv2d(2, 2, 3), (torch.rand(2, 2, 4, 4),), dynamic_axes={"input": {0: "n"}}),
    "recurrent": lambda: capture(
        Model(of_recurrent_and_vmap, lstm=nn.LSTM(3, 3)), (torch.rand(4, 2, 3),), dynamic_axes={"args_0": {0: "n"}}
    ),
    "derivatives": lambda: capture(Model(of_derivatives), (X,)),
    "forward mode": lambda: capture(Model(of_forward_mode), (X,)),
    "packed": lambda: capture(recurrent(), (torch.rand(2, 4, 3), torch.tensor([4, 2])), how="trace"),
    "attention": lambda: capture(encoder(), (torch.rand(2, 3, 4),)),
    "flexible": lambda: capture(Model(lambda _, q: flex_attention(q, q, q)), (torch.rand(1, 2, 4, 8),)),
    "quantized": lambda: capture(Model(of_quantized_tensors), (torch.rand(2, 2),)),
    "layers": lambda: capture(quantized_layers(), (torch.rand(2, 3, 3),)),
    "scripted": lambda: capture(scripted(), (X,), how="trace"),
    "scaled": lambda: capture(nn.Upsample(scale_factor=2.0), (torch.rand(1, 1, 4, 4),)),
    "weights": built_without_memory,
    "torchvision": lambda: capture(Model(of_torchvision), (torch.rand(3, 4, 6),), how="trace"),
    "sparse": lambda: capture(Model(of_sparse_tensors), (torch.rand(2, 2),)),
}
# The scenario in which torch or the model uses each replacement.
USED = {
    "dynamo.STANCE": "compiled",
    "exporting.ATTRIBUTE_WARNINGS": "attributes",
    "exporting.BACKEND_DECOMPOSITIONS": "questions",
    "exporting.BACKWARD": "derivatives",
    "exporting.BRANCH_COMPILATION": "branches",
    "exporting.BUFFER_ASSIGNMENT_HOOK": "attributes",
    "exporting.BUILTINS_OF_EXPORT": "questions",
    "exporting.CALLABLE_IN_PROGRAMS": "questions",
    "exporting.CHECK_OF_FAKE_TENSORS": "data",
    "exporting.COMPILING_STATE": "questions",
    "exporting.CONVOLUTION_BACKEND": "convolution",
    "exporting.DUAL_NUMBERS": "forward mode",
    "exporting.FAKE_INPUTS": "questions",
    "exporting.FUNCTION_HANDLER": "questions",
    "exporting.LAZY_GRAPH_MODULE": "questions",
    "exporting.METHOD_PATCH_OF_FX": "questions",
    "exporting.NESTING_OF_VMAP": "recurrent",
    "exporting.PRINT": "refused",
    "exporting.STACK_TRACE": "questions",
    "exporting.STACK_TRACE_FILTER": "questions",
    "exporting.TRACER_OF_MAKE_FX": "questions",
    "fake_tensors.MAY_TURN_CONST": "constants",
    "flex_attention.EMPTY_BLOCK_MASK": "flexible",
    "flex_attention.OPERATOR": "flexible",
    "flex_attention.RUNS_UNCOMPILED": "flexible",
    "onnx_exporter.IS_EXPORTING": "questions",
    "patch_points.ANNOTATION": "branches",
    "patch_points.ATTENTION": "attention",
    "patch_points.CALL_OF_HIGHER_ORDER_OPERATOR": "traced branches",
    "patch_points.CAUSAL_MASK": "attention",
    "patch_points.COMPILE": "compiled",
    "patch_points.COMPILE_SESSION": "branches",
    "patch_points.ENCODER": "attention",
    "patch_points.ENCODER_LAYER": "attention",
    "patch_points.FAST_ATTENTION": "attention",
    "patch_points.FAST_ENCODER_LAYER": "attention",
    "patch_points.GRU": "packed",
    "patch_points.INTERPOLATE": "scaled",
    "patch_points.IS_COMPILING": "questions",
    "patch_points.IS_EXPORTING": "questions",
    "patch_points.IS_TRACED_BY_FX": "attention",
    "patch_points.LOOKUP_IN_AUTOGRAD_FUNCTION": "function",
    "patch_points.LSTM": "packed",
    "patch_points.OVERRIDES": "attention",
    "patch_points.PACKING": "packed",
    "patch_points.PREDISPATCH_MODES": "questions",
    "patch_points.DEQUANTIZE": "quantized",
    "patch_points.DEQUANTIZE_METHOD": "quantized",
    "patch_points.QUANTIZED_GRU": "layers",
    "patch_points.QUANTIZED_LSTM": "layers",
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
    "symbols.AS_ARRAY": "sizes",
    "symbols.AS_TENSOR": "sizes",
    "symbols.BIT_LENGTH": "sizes",
    "symbols.BOOL_OF_SYMBOL": "sizes",
    "symbols.BOOL_TEXT": "sizes",
    "symbols.EXPECTED_SYMBOL": "broadcast",
    "symbols.FLOAT_OF_SYMBOL": "float",
    "symbols.FLOAT_TEXT": "sizes",
    "symbols.INT_OF_SYMBOL": "sizes",
    "symbols.INT_TEXT": "sizes",
    "symbols.LINSPACE": "sizes",
    "symbols.NEW_TENSOR": "sizes",
    "symbols.PAD": "sizes",
    "symbols.ROUND": "sizes",
    "symbols.OVERLAP": "copied",
    "symbols.UNIQUE_SHAPES": "different",
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
        if torch.compiler.is_dynamo_compiling():  # it traces this
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
    seen = []

    def look(model: Model, x: torch.Tensor) -> torch.Tensor:
        proxies: Any = exporting.proxies
        seen.append((getattr(proxies, exporting.CURRENT_TRACER), vars(proxies)[exporting.CURRENT_TRACER]))
        return x + 1

    capture(Model(look), (X,))
    assert any(here is not None and elsewhere is None for here, elsewhere in seen)


def test_sizes_are_numbers_to_the_model() -> None:
    kinds = []

    def look(model: Model, x: torch.Tensor) -> torch.Tensor:
        kinds.append((type(x.shape[0]), isinstance(x.shape[0], int)))
        return x + 1

    for how in ("export", "trace"):
        capture(Model(look), (X,), how=how, dynamic_axes={"args_0": {0: "n"}})
    assert set(kinds) == {(torch.SymInt, True)}


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


def failure_of_export(model: nn.Module, *args: Any, **options: Any) -> Exception:
    with pytest.raises(Exception) as caught:  # noqa: PT011 - torch raises errors of many kinds
        torch.export.export(model, args, strict=False, **options)
    return caught.value


def test_message_of_an_axis_that_becomes_a_constant() -> None:
    axes = {"args": ({0: torch.export.Dim.DYNAMIC},)}
    error = failure_of_export(Model(lambda _, x: x.view(4, 3)), X, dynamic_shapes=axes)
    assert messages.fixed_size(error) in [("args_0", "0", None, "4"), ("args", "0", None, "4")]


def test_message_of_a_dim_that_becomes_a_constant() -> None:
    axes = {"args": ({0: torch.export.Dim("rows")},)}
    error = failure_of_export(Model(lambda _, x: x.view(4, 3)), X, dynamic_shapes=axes)
    assert messages.fixed_size(error) is not None


def test_message_of_sizes_as_texts() -> None:
    sizes: Any = ["rows"]
    with pytest.raises(TypeError) as caught:
        torch._C.TensorType.get().with_sizes(sizes)
    assert messages.is_of_sizes_as_texts(caught.value)


@pytest.mark.parametrize("of_size", [lambda n: torch.tensor(np.arange(n)), np.exp])
def test_messages_of_sizes_in_numpy(of_size: Any) -> None:
    axes = {"args": ({0: torch.export.Dim("rows")},)}
    error = failure_of_export(Model(lambda _, x: x * of_size(x.shape[0])), X, dynamic_shapes=axes)
    assert messages.is_of_sizes_in_numpy(error)


def test_a_message_of_autograd_without_a_graph() -> None:
    with pytest.raises(RuntimeError) as caught:
        torch.autograd.grad(torch.ones(1).sum(), torch.ones(1))
    assert messages.lacks_gradients(caught.value)
    assert not messages.lacks_gradients(RuntimeError("another"))


def test_errors_in_each_others_contexts() -> None:
    error, other = RuntimeError("another"), ValueError("of the second attempt")
    error.__context__, other.__context__ = other, error
    assert not messages.lacks_gradients(error)


def test_messages_with_advice() -> None:
    error = failure_of_export(Model(lambda _, x: x if x.sum() > 0 else -x), X)
    for advice in ("For more information", "The error above occurred"):
        assert f"\n{advice}" in str(error)
        assert advice not in messages.without_advice(str(error))
    assert "Could not guard on data-dependent expression" in messages.without_advice(str(error))


def test_message_of_a_branch_on_data() -> None:
    error = failure_of_export(Model(lambda _, x: x if x.sum() > 0 else -x), X)
    assert isinstance(error, symbols.GuardOnDataDependentSymNode)
    assert messages.is_branch_on_data(error)
    assert not messages.is_branch_on_data(RuntimeError("another"))


def test_message_of_a_branch_on_data_in_torchscript() -> None:
    def branching(x: torch.Tensor) -> torch.Tensor:
        if bool(x.sum() > 0):
            return x + 1
        return x - 1

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scripted = torch.jit.script(branching)
    with (
        FakeTensorMode(shape_env=symbols.ShapeEnv()) as mode,
        torch.jit.optimized_execution(False),
        pytest.raises(RuntimeError) as caught,
    ):
        scripted(mode.from_tensor(X))
    assert not isinstance(caught.value, symbols.GuardOnDataDependentSymNode)
    assert messages.is_branch_on_data(caught.value)


def test_warning_of_assigned_attributes() -> None:
    model = Model(of_attributes)
    model.latest, model.counter = torch.zeros(4, 3), 0
    with pytest.warns(UserWarning, match="latest") as caught:
        torch.export.export(model, (X,), strict=False)
    assert any(messages.is_of_assigned_attributes(str(warning.message)) for warning in caught)


def test_stack_of_cpp_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    program = "import torch; torch.ones(2) + torch.ones(3)"
    monkeypatch.setenv("TORCH_SHOW_CPP_STACKTRACES", "1")  # which torch reads once
    failed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False).stderr
    text = failed[failed.index("RuntimeError: ") :]
    assert "\nException raised from " in text
    assert messages.without_advice(text).count("\n") == 0


def test_stack_traces_of_nodes() -> None:
    program = torch.export.export(nn.Sequential(nn.Linear(3, 3)), (X,), strict=False)
    (node,) = (each for each in program.graph.nodes if each.target is torch.ops.aten.linear.default)
    outer, inner = messages.frames_of(node.stack_trace)
    files = [sys.modules[kind.__module__].__file__ for kind in (nn.Sequential, nn.Linear)]
    assert [outer[0], inner[0]] == files
    code = nn.Linear.forward.__code__
    assert code.co_firstlineno < inner[1] < code.co_firstlineno + 10
    assert inner[2] == code.co_name


class Pair(NamedTuple):
    both: tuple[int, int]
    rows: torch.Tensor


def of_containers(x: torch.Tensor) -> Any:
    with torch.no_grad():
        pair = Pair((1, 2), x.T)
    sizes = {"a": [size_of(x)]}
    return pair, sizes.keys(), (x, x)


def size_of(x: torch.Tensor) -> int:
    return x.size(0)


@functools.cache
def nodes_of(function: Callable[..., Any], kind: str) -> list[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        graph = torch.jit.script(function).graph
    return [node for node in graph.nodes() if node.kind() == kind]


def test_torchscript_prints_the_fields_of_named_tuples() -> None:
    made = [torchscript_texts.named_tuple_of(node) for node in nodes_of(of_containers, "prim::TupleConstruct")]
    assert ("Pair", ("both", "rows")) in made
    assert None in made


def test_torchscript_prints_the_types_of_values() -> None:
    containers = [*nodes_of(of_containers, "prim::DictConstruct"), *nodes_of(of_containers, "prim::ListConstruct")]
    (mode,) = nodes_of(of_containers, "prim::CreateObject")
    assert [torchscript_texts.is_container(node.output()) for node in containers] == [True, True]
    assert not torchscript_texts.is_container(mode.output())
    assert torchscript_texts.is_no_grad(mode.output())
    assert not torchscript_texts.is_no_grad(containers[0].output())


def test_torchscript_prints_the_names_of_functions() -> None:
    (node,) = (node for node in nodes_of(of_containers, "prim::CallFunction"))
    name = torchscript_texts.function_in(next(iter(node.inputs())))
    assert torchscript.function_named(name).name == "size_of"


def test_torchscript_prints_schemas() -> None:
    (keys,) = nodes_of(of_containers, "aten::keys")
    (size,) = nodes_of(of_containers, "aten::numpy_T")
    (made,) = nodes_of(of_containers, "prim::DictConstruct")
    assert torchscript_texts.returns_container(torchscript_texts.schema_line(keys))
    assert torchscript_texts.schema_line(size) == "aten::numpy_T(Tensor(a) self) -> Tensor(a)"
    assert not torchscript_texts.returns_container(torchscript_texts.schema_line(size))
    assert torchscript_texts.schema_line(made) == ""


def test_torchscript_prints_the_lines_of_nodes() -> None:
    code = of_containers.__code__
    (keys,) = nodes_of(of_containers, "aten::keys")
    ((file, line, function),) = torchscript_texts.lines_of(keys, "f")
    assert (file, function) == (__file__, "f")
    assert code.co_firstlineno < line <= code.co_firstlineno + 5
    (property_of_tensor,) = nodes_of(of_containers, "aten::numpy_T")
    assert "<string>" in str(property_of_tensor.sourceRange())
    assert torchscript_texts.lines_of(property_of_tensor, "f") == []


def test_torchscript_prints_the_frames_of_traced_nodes() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced = torch.jit.trace(of_compiled, X)
    view = next(node for node in traced.graph.nodes() if node.kind() == "aten::view")
    code = of_compiled.__code__
    innermost = torchscript_texts.lines_of(view, "")[0]
    assert innermost == (code.co_filename, code.co_firstlineno + 1, code.co_name)


def test_torchscript_prints_the_lines_of_loaded_nodes(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.script(nn.Linear(1, 1)).save(tmp_path / "model.pt")
        loaded = torch.jit.load(tmp_path / "model.pt")
    (linear,) = (node for node in loaded.graph.nodes() if node.kind() == "aten::linear")
    places = torchscript_texts.lines_of(linear, "forward")
    assert places[0][0] == sys.modules[nn.Linear.__module__].__file__
