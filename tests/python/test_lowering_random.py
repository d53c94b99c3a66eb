"""Random numbers: their distributions, shapes and types; each run and each call draws others."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from lowering_check import check
from torch import nn
from torch.export import Dim

import opbridge

P = torch.tensor([0.1, 0.2, 0.3, 0.4])
COLUMNS = 50


class Draws(nn.Module):
    def forward(self, x: torch.Tensor, p: torch.Tensor) -> dict[str, torch.Tensor]:
        n = x.shape[0]
        size = n, COLUMNS
        return {
            "rand": torch.rand(size),
            "rand again": torch.rand(size),
            "rand_like": torch.rand_like(x, dtype=torch.float64),
            "randn": torch.randn(size, dtype=torch.float64),
            "randn_like": torch.randn_like(x.half()),
            "randint": torch.randint(3, 9, size),
            "randint from 0": torch.randint(5, size, dtype=torch.int32),
            "randint_like": torch.randint_like(x, 2, 4),
            "normal of tensors": torch.normal(torch.full_like(x, -2), torch.full_like(x, 0.5)),
            "normal of the mean's type": torch.normal(torch.full_like(x, -2).half(), torch.full_like(x, 0.5)),
            "normal of a mean": torch.normal(torch.full_like(x, 3), 2.0),
            "normal of a deviation": torch.normal(1.0, torch.full_like(x, 0.1)),
            "normal": torch.normal(5.0, 0.1, size),
            "normal_": torch.empty(size).normal_(2, 4),
            "uniform_": torch.empty(size).uniform_(2, 4),
            "exponential_": torch.empty(size).exponential_(2.0),
            "log_normal_": torch.empty(size).log_normal_(-1, 0.3),
            "geometric_": torch.empty(size).geometric_(0.6),
            "random_": torch.empty(size, dtype=torch.bool).random_(),
            "random_ below an end": torch.empty(size, dtype=torch.int16).random_(7),
            "random_ of floating point": torch.empty(size, dtype=torch.bfloat16).random_().float(),
            "random_ in a range": torch.empty(size).random_(-3, 3).long(),
            "bernoulli": torch.bernoulli(p.expand(n, 4)),
            "bernoulli of a number": torch.bernoulli(x, 0.25),
            "bernoulli_": torch.empty(size).bernoulli_(0.3),
            "bernoulli_ of no number": torch.empty(size).bernoulli_(),
            "bernoulli_ of a tensor": torch.empty(n, 4).bernoulli_(p.expand(n, 4)),
            "multinomial": torch.multinomial(p.expand(n, 4), COLUMNS, replacement=True),
            "poisson": torch.poisson(x.abs() * 20),
            "poisson of a few": torch.poisson(torch.full_like(x, 0.7).half()),
            "binomial": torch.binomial(torch.full_like(x, 9), p[2:3]),
            "binomial of one count": torch.binomial(torch.full_like(x[0, :1], 9), p[2:3].expand(n, COLUMNS)),
            "gumbel_softmax": nn.functional.gumbel_softmax(x, hard=True),
        }


@pytest.mark.parametrize("opset", [13, 21])
@pytest.mark.parametrize("dynamic", [False, True])
def test_distributions(dynamic: bool, opset: int, tmp_path: pathlib.Path) -> None:
    torch.manual_seed(0)
    onnxruntime.set_seed(0)
    n = 400
    shapes = ({0: Dim.DYNAMIC}, None) if dynamic else None
    x = torch.randn(3 if dynamic else n, COLUMNS)
    opbridge.export(Draws(), (x, P), tmp_path / "model.onnx", dynamic_shapes=shapes, opset_version=opset)
    x = torch.randn(n, COLUMNS)
    made = opbridge.session(tmp_path / "model.onnx").run(None, {"x": x.numpy(), "p": P.numpy()})
    expected = Draws()(x, P)
    drawn: dict[str, Any] = {name: torch.from_numpy(a) for name, a in zip(expected, made, strict=True)}
    for name, like in expected.items():
        assert (drawn[name].shape, drawn[name].dtype) == (like.shape, like.dtype), name
        values, others = drawn[name].double(), like.double()
        deviation = float(others.std())
        assert abs(float(values.mean() - others.mean())) < 6 * deviation * (2 / values.numel()) ** 0.5, name
        assert abs(float(values.std()) / deviation - 1) < 0.1, name
        if not like.is_floating_point():
            assert set(drawn[name].flatten().tolist()) == set(like.flatten().tolist()), name
    assert (drawn["rand"] != drawn["rand again"]).any()
    shares = np.bincount(drawn["multinomial"].flatten(), minlength=4) / drawn["multinomial"].numel()
    np.testing.assert_allclose(shares, P.numpy(), atol=0.02)


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_distributions_without_moments(capture: Any, tmp_path: pathlib.Path) -> None:
    """Shares below some numbers."""

    class Heavy(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            numbers = torch.empty(20000)
            return (
                x + torch.ops.aten.cauchy(numbers, 3.0, 2.0),
                x + torch.ops.aten.geometric(numbers, 0.3),
                x.long() + torch.empty(20000, dtype=torch.int64).geometric_(0.3),
                x.to(torch.uint8) + torch.empty(20000, dtype=torch.uint8).random_(),
            )

    onnxruntime.set_seed(0)
    opbridge.export(Heavy(), (torch.zeros(1),), tmp_path / "model.onnx", capture=capture)
    made = opbridge.session(tmp_path / "model.onnx").run(None, {"x": np.zeros(1, np.float32)})
    heavy, count, integers, bytes_ = (torch.from_numpy(each) for each in made)
    shares = [(heavy < bound).double().mean() for bound in (1.0, 3.0, 5.0, 23.0)]
    np.testing.assert_allclose(shares, [0.25, 0.5, 0.75, 0.5 + np.arctan(10) / np.pi], atol=0.015)
    for drawn in (count, integers.float()):
        shares = [(drawn == number).double().mean() for number in (0, 1, 2, 3)]
        np.testing.assert_allclose(shares, [0, 0.3, 0.21, 0.147], atol=0.015)
    np.testing.assert_allclose([bytes_.double().mean(), bytes_.max()], [127.5, 255], rtol=0.02)


class OwnGenerator(nn.Module):
    def __init__(self, draw: Any) -> None:
        super().__init__()
        self.draw, self.generator = draw, torch.Generator().manual_seed(1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.draw(x, self.generator)


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize(
    "draw",
    [
        lambda x, generator: torch.randn(3, generator=generator),
        lambda x, generator: torch.bernoulli(x * 0.5, generator=generator),
        lambda x, generator: torch.empty(3).normal_(generator=generator),
        lambda x, generator: torch.poisson(x, generator),
    ],
    ids=["randn", "bernoulli", "normal_", "poisson"],
)
def test_generators_of_the_model_are_refused(capture: Any, draw: Any, tmp_path: pathlib.Path) -> None:
    """PyTorch repeats their numbers from the seed."""
    with pytest.raises(opbridge.UnsupportedError, match="draws from a generator of the model's own"):
        opbridge.export(OwnGenerator(draw), (torch.rand(3),), tmp_path / "model.onnx", capture=capture)


def test_all_integers_of_64_bits_are_refused(tmp_path: pathlib.Path) -> None:
    class Draw(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + torch.empty(3, dtype=torch.int64).random_()

    with pytest.raises(opbridge.UnsupportedError, match="give an end"):
        opbridge.export(Draw(), (torch.rand(3),), tmp_path / "model.onnx")


def test_without_replacement(tmp_path: pathlib.Path) -> None:
    def draws(p: torch.Tensor) -> Any:
        rare = torch.tensor([0.0, 1.0, 0.0, 1.0])
        return (
            torch.multinomial(p.expand(500, 4), 2),
            torch.multinomial(p, 4),
            torch.multinomial(rare, 2),
            torch.randperm(9),
        )

    onnxruntime.set_seed(0)
    opbridge.export(draws, (P,), tmp_path / "model.onnx")
    pairs, all_of_them, rare, permutation = opbridge.session(tmp_path / "model.onnx").run(None, {"p": P.numpy()})
    assert (pairs[:, 0] != pairs[:, 1]).all()
    np.testing.assert_allclose(np.bincount(pairs[:, 0], minlength=4) / 500, P.numpy(), atol=0.1)
    assert sorted(all_of_them) == [0, 1, 2, 3]
    assert sorted(rare) == [1, 3]
    assert sorted(permutation) == list(range(9))


def test_opsets_without_kernels_in_the_runtime_are_refused(tmp_path: pathlib.Path) -> None:
    class Noise(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + torch.rand_like(x)

    with pytest.raises(opbridge.UnsupportedError, match="opset_version=21"):
        opbridge.export(Noise(), (torch.rand(3),), tmp_path / "model.onnx", opset_version=22)
    program = opbridge.export(Noise(), (torch.rand(3),), tmp_path / "model.onnx", opset_version=22, target="onnx")
    assert "RandomUniform" in {node.op_type for node in program.model_proto.graph.node}


def test_randperm_without_a_type_is_refused(tmp_path: pathlib.Path) -> None:
    """torch's fake tensors declare float32, its kernel returns int64; ``torch.randperm`` always passes the type."""

    class Order(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.ops.aten.randperm.default(x.size(0), dtype=None) + 1

    with pytest.raises(opbridge.UnsupportedError, match="aten::randperm: the mapping gives int64"):
        opbridge.export(Order(), (torch.rand(3),), tmp_path / "model.onnx")


def test_nothing_is_drawn_with_any_probabilities() -> None:
    check(lambda x, p: torch.ops.aten.bernoulli.Tensor(x, p), torch.empty(2, 0, 3), torch.zeros(1, 2))


class Dropping(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        functional = nn.functional
        in_place = functional.dropout(x * 1, 0.5, training=True, inplace=True)
        some, mask = torch.native_dropout(x, 0.25, True)
        return (
            functional.dropout(x, 0.3, training=True),
            functional.dropout(x, 1.0, training=True),
            in_place,
            some,
            mask,
        )


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_dropout_is_random_where_the_user_says_so(capture: Any, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "model.onnx"
    opbridge.export(Dropping(), (torch.ones(9),), path, random=True, capture=capture, dynamic_shapes=({0: "n"},))
    session = opbridge.session(path)
    first, second = (session.run(None, {"x": np.ones(10000, np.float32)}) for _ in range(2))
    for values, kept in zip(first, (0.7, 0.0, 0.5, 0.75, 0.75), strict=True):
        assert abs(np.count_nonzero(values) / values.size - kept) < 0.03
        if values.dtype != bool and kept:
            assert np.unique(values) == pytest.approx([0, 1 / kept])
    assert (first[0] != second[0]).any()
    assert (first[4] == (first[3] != 0)).all()
    layers = nn.Sequential(nn.Linear(4, 4), nn.Dropout()).train()
    opbridge.export(layers, (torch.ones(3, 4),), path, random=True, training=True)
    with pytest.raises(opbridge.UnsupportedError, match="random=True"):
        opbridge.export(layers, (torch.ones(3, 4),), path, training=True)


@pytest.mark.parametrize("name", ["dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout"])
def test_dropout_of_channels_and_alpha_dropout(name: str, tmp_path: pathlib.Path) -> None:
    """The values and their shares are those of PyTorch, and channels are dropped as a whole."""
    functional: Any = getattr(nn.functional, name)
    sizes = {"dropout1d": (4,), "dropout3d": (1, 2, 2)}.get(name, (2, 2))
    x = torch.ones(20, 1000, *sizes)
    rows = ({0: "n"},)
    path = tmp_path / "m.onnx"
    opbridge.export(lambda x: functional(x, 0.3, True), (x[:3],), path, random=True, dynamic_shapes=rows)
    (actual,) = opbridge.session(path).run(None, {"x": x.numpy()})
    expected = functional(x, 0.3, True)
    assert np.unique(actual) == pytest.approx(expected.unique().numpy(), rel=1e-5)
    assert (actual == actual.max()).mean() == pytest.approx(0.7, abs=0.02)
    channels = actual.reshape(20, 1000, -1)
    assert (channels == channels[..., :1]).all() == (name != "alpha_dropout")
