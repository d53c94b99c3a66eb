"""Distributions: their densities and other functions of parameters that are inputs."""

from __future__ import annotations

import pathlib
import warnings
from collections.abc import Callable

import pytest
import torch
from torch import distributions as of

import opbridge

CAPTURES = ("export", "trace")
FUNCTIONS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "normal": lambda x, p: of.Normal(x, p.exp()).log_prob(p),
    "entropy": lambda x, p: of.Normal(x, p.exp()).entropy(),
    "diagonal": lambda x, p: of.Independent(of.Normal(x, p.exp()), 1).log_prob(p),
    "categorical": lambda x, p: of.Categorical(logits=x).log_prob(p.argmax(-1)),
    "bernoulli": lambda x, p: of.Bernoulli(logits=x).log_prob((p > 0).float()),
    "beta": lambda x, p: of.Beta(x.exp(), p.exp()).log_prob(x.sigmoid()),
    "divergence": lambda x, p: of.kl_divergence(of.Normal(x, p.exp()), of.Normal(p, x.exp())),
    "quantiles": lambda x, p: of.Laplace(x, p.exp()).icdf(p.sigmoid()),
    "squashed": lambda x, p: of.TransformedDistribution(
        of.Normal(x, p.exp()), [of.transforms.TanhTransform(cache_size=1)]
    ).log_prob(p.tanh() * 0.9),
    "mixture": lambda x, p: of.MixtureSameFamily(of.Categorical(logits=x), of.Normal(p, p.exp())).log_prob(x[:, 0]),
    "multivariate": lambda x, p: of.MultivariateNormal(x, scale_tril=torch.eye(3) * p.exp().mean()).log_prob(p),
}


@pytest.mark.parametrize("capture", CAPTURES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_densities(name: str, capture: str, tmp_path: pathlib.Path) -> None:
    function, path = FUNCTIONS[name], tmp_path / "model.onnx"
    inputs = torch.randn(4, 3), torch.randn(4, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error", opbridge.TraceWarning)
        opbridge.export(function, inputs, path, capture=capture, dynamic_shapes=({0: "n"}, {0: "n"}))
    for rows in (1, 4, 7):
        x, p = torch.randn(rows, 3), torch.randn(rows, 3)
        [y] = opbridge.runtime.run(opbridge.session(path), {"x": x, "p": p})
        torch.testing.assert_close(y, function(x, p), rtol=1e-4, atol=1e-4)


def test_checks_hold_outside_of_the_capture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of.Distribution, "_validate_args", True)  # Dynamo turns the checks off when it is imported
    opbridge.export(FUNCTIONS["normal"], (torch.randn(4, 3), torch.randn(4, 3)))
    with pytest.raises(ValueError, match="scale"):
        of.Normal(torch.zeros(1), -torch.ones(1))
