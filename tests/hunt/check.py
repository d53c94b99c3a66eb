"""Runs a case in eager PyTorch, opbridge and ONNX Runtime, and judges the results."""

from __future__ import annotations

import atexit
import dataclasses
import functools
import pathlib
import re
import tempfile
import warnings
from collections.abc import Callable
from typing import Any

import onnx
import onnxruntime
import torch
from torch.utils import _pytree as pytree

import opbridge
from checking.errors import first_line, reason
from checking.tensors import real
from hunt.case import Case, widened_case
from hunt.eager import Rejected, Results, in_eager, kept_by
from hunt.forms import arguments_of, options_of
from hunt.judge import Referee, Verdict, judge
from opbridge import TraceWarning
from opbridge.errors import InvalidArgumentError, UnsupportedError
from opbridge.runtime import run, session

RIGHT, REFUSED, REJECTED, UNDETERMINED = "right", "refused", "rejected by eager", "undetermined"
WRONG, CRASH, INTERNAL, RUNTIME = "wrong", "crash", "internal error", "fails in ONNX Runtime"
_DOMAINS_OF_ONNX_RUNTIME = frozenset({"", "ai.onnx", "ai.onnx.ml", "com.microsoft"})
FAULTS = (WRONG, CRASH, INTERNAL, RUNTIME)
RESULTS = (RIGHT, UNDETERMINED, REFUSED, REJECTED, *FAULTS)


@dataclasses.dataclass(frozen=True)
class Outcome:
    """``kind`` classifies a failure: faults of the same operator and kind count as one."""

    result: str
    detail: str = ""
    kind: str = ""
    run: int = 0
    compared: int = 0  # the number of sets of inputs

    @property
    def is_fault(self) -> bool:
        return self.result in FAULTS


class _Differs(Exception):
    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome


def check(case: Case, stage: Callable[[str], None] = lambda _: None) -> Outcome:
    """Calls ``stage`` with "opbridge" when eager PyTorch's part is done, and with "referee" when it runs again."""
    try:
        reference = in_eager(case, 0)
    except Rejected as error:
        return Outcome(REJECTED, str(error))
    others: dict[int, Results] = {}
    for other in range(1, len(case.runs)):
        try:
            others[other] = in_eager(case, other)
        except Rejected:
            continue
    stage("opbridge")
    try:
        return _check(case, {0: reference} | others, stage)
    except _Differs as differs:
        return differs.outcome


def _check(case: Case, expected: dict[int, Results], stage: Callable[[str], None]) -> Outcome:
    path = _folder() / "model.onnx"
    model = case.module().eval()
    before = _state(model)
    try:
        if not export(case, model, path):
            # A warning has said that the exported model holds only for these values.
            expected = {0: expected[0]}
    except UnsupportedError as error:
        return Outcome(REFUSED, reason(error))
    except InvalidArgumentError as error:
        if case.settings.dynamic is None or "before it is made" in str(error):  # the caller's arguments are valid
            return Outcome(INTERNAL, first_line(error), kind_of(error))
        return Outcome(REFUSED, first_line(error))
    except Exception as error:
        return Outcome(INTERNAL, first_line(error), kind_of(error))
    if changed := _changed(before, _state(model)):
        return Outcome(WRONG, f"export leaves the model changed: {changed}", "state")
    try:
        running = _session(path)
    except Exception as error:
        return Outcome(RUNTIME, first_line(error), f"loading: {kind_of(error)}")
    verdicts = [_compare(case, running, which, results, stage) for which, results in expected.items()]
    if any(verdict is not None and verdict.undetermined for verdict in verdicts):
        return Outcome(UNDETERMINED)
    if any(verdict is not None and verdict.by_largest for verdict in verdicts) and not _is_narrow(case):
        # The largest difference to the result in float64 is no greater than that of eager mode: so it is rounding if
        # the case is right in float64.
        wide = check(widened_case(case))
        if wide.result == WRONG:
            return dataclasses.replace(wide, detail=f"in float64: {wide.detail}")
    return Outcome(RIGHT, compared=sum(verdict is not None for verdict in verdicts))


def _is_narrow(case: Case) -> bool:
    """Whether the case is in float64 already."""
    return widened_case(case) == case


def export(case: Case, model: torch.nn.Module, path: pathlib.Path) -> bool:
    """Exports the model. Returns whether it also holds for other values, that is, without a TraceWarning."""
    with torch.no_grad(), warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always", TraceWarning)
        args, kwargs = arguments_of(model, case.inputs())
        opbridge.export(
            model,
            args,
            path,
            kwargs=kwargs,
            capture=case.settings.capture,
            **options_of(model, len(case.runs[0]), case.settings.dynamic_shapes),
            opset_version=case.settings.opset,
            simplify=case.settings.simplify,
            mutations_as_outputs=True,
        )
    torch._dynamo.reset()
    return not any(issubclass(warning.category, TraceWarning) for warning in warned)


def _compare(
    case: Case, running: onnxruntime.InferenceSession, which: int, expected: Results, stage: Callable[[str], None]
) -> Verdict | None:
    """The verdict for one set of inputs; None if the model does not declare these sizes."""
    inputs = dict(zip([f"x{i}" for i in range(len(case.runs[0]))], case.inputs(which), strict=True))
    sizes: dict[str, int] = {}
    for value in running.get_inputs():
        if value.name not in inputs:
            raise _Differs(Outcome(WRONG, f"the model has an input {value.name}", "inputs"))
        if which and not _admits(case, value, inputs[value.name], sizes):
            return None
    feeds = {value.name: inputs[value.name] for value in running.get_inputs()}
    stage("opbridge")
    try:
        actual = run(running, feeds)
    except Exception as error:
        if refusal := re.search(r"opbridge::\w+: .*", str(error)):  # a refusal by a kernel of opbridge
            raise _Differs(Outcome(REFUSED, f"when it runs: {refusal[0]}")) from None
        raise _Differs(Outcome(RUNTIME, first_line(error), kind_of(error), which)) from None
    names = [value.name for value in running.get_outputs()]
    before = kept_by(case.module()) | dict(zip(inputs, case.inputs(which), strict=True))
    written = [name.removesuffix("_out") for name in names[len(expected.leaves) :]]
    if len(names) < len(expected.leaves) or any(name not in before for name in written):
        detail = f"{len(names)} outputs ({', '.join(names)}), PyTorch returns {len(expected.leaves)}"
        raise _Differs(Outcome(WRONG, detail, "count of outputs", which))
    if missing := [name for name in expected.after if name not in written]:
        raise _Differs(Outcome(WRONG, f"what it writes to {', '.join(missing)} is not returned", "writes", which))
    # Returned tensors that were not written to must be unchanged.
    wanted = expected.leaves + [
        expected.after[name] if name in expected.after else real(before[name]) for name in written
    ]
    stage("referee")
    verdict = judge(
        actual,
        wanted,
        Referee(case, which, [name for name in written if name in expected.after]),
        expected.random,
        expected.complex_leaves,
    )
    if not verdict.kind:
        if wrong := _undeclared(running, actual, sizes):
            raise _Differs(Outcome(WRONG, wrong, "declared shape", which))
        return verdict
    raise _Differs(Outcome(WRONG, verdict.detail, verdict.kind, which))


def _admits(case: Case, value: Any, tensor: torch.Tensor, sizes: dict[str, int]) -> bool:
    """Whether the model declares an input of these sizes; fills ``sizes`` with its names for sizes."""
    index = int(value.name[1:])
    dynamic = (case.settings.dynamic[index] if case.settings.dynamic else None) or {}
    shape = list(tensor.shape)
    declared = list(value.shape)
    if tensor.is_complex():
        declared = declared[:-1]
    for dim, (size, name) in enumerate(zip(shape, declared, strict=True)):
        if isinstance(name, int) and dim in dynamic and name != size:
            raise _Differs(Outcome(WRONG, f"dim {dim} of {value.name} is fixed at {name} silently", "fixed size"))
        if isinstance(name, str) and sizes.setdefault(name, size) != size:
            return False
    return True


def _undeclared(running: onnxruntime.InferenceSession, actual: list[torch.Tensor], sizes: dict[str, int]) -> str:
    """The output whose shape is not the declared one; empty if there is none."""
    for value, tensor in zip(running.get_outputs(), actual, strict=True):
        if value.shape is None:
            continue
        for size, name in zip(tensor.shape, value.shape, strict=False):
            if isinstance(name, str):
                name = sizes.get(name)
            if len(value.shape) != tensor.dim() or (name is not None and name != size):
                return f"{value.name} has the shape {tuple(tensor.shape)} and is declared as {value.shape}"
    return ""


def _session(path: pathlib.Path) -> onnxruntime.InferenceSession:
    """A session, with opbridge's operators only if the model has any: registering them takes longer than most cases."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    imported = onnx.load(path, load_external_data=False).opset_import
    if {opset.domain for opset in imported} <= _DOMAINS_OF_ONNX_RUNTIME:
        return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return session(path, sess_options=options)


@functools.cache
def _folder() -> pathlib.Path:
    """One temporary folder for all cases of this process."""
    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    return pathlib.Path(folder.name)


def _state(model: torch.nn.Module) -> list[Any]:
    kept = []
    for module in model.modules():
        for name, value in [*vars(module).items(), *module._buffers.items(), *module._parameters.items()]:
            kept.append((name, value, _snapshot(value)))
    return kept


def _snapshot(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, (list, tuple, dict, set)) and not isinstance(value, torch.Size):
        leaves = pytree.tree_leaves(list(value.items()) if isinstance(value, dict) else list(value))
        return [leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
    return value


def _changed(before: list[Any], after: list[Any]) -> str:
    if [name for name, *_ in before] != [name for name, *_ in after]:
        return "other attributes"
    for (name, value, old), (_, now, new) in zip(before, after, strict=True):
        if value is not now and not (isinstance(value, (int, float, str, bool)) and value == now):
            return f"{name} is another object"
        if not _alike(old, new):
            return name
    return ""


def _alike(old: Any, new: Any) -> bool:
    if type(old) is not type(new):
        return False
    if isinstance(old, list):
        return len(old) == len(new) and all(map(_alike, old, new))
    if isinstance(old, torch.Tensor):
        if old.dtype == new.dtype and old.is_floating_point() and old.itemsize == 1:  # few operators take float8
            old, new = old.float(), new.float()
        return old.dtype == new.dtype and torch.equal(
            old.nan_to_num(7) if old.numel() else old, new.nan_to_num(7) if new.numel() else new
        )
    return old is new or bool(old == new)


def kind_of(error: BaseException) -> str:
    """The text of an error without names, numbers and paths, which are specific to a case."""
    text = re.sub(r"/\S+", "…", first_line(error))
    text = re.sub(r"'[^']*'|\"[^\"]*\"|\[[^\]]*\]|\{[^}]*\}", "…", text)
    return re.sub(r"-?\d+(\.\d+)?", "N", text)[:160]
