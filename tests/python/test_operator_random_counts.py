"""Numbers of the Poisson and the binomial distribution from uniform ones."""

from __future__ import annotations

import math

import numpy as np
import pytest
from operator_models import in_both_hosts, refused_by_both_hosts

import opbridge

SAMPLES = 40_000
UNIFORM = (np.arange(SAMPLES) + 0.5) / SAMPLES


@pytest.fixture(scope="module", autouse=True)
def _loaded() -> None:
    opbridge.load_operators()


def shares(numbers: np.ndarray) -> np.ndarray:
    assert (numbers == np.floor(numbers)).all()
    return np.bincount(numbers.astype(np.int64)) / len(numbers)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rate", [0.01, 0.75, 4.0, 37.5, 900.0])
def test_poisson(rate: float, dtype: type) -> None:
    rates = np.full(SAMPLES, rate, dtype)
    (numbers,) = in_both_hosts("poisson", {"rate": rates, "uniform": UNIFORM}, outputs=(dtype,))
    found = shares(numbers)
    exact = [math.exp(k * math.log(rate) - rate - math.lgamma(k + 1)) for k in range(len(found))]
    np.testing.assert_allclose(found, exact, atol=1.1 / SAMPLES)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("count", "prob"), [(1, 0.25), (7, 0.5), (40, 0.875), (500, 0.03125), (3, 0.999)])
def test_binomial(count: int, prob: float, dtype: type) -> None:
    inputs = {"count": np.full(SAMPLES, count, dtype), "prob": np.full(SAMPLES, prob, dtype), "uniform": UNIFORM}
    (numbers,) = in_both_hosts("binomial", inputs, outputs=(dtype,))
    found, p = shares(numbers), float(dtype(prob))
    exact = [math.comb(count, k) * p**k * (1 - p) ** (count - k) for k in range(len(found))]
    np.testing.assert_allclose(found, exact, atol=1.1 / SAMPLES)


def test_the_ends() -> None:
    rates = np.array([0.0, 1e9, 2.5, 1e-30])
    uniform = np.array([0.999, 0.5, 1 - 1e-16, 0.5])
    none, many, greatest, rare = in_both_hosts("poisson", {"rate": rates, "uniform": uniform}, outputs=(np.float64,))[0]
    assert (none, rare) == (0, 0)
    assert abs(many - 1e9) < 3e5
    assert greatest < 40
    inputs = {
        "count": np.array([5.0, 5.0, 0.0, -1.0, np.nan, np.nan, 0.0, 1e9]),
        "prob": np.array([0.0, 1.0, 0.5, 0.5, 0.5, 0.0, np.nan, 0.25]),
        "uniform": np.full(8, 0.75),
    }
    *few, many = in_both_hosts("binomial", inputs, outputs=(np.float64,))[0]
    np.testing.assert_array_equal(few, [0, 5, 0, 0, np.nan, 0, 0])
    assert abs(many - 0.25e9) < 2e5


@pytest.mark.parametrize("rate", [-1.0, 2e9, np.nan, np.inf])
def test_what_is_no_rate_is_refused(rate: float) -> None:
    inputs = {"rate": np.full(3, rate), "uniform": np.zeros(3)}
    refused_by_both_hosts("rates must be in the range", "poisson", inputs)


def test_too_many_trials_are_refused() -> None:
    inputs = {"count": np.full(3, 2e9), "prob": np.full(3, 0.5), "uniform": np.zeros(3)}
    refused_by_both_hosts("counts must be 1e9 at most", "binomial", inputs)


def test_other_shapes_are_refused() -> None:
    refused_by_both_hosts("rate and uniform", "poisson", {"rate": np.ones(3), "uniform": np.zeros(2)})
