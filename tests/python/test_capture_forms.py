"""Models in various forms: compiled, wrapped, pruned, in training mode, C functions."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.fx._symbolic_trace import is_fx_tracing
from torch.nn.utils import parametrizations, prune

import opbridge

pytestmark = pytest.mark.filterwarnings("ignore:.*weight_norm.*:FutureWarning")

X = torch.randn(2, 8)


def layers(*more: nn.Module) -> nn.Sequential:
    return nn.Sequential(nn.Linear(8, 8), nn.ReLU(), *more)


def pruned() -> nn.Module:
    model = layers()
    prune.l1_unstructured(model[0], "weight", 0.5)
    return model


def hooked() -> nn.Module:
    model = layers()
    model[0].register_forward_hook(lambda module, args, output: output * 2)
    model.register_forward_pre_hook(lambda module, args: (args[0] + 1,))
    return model


class PartlyCompiled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = layers()

    @torch.compile(backend="eager")
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.layers(x)
        return y + 1


class Disabled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = layers()

    @torch.compiler.disable(recursive=False)
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.layers(x)
        return y + 1


FORMS: dict[str, Callable[[], Any]] = {
    "compiled": lambda: torch.compile(layers(), backend="eager"),
    "compiled within": PartlyCompiled,
    "disabled for compilation": Disabled,
    "asks whether torch.fx traces": lambda: lambda x: x - 1 if is_fx_tracing() else x + 1,
    "data parallel": lambda: nn.DataParallel(layers()),
    "weight norm": lambda: parametrizations.weight_norm(nn.Linear(8, 4)),
    "older weight norm": lambda: nn.utils.weight_norm(nn.Linear(8, 4)),
    "spectral norm": lambda: parametrizations.spectral_norm(nn.Linear(8, 4)),
    "orthogonal": lambda: parametrizations.orthogonal(nn.Linear(8, 8)),
    "pruned": pruned,
    "hooked": hooked,
    "in training mode": lambda: layers(nn.Dropout(0.5), nn.BatchNorm1d(8)).train(),
    "function of C": lambda: torch.nn.functional.logsigmoid,
}


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize("form", FORMS)
def test_forms(form: str, capture: str, tmp_path: pathlib.Path) -> None:
    torch.manual_seed(0)
    model = FORMS[form]()
    if isinstance(model, nn.Module) and form != "in training mode":
        model.eval()
    before = [module.training for module in model.modules()] if isinstance(model, nn.Module) else []
    opbridge.export(model, (X,), tmp_path / "model.onnx", verify=True, capture=capture)
    assert before == ([module.training for module in model.modules()] if before else [])


def test_a_lazy_module_is_refused_before_it_has_run(tmp_path: pathlib.Path) -> None:
    model = nn.Sequential(nn.LazyLinear(4), nn.ReLU())
    with pytest.raises(opbridge.InvalidArgumentError, match=r"'0' \(LazyLinear\).*call it once"):
        opbridge.export(model, (X,), tmp_path / "model.onnx")
    model(X)
    opbridge.export(model, (X,), tmp_path / "model.onnx", verify=True)
