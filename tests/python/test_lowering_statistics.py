"""Order statistics and histograms."""

import math

import pytest
import torch
from lowering_check import check
from torch_versions import IS_BEFORE_2_15, since_torch_2_15

import opbridge

INTERPOLATIONS = ["linear", "lower", "higher", "midpoint", "nearest"]
X = [[1.0, 3.0, -2.0, 5.0, 4.0, 4.0], [0.5, 0.25, 7.0, -1.0, 2.0, 9.0], [1.0, 1.0, 1.0, 1.0, 1.0, 2.0]]


def quantiles(interpolation):
    how = {"interpolation": interpolation}
    q = torch.tensor([0.0, 0.3, 0.5, 1.0])
    return {
        f"{function.__name__}, {interpolation}, {name}": (lambda x, of=of, function=function: of(function, x))
        for function in (torch.quantile, torch.nanquantile)
        for name, of in {
            "all": lambda f, x: f(x, 0.4, **how),
            "along a dim": lambda f, x: f(x, 0.4, dim=0, **how),
            "kept": lambda f, x: f(x, 0.7, dim=-1, keepdim=True, **how),
            "several": lambda f, x: f(x, q.to(x.dtype), dim=1, **how),
        }.items()
    }


MEDIANS = {
    "nanmedian": torch.nanmedian,
    "nanmedian along a dim": lambda x: torch.nanmedian(x, 1).values,
    "nanmedian kept": lambda x: torch.nanmedian(x, 0, keepdim=True).values,
}


@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
def test_quantiles(interpolation):
    if interpolation == "nearest" and IS_BEFORE_2_15:
        pytest.skip("PyTorch rounds the ranks to float32")
    check(quantiles(interpolation), torch.tensor(X))


@pytest.mark.parametrize("opset", [13, 21])
def test_dynamic(opset):
    functions = MEDIANS | quantiles("linear")
    dynamic = [{1: torch.export.Dim.DYNAMIC}]
    check(functions, torch.tensor(X), opset=opset, dynamic=dynamic, also=[(torch.tensor(X)[:, :4].clone(),)])


def test_nan_and_infinity():
    x = torch.tensor([[1.0, math.nan, 3.0], [math.nan, math.nan, math.nan], [2.0, math.inf, -math.inf]])
    check(MEDIANS | quantiles("lower") | quantiles("nearest"), x)


def test_float64():
    check(MEDIANS | quantiles("linear"), torch.tensor(X, dtype=torch.float64))


def test_places_of_medians():
    check(lambda x: torch.nanmedian(x, 1), torch.tensor([[3.0, math.nan, 1.0, 2.0], [5.0, 4.0, 3.0, math.nan]]))


def test_histograms():
    functions = {
        "histc": lambda x: torch.histc(x, 5),
        "histc within bounds": lambda x: torch.histc(x, 4, -1, 3),
        "histc of what is all the same": lambda x: torch.histc(x * 0, 3),
    }
    check(functions, torch.tensor(X))


def test_bincount():
    functions = {
        "bincount": torch.bincount,
        "bincount of at least": lambda x: torch.bincount(x, minlength=9),
        "bincount by weight": lambda x: torch.bincount(x, weights=x / 2),
    }
    check(functions, torch.tensor([1, 0, 3, 3, 6]))


def test_quantiles_beside_infinities():
    inf = math.inf
    x = torch.tensor([[-inf, 1], [1, inf], [-inf, inf], [inf, inf], [1, 2]])
    check({str(q): lambda x, q=q: x.quantile(q, 1) for q in (0.25, 0.5, 0.75)}, x)


@since_torch_2_15("the result has another type")
def test_bincount_of_nothing_takes_any_weights():
    check(lambda x, w: torch.ops.aten.bincount(x, w, 3), torch.empty(0, dtype=torch.uint8), torch.ones(1, 1, 1))


def test_weights_that_fit_no_elements_are_refused():
    indices, weights = torch.empty(0, dtype=torch.int64), torch.ones(2, 1, 5)
    with pytest.raises(opbridge.UnsupportedError, match="weights with more or fewer dims"):
        check(lambda x, w: torch.bincount(x, w, 2), indices, weights, dynamic=[{0: "n"}, {}])
