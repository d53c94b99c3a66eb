"""Gradients of scans and selections along an axis, and histograms."""

from __future__ import annotations

from collections.abc import Callable

import torch

from hunt.tensors import spec_of
from hunt.unchecked.drawing import Arguments, Draw


def _along_axis(d: Draw) -> tuple[list[int], int]:
    size = d.sizes(d.size(1, 3))
    return size, d.size(0, len(size) - 1)


def _cummaxmin_backward(d: Draw) -> Arguments:
    size, dim = _along_axis(d)
    x = d.tensor(*size, kinds=("normal",))
    indices = torch.cummax(x.make(), dim)[1]
    return {"grad": d.tensor(*size), "input": x, "indices": spec_of(indices), "dim": dim}


def _cumprod_backward(d: Draw) -> Arguments:
    size, dim = _along_axis(d)
    x = d.tensor(*size)
    return {"grad": d.tensor(*size), "input": x, "dim": dim, "output": spec_of(x.make().cumprod(dim))}


def _gather_backward(d: Draw) -> Arguments:
    size, dim = _along_axis(d)
    picked = [d.size() if axis == dim else d.size(1, n) for axis, n in enumerate(size)]
    return {
        "grad": d.tensor(*picked),
        "self": d.tensor(*size),
        "dim": dim,
        "index": d.indices(size[dim], *picked),
        "sparse_grad": False,
    }


def _index_select_backward(d: Draw) -> Arguments:
    size, dim = _along_axis(d)
    count = d.size()
    picked = [count if axis == dim else n for axis, n in enumerate(size)]
    return {"grad": d.tensor(*picked), "self_sizes": size, "dim": dim, "index": d.indices(size[dim], count)}


def _value_selecting_reduction_backward(d: Draw) -> Arguments:
    size, dim = _along_axis(d)
    keepdim = d.choice(True, False)
    left = [n for axis, n in enumerate(size) if axis != dim]
    kept = [1 if axis == dim else n for axis, n in enumerate(size)] if keepdim else left
    return {
        "grad": d.tensor(*kept),
        "dim": dim,
        "indices": d.indices(size[dim], *kept),
        "sizes": size,
        "keepdim": keepdim,
    }


def _histogramdd_from_bin_tensors(d: Draw) -> Arguments:
    d.dtype = d.choice(torch.float32, torch.float64)
    edges = [spec_of(d.positive(d.size(2, 4)).make().cumsum(0) - 1.3) for _ in range(2)]
    count = d.size(1, 6)
    weight = d.choice(None, d.tensor(count))
    return {"self": d.tensor(count, 2), "bins": edges, "weight": weight, "density": d.choice(True, False)}


RULES: dict[str, Callable[[Draw], Arguments]] = {
    "aten::_histogramdd_from_bin_tensors": _histogramdd_from_bin_tensors,
    "aten::cummaxmin_backward": _cummaxmin_backward,
    "aten::cumprod_backward": _cumprod_backward,
    "aten::gather_backward": _gather_backward,
    "aten::index_select_backward": _index_select_backward,
    "aten::value_selecting_reduction_backward": _value_selecting_reduction_backward,
}
