"""Distributions: their densities and other functions of parameters that are inputs."""

from __future__ import annotations

import pathlib
import warnings
from collections.abc import Callable

import onnxruntime
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
    "divergence of vectors": lambda x, p: of.kl_divergence(
        of.MultivariateNormal(x, torch.diag_embed(p.exp())), of.MultivariateNormal(p, torch.eye(3) * 2)
    ),
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


@pytest.mark.parametrize("capture", CAPTURES)
def test_a_dynamic_number_of_categories(capture: str, tmp_path: pathlib.Path) -> None:
    """Of which the distribution makes a float."""

    def density(x: torch.Tensor) -> torch.Tensor:
        return of.RelaxedOneHotCategorical(torch.tensor(0.5), logits=x).log_prob(x.softmax(-1))

    path = tmp_path / "model.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("error", opbridge.TraceWarning)
        opbridge.export(density, (torch.randn(4, 3),), path, capture=capture, dynamic_shapes=({0: "n", 1: "m"},))
    for rows, columns in ((1, 3), (4, 2), (5, 5), (2, 7)):
        opbridge.verify(path, density, (torch.randn(rows, columns),))


def test_checks_hold_outside_of_the_capture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of.Distribution, "_validate_args", True)  # Dynamo turns the checks off when it is imported
    opbridge.export(FUNCTIONS["normal"], (torch.randn(4, 3), torch.randn(4, 3)))
    with pytest.raises(ValueError, match="scale"):
        of.Normal(torch.zeros(1), -torch.ones(1))


def distance(sample: torch.Tensor, shares_below: torch.Tensor) -> float:
    """Kolmogorov and Smirnov's distance between a sample and its distribution, times the root of the sample's size."""
    order = sample.flatten().argsort()
    ranks = torch.arange(1, order.numel() + 1, dtype=torch.float64) / order.numel()
    return float((shares_below.flatten().double()[order] - ranks).abs().max()) * order.numel() ** 0.5


COUNT = 20000
FAR = 2.3  # exceeded with a probability of 5e-5


@pytest.mark.parametrize("capture", CAPTURES)
def test_gamma_distributions(capture: str, tmp_path: pathlib.Path) -> None:
    onnxruntime.set_seed(0)
    shapes = torch.tensor([0.05, 0.3, 1.0, 2.5, 40.0])

    def draw(a: torch.Tensor) -> dict[str, torch.Tensor]:
        return {
            "gamma": of.Gamma(a, 2 * a).rsample((COUNT,)),
            "double": torch._standard_gamma(a.double().expand(COUNT, 5)),
            "chi2": of.Chi2(a + 1).sample((COUNT,)),
            "beta": of.Beta(a, torch.ones(5)).rsample((COUNT,)),
            "dirichlet": of.Dirichlet(a).sample((COUNT,)),
            "student": of.StudentT(a + 5).sample((COUNT,)),
        }

    path = tmp_path / "model.onnx"
    opbridge.export(draw, (shapes,), path, capture=capture, random=True)
    expected = draw(shapes)
    made = opbridge.runtime.run(opbridge.session(path), {"a": shapes})
    drawn = dict(zip(expected, made, strict=True))
    for name, like in expected.items():
        assert (drawn[name].shape, drawn[name].dtype) == (like.shape, like.dtype), name
        assert drawn[name].isfinite().all(), name
    wide = shapes.double()
    for column, a in enumerate(wide):
        below = {
            "gamma": lambda x, a=a: torch.special.gammainc(a, x * 2 * a),
            "double": lambda x, a=a: torch.special.gammainc(a, x),
            "chi2": lambda x, a=a: torch.special.gammainc((a + 1) / 2, x / 2),
            "beta": lambda x, a=a: x**a,
        }
        for name, share in below.items():
            x = drawn[name][:, column].double()
            if a > 0.1 or name == "double":  # below, float32 rounds many numbers to its least or to 1
                assert distance(x, share(x)) < FAR, (name, float(a))
    total = wide.sum()
    share = wide / total
    deviation = (share * (1 - share) / (total + 1)).sqrt()
    mean, spread = drawn["dirichlet"].double().mean(0), drawn["dirichlet"].double().std(0)
    assert ((mean - share).abs() < 5 * deviation / COUNT**0.5).all()
    torch.testing.assert_close(spread, deviation, rtol=0.1, atol=0)
    torch.testing.assert_close(drawn["dirichlet"].sum(-1), torch.ones(COUNT))
    torch.testing.assert_close(drawn["student"].double().var(0), (wide + 5) / (wide + 3), rtol=0.15, atol=0)


def test_gamma_of_dynamic_sizes_and_extremes(tmp_path: pathlib.Path) -> None:
    onnxruntime.set_seed(0)
    path = tmp_path / "model.onnx"
    draw = lambda x: torch._standard_gamma(x)  # noqa: E731
    opbridge.export(draw, (torch.ones(3, 2),), path, dynamic_shapes=({0: "n"},), random=True)
    session = opbridge.session(path)
    name = session.get_inputs()[0].name
    [x] = opbridge.runtime.run(session, {name: torch.full((COUNT, 2), 0.7)})
    assert distance(x, torch.special.gammainc(torch.tensor(0.7).double(), x.double())) < FAR
    extremes = torch.tensor([[0.0, 1e-30], [1e8, 1e30]])
    [x] = opbridge.runtime.run(session, {name: extremes})
    assert (x[0] == torch.finfo().tiny).all()  # as in PyTorch
    torch.testing.assert_close(x[1], extremes[1], rtol=1e-3, atol=0)
    without = torch.tensor([[0.0, -0.0], [torch.nan, 0.0]])
    [x] = opbridge.runtime.run(session, {name: without})
    assert (x == torch.finfo().tiny).all()
    [x] = opbridge.runtime.run(session, {name: torch.full((1, 2), torch.inf)})
    assert (x == torch.inf).all()
