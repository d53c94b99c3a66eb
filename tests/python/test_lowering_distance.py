"""Distances and similarities of vectors."""

import math

import pytest
import torch
from lowering_check import check
from torch.nn import functional as F

import opbridge

ORDERS = [0.0, 1.0, 2.0, 3.0, math.inf]


def of_order(p):
    return {
        f"pairwise_distance {p}": lambda a, b: F.pairwise_distance(a, b, p=p),
        f"dist {p}": lambda a, b: torch.dist(a, b, p=p),
        f"cdist {p}": lambda a, b: torch.cdist(a, b, p=p),
        f"pdist {p}": lambda a, b: F.pdist(a, p=p),
    }


SIMILARITIES = {
    "cosine_similarity": F.cosine_similarity,
    "cosine_similarity of dim 0": lambda a, b: F.cosine_similarity(a, b, dim=0),
    "cosine_similarity, short vectors": lambda a, b: F.cosine_similarity(a * 1e-9, b, dim=-1),
    "cosine_similarity along what is broadcast": lambda a, b: F.cosine_similarity(a[:1], b, dim=0),
    "renorm": lambda a, b: torch.renorm(a, 2, 0, 1.5),
    "renorm of order 1": lambda a, b: torch.renorm(b, 1, -1, 1.0),
}


@pytest.mark.parametrize("p", ORDERS)
def test_orders(p):
    torch.manual_seed(0)
    check(of_order(p), torch.randn(4, 5), torch.randn(4, 5))


@pytest.mark.parametrize("opset", [13, 17, 21])
def test_dynamic(opset):
    torch.manual_seed(0)
    rows = torch.export.Dim("rows", max=20)  # torch.cdist uses another algorithm for more
    functions = SIMILARITIES | {name: f for name, f in of_order(2.0).items() if "pdist" not in name}
    check(
        functions,
        torch.randn(3, 5),
        torch.randn(3, 5),
        opset=opset,
        dynamic=[{0: rows}, {0: rows}],
        also=[(torch.randn(6, 5), torch.randn(6, 5))],
    )


def test_batches():
    torch.manual_seed(0)
    check(torch.cdist, torch.randn(2, 1, 4, 3), torch.randn(5, 6, 3))
    check(lambda a, b: F.cosine_similarity(a, b, dim=-2), torch.randn(1, 2, 3), torch.randn(2, 1, 3))


def test_float64():
    torch.manual_seed(0)
    check(SIMILARITIES | of_order(2.0), torch.randn(3, 4, dtype=torch.float64), torch.randn(3, 4, dtype=torch.float64))


def test_no_pairs_of_integers() -> None:
    check(torch.ops.aten._pdist_forward, torch.ones(1, 2, dtype=torch.int64), dynamic=[{1: torch.export.Dim.DYNAMIC}])


def test_distances_from_a_vector() -> None:
    check(torch.ops.aten._euclidean_dist, torch.randn(3), torch.randn(4, 3))


def test_pairs_of_what_are_no_rows_are_refused() -> None:
    with pytest.raises(opbridge.UnsupportedError, match="two dims"):
        check(torch.ops.aten._pdist_forward, torch.rand(5, 1, 2))
