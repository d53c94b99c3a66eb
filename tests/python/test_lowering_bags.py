"""Embedding bags; unique elements."""

import onnx
import pytest
import torch
from lowering_check import check
from torch.export import Dim
from torch.nn import functional as F

import opbridge


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_embedding_bag(mode):
    torch.manual_seed(0)
    table, indices, offsets = torch.randn(10, 3), torch.tensor([1, 2, 4, 5, 4, 3, 2, 9]), torch.tensor([0, 4, 4, 6])
    functions = {
        "bags": lambda t, i, o: F.embedding_bag(i, t, o, mode=mode),
        "with the last offset": lambda t, i, o: F.embedding_bag(
            i, t, torch.cat([o, torch.full_like(o[:1], i.shape[0])]), mode=mode, include_last_offset=True
        ),
        "with padding": lambda t, i, o: F.embedding_bag(i, t, o, mode=mode, padding_idx=4),
        "with padding counted from the end": lambda t, i, o: F.embedding_bag(i, t, o, mode=mode, padding_idx=-1),
        "rows": lambda t, i, o: F.embedding_bag(i.reshape(-1, 2), t, mode=mode),
    }
    if mode == "sum":
        functions["weighted"] = lambda t, i, o: F.embedding_bag(
            i, t, o, mode=mode, padding_idx=2, per_sample_weights=i / 3.0
        )
    check(functions, table, indices, offsets)
    check(functions, table, indices.int(), offsets.int())
    check(functions, table, torch.tensor([4, 4, 4, 4]), torch.tensor([0, 2]))


@pytest.mark.parametrize("operator", ["_embedding_bag", "_embedding_bag_forward_only", "embedding_bag"])
@pytest.mark.parametrize("mode", [0, 1, 2])
def test_all_results_of_embedding_bag(operator, mode):
    torch.manual_seed(0)
    table, indices = torch.randn(6, 3).round(), torch.tensor([1, 2, 4, 5, 4, 3, 2, 0])

    def bags(padding, last, weighted=False):
        def function(table, indices, offsets):
            weights = indices / 3.0 if weighted else None
            if operator == "embedding_bag":
                padding_idx = padding if padding >= 0 else None
                call = torch.ops.aten.embedding_bag.padding_idx
                return call(table, indices, offsets, False, mode, False, weights, last, padding_idx)
            call = getattr(torch.ops.aten, operator)
            return call(table, indices, offsets, False, mode, False, weights, last, padding)

        return function

    functions = {"bags": bags(-1, False), "padding": bags(4, False)}
    if mode == 0:
        functions["weighted"] = bags(4, False, True)
    for dtype in (torch.int64, torch.int32):
        check(functions, table, indices.to(dtype), torch.tensor([0, 3, 3, 6], dtype=dtype))
    bags_to_last, padded_to_last = bags(-1, True), bags(4, True)
    last = {"bags": lambda *args: bags_to_last(*args)[0], "padding": lambda *args: padded_to_last(*args)[0]}
    check(last, table, indices, torch.tensor([0, 3, 3, 8]))


def test_indices_without_bags():
    """PyTorch writes out of bounds for other modes than the sum, and with padding."""

    def bags(table, indices, offsets):
        return torch.ops.aten._embedding_bag(table, indices, offsets)

    def but_the_first(table, indices, offsets):
        return bags(table, indices, offsets[1:])[0]

    table, indices, offsets = torch.randn(6, 3), torch.tensor([1, 4]), torch.tensor([0, 0, 0])
    check(bags, table, indices, offsets[:0])
    dynamic = [{}, {}, {0: Dim("n", min=1)}]
    check(but_the_first, table, indices, offsets, dynamic=dynamic, also=[(table, indices, offsets[:1])])


def test_bags_that_pytorch_leaves_out_against_its_own_shapes():
    def bags(table, indices, offsets):
        return torch.ops.aten._embedding_bag_forward_only(table, indices, offsets)

    args = torch.ones(6, 3, dtype=torch.bfloat16), torch.tensor([1, 2, 4]), torch.tensor([0, 1])
    check(lambda *args: bags(*args)[0], *args)
    with pytest.raises(opbridge.UnsupportedError, match="uses result 2 of 4"):
        check(lambda *args: bags(*args)[:2], *args)


UNIQUE = {
    "unique": torch.unique,
    "unique with all": lambda x: torch.unique(x, return_inverse=True, return_counts=True),
    "unique rows": lambda x: torch.unique(x, dim=0, return_inverse=True, return_counts=True),
    "consecutive": torch.unique_consecutive,
    "consecutive with all": lambda x: torch.unique_consecutive(x, return_inverse=True, return_counts=True),
    "consecutive rows": lambda x: torch.unique_consecutive(x, dim=0, return_inverse=True, return_counts=True),
}


@pytest.mark.parametrize("name", UNIQUE)
@pytest.mark.parametrize("dtype", [torch.int64, torch.float32, torch.uint8])
def test_unique(name, dtype):
    x = torch.tensor([[3, 3, 1], [3, 3, 1], [0, 2, 2]], dtype=dtype)
    check(UNIQUE[name], x, opset=13)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64])
def test_linspace_between_tensors(dtype):
    functions = {
        "linspace": lambda a, b: torch.linspace(a, b, 7, dtype=dtype),
        "from a number": lambda a, b: torch.linspace(1, b, 6, dtype=dtype),
        "to a number": lambda a, b: torch.linspace(a, 2.5, 1, dtype=dtype),
        "logspace": lambda a, b: torch.logspace(a, b, 4, base=2.0, dtype=dtype),
    }
    check(functions, torch.tensor(-1.5), torch.tensor(5.0))


@pytest.mark.skipif(
    torch.backends.cpu.get_cpu_capability() == "DEFAULT", reason="PyTorch fuses no products and sums on this processor"
)
@pytest.mark.parametrize(
    ("start", "end", "steps"), [(-6, 1, 22), (-6, -17, 34), (5, 1, 43), (0, 2**63 - 1, 50), (1, 5, 1)]
)
def test_linspace_of_integers_is_truncated_where_pytorch_truncates(start, end, steps):
    functions = {
        "constant": lambda a, b: torch.linspace(start, end, steps, dtype=torch.int64),
        "tensors": lambda a, b: torch.linspace(a, b, steps, dtype=torch.int64),
    }
    if end < 2**53:
        functions["logspace"] = lambda a, b: torch.logspace(a, b, steps, base=2.0, dtype=torch.int64)
    check(functions, torch.tensor(start), torch.tensor(end))


def test_bilinear():
    torch.manual_seed(0)
    functions = {
        "bilinear": lambda a, b, w: F.bilinear(a, b, w),
        "with bias": lambda a, b, w: F.bilinear(a, b, w, w[:, 0, 0]),
        "of vectors": lambda a, b, w: F.bilinear(a[0, 0], b[0, 0], w),
        "vdot": lambda a, b, w: torch.vdot(a[0, 0], a[0, 1]),
    }
    check(functions, torch.randn(2, 5, 3), torch.randn(2, 5, 4), torch.randn(6, 3, 4))


def test_sum_to_size():
    functions = {
        "sum_to_size": lambda x: x.sum_to_size(3, 1),
        "to the same": lambda x: x.sum_to_size(2, 3, 4),
        "to a number": lambda x: x.sum_to_size(1),
    }
    check(functions, torch.arange(24.0).reshape(2, 3, 4))


def test_one_hot_of_a_number():
    check(lambda x: F.one_hot(x, 5), torch.tensor(3))


@pytest.mark.parametrize("order", [1.0, 2.0, 3.5])
def test_rows_of_bounded_length(order):
    check(
        lambda table, indices: torch.ops.aten.embedding_renorm(table, indices, 1.5, order),
        torch.randn(6, 4),
        torch.tensor([[0, 5], [2, 5]]),
    )


@pytest.mark.parametrize("capture", ["trace", "export"])
def test_shape_of_different_slices_along_the_last_dim(capture, tmp_path):
    """torch's own shape of the result has too many dims."""

    class Different(torch.nn.Module):
        def forward(self, x):
            return torch.unique_consecutive(x, dim=-1).sum(-1) * 2

    path, x = tmp_path / "model.onnx", torch.tensor([[[1.0, 1.0, 2.0], [3.0, 3.0, 4.0]]])
    opbridge.export(Different(), (x,), path, capture=capture, verify=True)
    (output,) = onnx.load(path).graph.output
    assert len(output.type.tensor_type.shape.dim) == 2


def test_different_slices_of_numbers_beside_nan():
    """NaN differs from every number and from itself; ONNX Runtime's Unique takes it as equal to every number."""
    nan = float("nan")
    check(lambda x: torch.unique(x, dim=0), torch.tensor([[0.0], [nan]]))
    rows = torch.tensor([[2.0, -1.5], [0.0, 3.0], [2.0, -1.5], [-0.0, 3.0], [2.0, -2.0]])
    functions = {
        "rows": lambda x: torch.unique(x, dim=0, return_inverse=True, return_counts=True),
        "columns": lambda x: torch.unique(x, dim=-1, return_inverse=True),
    }
    check(functions, rows)
    check(functions, rows.half())
