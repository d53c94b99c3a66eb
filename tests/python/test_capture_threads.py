"""A capture's replacements in torch and Python act only in the capturing thread, and only while it runs."""

from __future__ import annotations

import builtins
import contextlib
import inspect
import math
import subprocess
import sys
import tempfile
import threading
import types
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._dynamo.eval_frame
import torch._higher_order_ops.utils
import torch.export._trace
import torch.fx._lazy_graph_module
import torch.fx._symbolic_trace
import torch.fx.proxy
import torch.nn.attention.flex_attention
from seen import Seen
from torch import nn
from torch._decomp import decomposition_table
from torch._functorch._aot_autograd import frontend_utils
from torch._library.fake_impl import FakeImplHolder
from torch.fx.experimental import proxy_tensor
from torch.fx.experimental.sym_node import SymNode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.nn.utils import rnn
from torch.onnx._internal.exporter import _flags

import opbridge
import opbridge.capture
from opbridge import InvalidArgumentError, UnsupportedError
from opbridge.capture.environment import enter_inference
from opbridge.capture.patching import ByThread, patch_attributes, patch_items

flex = sys.modules["torch.nn.attention.flex_attention"]
try:
    import torchvision.models.detection
except ImportError:
    OF_TORCHVISION: list[Any] = []
else:
    roi_heads = sys.modules["torchvision.models.detection.roi_heads"]
    OF_TORCHVISION = [
        *[(roi_heads, name) for name in ("paste_masks_in_image", "heatmaps_to_keypoints")],
        (torchvision.ops, "batched_nms"),
        (torchvision.ops.boxes, "batched_nms"),
    ]
LSTM = torch.ops.aten.lstm.input
KERNEL = next(iter(LSTM.py_kernels))


@pytest.fixture
def elsewhere() -> Iterator[Callable[..., Any]]:
    """Calls a function in another thread."""
    with ThreadPoolExecutor(1) as pool:
        yield lambda function, *args: pool.submit(function, *args).result()


class Owner:
    def method(self) -> str:
        return f"method of {type(self).__name__}"

    @staticmethod
    def static() -> str:
        return "static"

    @property
    def value(self) -> str:
        return "value"


class Heir(Owner): ...


def test_a_replacement_holds_in_one_thread(elsewhere: Any) -> None:
    def seen() -> tuple[Any, ...]:
        return Heir().method(), Heir.static(), Heir().value, Owner().method()

    before = seen()
    new = {
        "method": lambda self: "other",
        "static": staticmethod(lambda: "other"),
        "value": property(lambda _: "other"),
    }
    with patch_attributes(Heir, **new):
        assert seen() == ("other", "other", "other", "method of Owner")
        assert elsewhere(seen) == before
    assert seen() == before
    assert not {"method", "static", "value"} & set(vars(Heir))
    with pytest.raises(KeyError), patch_attributes(Heir, method=lambda self: "other"):
        raise KeyError
    assert seen() == before


def test_flags_and_functions_of_modules(elsewhere: Any) -> None:
    module = types.ModuleType("module")
    exec("flag = False\ndef is_set(): return flag\ndef length(x): return len(x)", vars(module))
    with patch_attributes(module, flag=True, len=lambda x: 7):
        assert module.is_set()
        assert module.is_set() == True  # noqa: E712
        assert not elsewhere(lambda: bool(module.is_set()))
        assert (module.length("ab"), elsewhere(module.length, "ab")) == (7, 2)
        kept = module.is_set()
    assert not kept
    assert module.flag is False
    assert not hasattr(module, "len")
    table = {"a": len}
    with patch_items(table, {"a": lambda x: 7}):
        assert (table["a"]("ab"), elsewhere(lambda: table["a"]("ab"))) == (7, 2)
    assert table == {"a": len}


def test_replacing_what_is_not_there_is_an_error() -> None:
    reason = r"has no 'torch\.onnx\.no_such_thing', which opbridge needs; this opbridge supports torch"
    with pytest.raises(UnsupportedError, match=reason), patch_attributes(torch.onnx, no_such_thing=1):
        pass
    with (
        pytest.raises(UnsupportedError, match=r"has no 'LSTM\.no_such_thing'"),
        patch_attributes(nn.LSTM, no_such_thing=1),
    ):
        pass


# The replacements, by the captures that use them: "static" and "dynamic" exports, a "trace", or all of them.
EVERY = [
    *[(torch.compiler, name) for name in ("_is_compiling_flag", "_is_exporting_flag", "_compile_session_context")],
    (_flags, "_is_onnx_exporting"),
    (torch._ops, "mode_stack_state_for_pre_dispatch"),
    (type(torch.autograd.Function), "__getattribute__"),
    (FakeImplHolder, "kernel"),
    (rnn, "_VF"),
    (nn.RNNBase, "check_forward_args"),
    *[(kind, "forward") for kind in (nn.LSTM, nn.GRU, nn.RNN)],
    *[(kind, "forward") for kind in (nn.MultiheadAttention, nn.TransformerEncoderLayer, nn.TransformerEncoder)],
    (torch, "_native_multi_head_attention"),
    *[(flex, n) for n in ("flex_attention_hop", "_create_empty_block_mask", "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG")],
    *OF_TORCHVISION,
    (decomposition_table, LSTM),
    (LSTM.py_kernels, KERNEL),
]
EXPORTED = [
    *[(torch.export._trace, name) for name in ("_compiling_state_context", "_ignore_backend_decomps", "print")],
    *[(torch.export._trace, name) for name in ("_override_builtin_ops", "make_fake_inputs")],
    (torch._higher_order_ops.utils, "_hop_compile_and_call"),
    (torch.export._trace, "register_buffer_assignment_hook"),
    (torch._C, "_select_conv_backend"),
    (torch.fx._symbolic_trace._Patcher, "patch_method"),
    (proxy_tensor, "_set_make_fx_tracer"),
    (frontend_utils, "warnings"),
    (torch.fx._lazy_graph_module, "_use_lazy_graph_module_flag"),
    (torch.fx.proxy, "CapturedTraceback"),
    (torch.fx.proxy.TracerBase, "_filter_traceback_frames"),
    *[(nn.Module, name) for name in ("__call__", "__getattr__")],
]
SIZES = [
    *[(SymNode, name) for name in ("guard_int", "guard_float", "guard_bool")],
    (ShapeEnv, "_set_replacement"),
    (torch, "linspace"),
]
TRACED = [
    *[(torch, "compile"), (torch._dynamo.eval_frame, "_stance"), (torch._ops.HigherOrderOperator, "__call__")],
    (torch._higher_order_ops.utils, "_hop_compile_and_call"),
]
BUILTINS = [*[(builtins, name) for name in ("len", "min", "max")]]


def item(owner: Any, name: Any) -> Any:
    """The attribute as it is in its class; for a replacement by thread, its value in this thread."""
    if isinstance(owner, dict):
        found = owner[name]
    elif isinstance(owner, type):
        found = inspect.getattr_static(owner, name)
    else:
        found = vars(owner).get(name) if name in vars(owner) else getattr(builtins, name)
    while isinstance(found, ByThread):
        found = found.current()
    return found


class Watched(nn.Module):
    """A model that looks at the replacements while it runs."""

    def __init__(self, look: Callable[[], None], uses_length: bool, fails: bool) -> None:
        super().__init__()
        self.look, self.uses_length, self.fails = staticmethod(look), uses_length, fails

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.look()
        if self.fails:
            raise KeyError("of the model's own")
        return x * len(x) if self.uses_length else x + 1


CASES = {
    "static export": ("export", False, [*EVERY, *EXPORTED]),
    "dynamic export": ("export", True, [*EVERY, *EXPORTED, *SIZES]),
    "static trace": ("trace", False, [*EVERY, *TRACED]),
    "dynamic trace": ("trace", True, [*EVERY, *SIZES, *TRACED]),
    "export with len": ("export", True, [*BUILTINS, (math, "pow")]),
    "trace with len": ("trace", True, BUILTINS),
}


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_replaced_in_the_capturing_thread_alone(case: str, fails: bool, elsewhere: Any) -> None:
    how, dynamic, places = CASES[case]
    names = [f"{getattr(owner, '__name__', 'a table')}.{name}" for owner, name in places]
    seen: list[Any] = []

    def look() -> None:
        seen[:] = [state(), elsewhere(state)]

    def state() -> list[Any]:
        return [item(*place) for place in places]

    before = state()
    axes = {"x": {0: "n"}} if dynamic else None
    model = Watched(look, case.endswith("len"), fails)
    with pytest.raises((InvalidArgumentError, KeyError)) if fails else contextlib.nullcontext():
        opbridge.capture.capture(model, (torch.rand(3, 2),), how=how, dynamic_axes=axes)
    here, there = seen
    if not fails:  # a failing model is run again, outside of torch.export
        assert [name for name, a, b in zip(names, here, before, strict=True) if a is b] == []
    assert [name for name, a, b in zip(names, there, before, strict=True) if a is not b] == []
    assert [name for name, a, b in zip(names, state(), before, strict=True) if a is not b] == []


def test_evaluation_mode_is_of_the_capturing_thread(elsewhere: Any) -> None:
    model = nn.Sequential(nn.Dropout(), nn.Linear(2, 2))
    seen = Seen()

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = model

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            modes = [(lambda: [m.training for m in self.modules()]), lambda: nn.ReLU().training]
            seen.put([mode() for mode in modes] + [elsewhere(mode) for mode in modes])
            self.train()
            assert self.inner[0].training
            return self.inner[1](x)

    outer = Model()
    outer.inner[1].eval()
    own = [True, True, True, False]
    for capture in ("export", "trace"):
        opbridge.capture.capture(outer, (torch.rand(1, 2),), how=capture)
        assert seen.taken()[-1] == [[False] * 4, True, own, True]
        assert [m.training for m in outer.modules()] == own
    assert "training" not in vars(nn.Module)
    assert not hasattr(nn.Module, "training")


def test_what_torch_keeps_by_thread(elsewhere: Any) -> None:
    """A capture sets these flags, and relies on them."""

    def seen() -> tuple[bool, ...]:
        config: Any = torch.fx.experimental._config
        optimized = torch._C._get_graph_executor_optimize()
        return (
            torch.is_grad_enabled(),
            optimized,
            config.backed_size_oblivious,
            torch.overrides._is_torch_function_mode_enabled(),
        )

    before = seen()
    config: Any = torch.fx.experimental._config
    mode = torch.overrides.TorchFunctionMode()
    with torch.no_grad(), torch.jit.optimized_execution(False), config.patch(backed_size_oblivious=True), mode:
        assert seen() == (False, False, True, True)
        assert elsewhere(seen) == before
    assert seen() == before


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x, y)
        return x * y

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        x, y = ctx.saved_tensors
        return gradient * y, gradient * x

    @staticmethod
    def symbolic(g: Any, x: Any, y: Any) -> Any:
        return g.op("Mul", x, y)


class Exponential(torch.autograd.Function):
    @staticmethod
    def forward(x: torch.Tensor) -> torch.Tensor:
        return x.exp()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: torch.Tensor) -> None:
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        return gradient * ctx.saved_tensors[0]

    @staticmethod
    def symbolic(g: Any, x: Any) -> Any:
        return g.op("Exp", x)


def activated(x: torch.Tensor) -> torch.Tensor:
    return torch.sin(x) * len(x) + torch.squeeze(x) + min(len(x), 2) + max(len(x), 7)


class Everything(nn.Module):
    """A model that uses the replaced functions."""

    def __init__(self, activation: Callable[[torch.Tensor], torch.Tensor], branches: bool) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(3, 3, 3, padding=1)
        self.lstm = nn.LSTM(3, 4, batch_first=True)
        self.linear = nn.Linear(4, 4)
        self.encoder = nn.TransformerEncoderLayer(4, 2, 8, 0.0, batch_first=True)
        self.activation, self.branches = activation, branches

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y, _ = self.lstm(self.convolution(x.transpose(1, 2)).transpose(1, 2))
        y = Exponential.apply(-Scaled.apply(self.linear(y), y).abs())
        y = self.activation(self.encoder(y, src_key_padding_mask=torch.zeros(x.shape[:2], dtype=torch.bool)))
        if self.training and not (torch.compiler.is_compiling() or torch.onnx.is_in_onnx_export()):
            y = y * math.pow(2, 3)
        if self.branches:
            y = torch.cond(x.sum() > 0, lambda t: t * 2, lambda t: t * 3, (y,))
        return y * len(x)


@pytest.mark.parametrize("branches", [False, True])
def test_training_goes_on_as_if_nothing_were_captured(branches: bool, tmp_path: Path) -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = Everything(torch.compile(activated, backend="eager", fullgraph=True), branches)
    start = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    batches = torch.rand(3, 4, 5, 3).unbind()

    def train() -> list[torch.Tensor]:
        model.load_state_dict(start)
        optimizer = torch.optim.SGD(model.parameters(), 1e-4)
        for batch in batches:
            optimizer.zero_grad()
            model(batch).square().mean().backward()
            optimizer.step()
        return [parameter.detach().clone() for parameter in model.parameters()]

    expected = train()
    ended, errors, runs = threading.Event(), [], 0

    def train_on() -> None:
        nonlocal runs
        while not ended.is_set():
            try:
                assert all(map(torch.equal, train(), expected))
            except Exception as error:
                errors.append(error)
            runs += 1

    thread = threading.Thread(target=train_on)
    thread.start()
    try:
        for i in range(6):
            axes = {"x": {0: "n", 1: "s"}} if i % 4 > 1 else None
            exported = Everything(torch.sin, branches)
            capture = ("export", "trace")[i % 2]
            path = tmp_path / "m.onnx"
            opbridge.export(exported, (torch.rand(4, 5, 3),), path, capture=capture, dynamic_axes=axes, verify=True)
    finally:
        ended.set()
        thread.join()
    assert errors == []
    assert runs > 0


def test_a_trace_elsewhere_ends_while_torch_compile_works_here(elsewhere: Any) -> None:
    """torch.compile reverts the patches of torch.fx and reapplies them at its end, those of other threads too."""
    fx: Any = torch.fx._symbolic_trace
    before = nn.Module.__call__
    trace = fx._new_patcher()
    elsewhere(lambda: trace.__enter__().patch_method(nn.Module, "__call__", lambda *_: None))
    try:
        with enter_inference(nn.ReLU()), fx._maybe_revert_all_patches():
            elsewhere(lambda: trace.__exit__(None, None, None))
        assert nn.Module.__call__ is before
    finally:
        nn.Module.__call__ = before  # type: ignore[method-assign]


def test_branches_elsewhere_end_after_a_capture(elsewhere: Any, tmp_path: Path) -> None:
    """torch.cond restores what it has cleared: the flag that torch.fx traces, which torch 2.13 has for all threads."""
    branches = torch._higher_order_ops.utils._set_compilation_env()
    compiled = torch.compile(torch.sin, backend="eager", fullgraph=True)

    def model(x: torch.Tensor) -> torch.Tensor:
        elsewhere(branches.__enter__)
        return x * 2

    opbridge.export(model, (torch.rand(3),), tmp_path / "model.onnx", capture="export")
    elsewhere(lambda: branches.__exit__(None, None, None))
    compiled(torch.rand(3))


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_models_are_answered_by_bools(capture: Any, tmp_path: Path) -> None:
    questions = torch.compiler.is_compiling, torch.compiler.is_exporting, torch.onnx.is_in_onnx_export
    seen = Seen()

    class Asking(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for question in questions:
                seen.put(question())
            return x + 1

    opbridge.export(Asking(), (torch.rand(2),), tmp_path / "model.onnx", capture=capture)
    answers = seen.taken()
    assert answers
    assert all(answer is True for answer in answers)
    assert all(question() is False for question in questions)


def test_dynamo_may_be_imported_while_a_model_is_captured() -> None:
    """Dynamo keeps in its tables the functions that it finds in torch when it is imported."""
    script = """if True:
        import sys, torch, opbridge
        assert "torch._dynamo" not in sys.modules
        opbridge.export(lambda x: x * 2, (torch.rand(2),), sys.argv[1], capture="trace", dynamic_shapes=({0: "n"},))
        from torch._dynamo.variables.torch import supported_ctx_manager_classes
        assert torch.fx.traceback.annotate in supported_ctx_manager_classes
    """
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-c", script, f"{folder}/model.onnx"], check=True)
