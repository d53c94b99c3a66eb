"""Reading and writing by index, against PyTorch."""

import onnxruntime
import pytest
import torch
from lowering_check import check, operators

import opbridge

DYNAMIC = torch.export.Dim.DYNAMIC
X = torch.arange(24.0).reshape(2, 3, 4)
OTHER = torch.arange(60.0).reshape(3, 5, 4)
I = torch.tensor([1, 0, -1])  # noqa: E741
J = torch.tensor([[0, 1], [1, -2]])
ROWS = torch.tensor([True, False])


def test_reading():
    check(
        {
            "int": lambda x: x[:, I],
            "ints": lambda x: x[I, I],
            "apart": lambda x: x[I, :, I],
            "behind": lambda x: x[:, I, I],
            "broadcast": lambda x: x[J, I[:2], :],
            "grid": lambda x: x[:, J[:, :1], I],
            "scalar": lambda x: x[torch.tensor(1), :, I],
            "index_select": lambda x: x.index_select(2, I.abs()),
            "gather": lambda x: x.gather(1, torch.tensor([[[0, 1, 2, 0]]])),
            "take": lambda x: x.take(torch.tensor([[0, 5], [-1, 3]])),
            "take_along_flat": lambda x: torch.take_along_dim(x, torch.tensor([[4, 2]])),
        },
        X,
        dynamic=({0: DYNAMIC, 1: DYNAMIC},),
        also=[(OTHER,)],
    )
    check(lambda x: torch.take_along_dim(x, torch.tensor([[[0], [2]]]), 1), X)


def test_masks():
    check(
        {
            "all": lambda x: x[x > 7],
            "rows": lambda x: x[x[:, 0, 0] > 0],
            "middle": lambda x: x[:, x[0, :, 1] > 2],
            "two": lambda x: x[x[:, :, 0] > 5],
            "last_two": lambda x: x[0][x[1] > 15],
            "with_int": lambda x: x[x[:, 0, 0] > -1, torch.tensor([0])],
            "with_none": lambda x: x[x[:, 0, 0] > -1, :, torch.tensor([2])],
            "select": lambda x: x.masked_select(x[0, 0] > 1),
            "nonzero": lambda x: (x > 3).nonzero(),
            "tuple": lambda x: (x > 3).nonzero(as_tuple=True),
            "argwhere": lambda x: torch.argwhere(x[0]),
            "where": lambda x: torch.where(x > 3),
            "half": lambda x: x.half().nonzero(),
            "none": lambda x: x[x > 1000],
        },
        X,
        dynamic=({0: DYNAMIC, 1: DYNAMIC},),
        also=[(OTHER,), (-X,)],
    )


def put(*index, value=-1.0, accumulate=False):
    def put_in(x):
        indices = [i(x) if callable(i) else i for i in index]
        return torch.ops.aten.index_put(x, indices, torch.as_tensor(value, dtype=x.dtype), accumulate)

    return put_in


def test_index_put():
    check(
        {
            "int": put(I),
            "last": put(None, None, I, value=[5.0, 6, 7]),
            "ints": put(I, I, value=[[1.0, 2, 3, 4]]),
            "apart": put(I, None, I, value=[[1.0], [2], [3]]),
            "column": put(None, J[:, :1], I, value=[[[1.0], [2]]]),
            "repeated": put(torch.tensor([1, 1, 0]), value=2, accumulate=True),
            "mask": put(lambda x: x > 4),
            "mask_adds": put(lambda x: x > 4, value=[3.0], accumulate=True),
            "rows": put(lambda x: x[:, 0, 0] > 2, value=[[[1.0, 2, 3, 4]]]),
            "middle": put(None, lambda x: x[0, :, 0] > 2, value=[1.0, 2, 3, 4]),
            "one_each": put(lambda x: x[:, 0, 0] > 20, I[:1], value=0.5),
            "more_axes": put(lambda x: x > 2, value=[[[[1.0]]]]),
        },
        X,
        dynamic=({0: DYNAMIC, 1: DYNAMIC},),
        also=[(OTHER,)],
    )


def test_assignments_through_masks():
    def add(x):
        x = x.clone()
        x[x > 5] += 1
        return x

    def compact(x):
        x = x.clone()
        x[x[:, :, 0] > 5] = torch.cumsum(x[x[:, :, 0] > 5], 0)
        return x

    def swap(x):
        x = x.clone()
        x[:, [0, 1]] = x[:, [1, 0]]
        return x

    check(
        {"add": add, "compact": compact, "swap": swap}, X, dynamic=({0: DYNAMIC, 1: DYNAMIC},), also=[(OTHER,), (-X,)]
    )


def assigned(index):
    def assign(x, value):
        x = x.clone()
        x[index(x)] = value
        return x

    return assign


@pytest.mark.parametrize(
    ("index", "value"),
    [
        (lambda x: ([0, 1, 0], [0, 1, 1]), torch.ones(1, 3, 4)),
        (lambda x: ([0, 1, 0], [0, 1, 1]), torch.ones(1, 1, 4)),
        (lambda x: x[:, :, 0] > 2, torch.ones(1, 1, 4)),
        (lambda x: x > 2, torch.ones(1, 1)),
    ],
)
def test_assigned_values_with_a_leading_axis_of_dynamic_size(index, value):
    check(assigned(index), X, value, dynamic=({0: DYNAMIC}, {0: DYNAMIC}), also=[(-X, value * 2)])


def test_a_mask_of_one_value_needs_no_indices():
    model = check(lambda x: x.masked_fill(x > 3, 0.0) + x.index_put((x > 3,), torch.tensor(2.0)), X)
    assert "NonZero" not in operators(model)


def test_scatter():
    index = torch.tensor([[[0, 2, 1, 0], [1, 1, 0, 2]]])
    unique = torch.tensor([[[0, 2, 1, 0], [1, 0, 0, 2]]])
    functions = {
        "src": lambda x: x.scatter(1, unique, x * 2),
        "value": lambda x: x.scatter(1, index, 5),
        "add": lambda x: x.scatter_add(1, index, x * 2),
        "add_old": lambda x: x.scatter(1, index, x * 2, reduce="add"),
        "multiply": lambda x: x.scatter(1, index, 2, reduce="multiply"),
        "index_add": lambda x: x.index_add(1, I[:2], x[:, :2], alpha=2),
        "index_copy": lambda x: x.index_copy(2, torch.tensor([3, 1]), x[:, :, :2]),
        "index_fill": lambda x: x.index_fill(1, I[:2], 9),
        "masked": lambda x: x.masked_scatter(x > 6, x * 2),
        "put": lambda x: x.put(torch.tensor([3, -1]), x[0, 0, :2]),
        "put_adds": lambda x: x.put(torch.tensor([3, 3]), x[0, 0, :2], accumulate=True),
        "without_dims": lambda x: x.sum().scatter(0, torch.tensor(0), x.mean()),
        "add_without_dims": lambda x: x.sum().index_add(0, torch.tensor([0]), x.mean()),
    }
    for kind in ("sum", "prod", "mean", "amax", "amin"):
        for include in (True, False):
            functions[f"{kind}_{include}"] = lambda x, kind=kind, include=include: x.scatter_reduce(
                1, index, x * 2, kind, include_self=include
            )
            if kind != "sum":
                functions[f"index_{kind}_{include}"] = lambda x, kind=kind, include=include: x.index_reduce(
                    1, torch.tensor([0, 2, 0]), x * 2, kind, include_self=include
                )
    check(functions, X - 7)
    nan = X.clone()
    nan[0, 0, 0] = nan[1, 2, 3] = float("nan")
    check({n: f for n, f in functions.items() if "am" in n}, nan)


def test_places_of_nothing_are_not_looked_at():
    beyond = torch.tensor([0, 9])
    functions = {
        "index_add": lambda x: x.index_add(1, beyond, x.new_zeros(0, 2, 2)),
        "index_copy": lambda x: x.index_copy(1, beyond, x.new_zeros(0, 2, 2)),
        "index_fill": lambda x: x.index_fill(1, beyond, 0.5),
        "index_put": lambda x: x.index_put((beyond, beyond), x.new_ones(())),
    }
    check({name: functions[name] for name in ("index_add", "index_copy", "index_fill")}, torch.zeros(0, 1, 2))
    check(functions["index_put"], torch.zeros(1, 1, 0))


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.float16, torch.uint8, torch.bool])
def test_other_element_types(dtype):
    index = torch.tensor([[[0, 2, 1, 0], [1, 1, 0, 2]]])
    functions = {
        "index_put": lambda x: x.index_put((I, I), x[0, 0]),
        "mask": lambda x: x.index_put((x > 1,), torch.ones((), dtype=dtype)),
        "adds": lambda x: x.index_put((torch.tensor([1, 1]),), torch.ones((), dtype=dtype), True),
        "scatter_add": lambda x: x.scatter_add(1, index, x),
        "index": lambda x: x[I, :, I],
        "where": lambda x: x[x > 1],
    }
    if dtype != torch.bool:
        functions |= {
            kind: lambda x, kind=kind: x.scatter_reduce(1, index, x, kind) for kind in ("mean", "amax", "prod")
        }
    check(functions, (X % 5).to(dtype))


def test_views():
    check(
        {
            "slice": lambda x: x.slice_scatter(x[:, :1] + 1, 1, 0, 1),
            "slice_end": lambda x: x.slice_scatter(x[:, -2:] + 1, 1, -2),
            "slice_step": lambda x: x.slice_scatter(x[:, :, 1:4:2] + 1, 2, 1, 9, 2),
            "slice_none": lambda x: x.slice_scatter(x[:, 5:], 1, 5),
            "slice_wide": lambda x: x.slice_scatter(x[:, :, :1] + 1, 2, 1, 2),
            "select": lambda x: x.select_scatter(x[:, 0] + 1, 1, -1),
            "select_first": lambda x: x.select_scatter(x[-1] + 1, 0, 0),
            "diagonal": lambda x: x.diagonal(),
            "diagonals": lambda x: (x.diagonal(1, -1, -2), x.diagonal(-1, 2, 1), x.diagonal(1), x.diagonal(7)),
            "diagonal_scatter": lambda x: x.diagonal_scatter(x.diagonal(-1, 1, 2) + 7, -1, 1, 2),
            "unfold": lambda x: x.unfold(2, 3, 1),
            "unfold_step": lambda x: x.unfold(-1, 2, 2),
        },
        X,
        dynamic=({0: DYNAMIC, 1: DYNAMIC},),
        also=[(OTHER,), (OTHER[:1],)],
    )
    check(
        {
            "as_strided": lambda x: x.as_strided((3, 2), (2, 5), 1),
            "overlap": lambda x: x.as_strided((4, 4), (1, 1)),
            "as_strided_scatter": lambda x: x.as_strided_scatter(torch.ones(3, 2), (3, 2), (2, 7), 1),
        },
        X,
    )


def test_older_opsets():
    functions = {"index": lambda x: x[I, :, I], "put": put(I, I), "slice": lambda x: x.slice_scatter(x[:, 1:], 1, 1)}
    check(functions, X, opset=13)
    check({"add": put(I, accumulate=True), **functions}, X, opset=17)


@pytest.mark.parametrize("size", [0, 2, 9])
def test_nonzero_static(size):
    functions = {
        "indices": lambda x: torch.nonzero_static(x, size=size),
        "filled": lambda x: torch.nonzero_static(x[0] > 1, size=size, fill_value=7),
        "of a number": lambda x: torch.nonzero_static(x[0, 0], size=size),
    }
    check(functions, torch.tensor([[0, 2, 0], [1, 0, 3]]), also=[(torch.ones(2, 3, dtype=torch.int64),)])


def test_indices_under_a_mask():
    indices = torch.tensor([0, 3, -9, 1])
    functions = {
        "read": lambda x, indices: torch.ops.aten._unsafe_masked_index(x, indices.abs() < 3, [indices, None], 5.0),
        "add": lambda x, indices: torch.ops.aten._unsafe_masked_index_put_accumulate(
            x, (indices.abs() < 3)[:, None], [indices, None], x[indices.clamp(-3, 2)]
        ),
    }
    check(functions, torch.randn(3, 4), indices)


def test_a_complex_mask_is_true_where_it_is_not_0(tmp_path):
    def added(x, mask, values):
        indices = [torch.tensor([[0], [2]]), torch.tensor([[1, 0, 1]])]
        mask, x, values = map(torch.view_as_complex, (mask, x, values))
        return torch.view_as_real(torch.ops.aten._unsafe_masked_index_put_accumulate(x, mask, indices, values))

    mask = torch.zeros(2, 3, 2)
    mask[0, 1, 1] = mask[1, 0, 0] = mask[1, 2] = 2.5
    args = torch.randn(3, 2, 2), mask, torch.randn(2, 3, 2)
    opbridge.export(added, args, tmp_path / "model.onnx", capture="trace")  # torch.export refuses the mask
    opbridge.verify(tmp_path / "model.onnx", added, args)


def test_writing_to_nothing():
    def write(x):
        x = x.clone() * 2
        x.scatter_(1, torch.zeros(2, 1, dtype=torch.int64), 3)
        x[..., 1::3] = x
        return x + 1

    check({"written": write, "expanded": lambda x: x.exp().expand(2, 0).mT}, torch.rand(2, 1))


def test_indices_beyond_what_has_no_elements():
    check(lambda x: (x[1:, [0, 1]], x[1:][:, torch.tensor([3])], x[:0, 0, [2, 2]]), torch.rand(1, 1, 1))


def test_take_along_dim_wraps_indices_around():
    function = {d: lambda x, at, d=d: torch.take_along_dim(x, at, d) for d in (0, -1)}
    check(function, torch.arange(6.0).reshape(3, 2), torch.tensor([[0, 4], [-7, 3], [100, -1]]))


def test_additions_at_equal_indices_are_not_lost(tmp_path):
    """ONNX Runtime's ScatterND adds with several threads, without a lock."""

    class Model(torch.nn.Module):
        def forward(self, index, source):
            zeros = torch.zeros(3, 8)
            return zeros.index_add(0, index, source), torch.index_put(zeros, (index,), source, accumulate=True)

    index, source = torch.randint(0, 3, (100_000,)), torch.ones(100_000, 8)
    opbridge.export(Model(), (index, source), tmp_path / "model.onnx")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 4
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx", options, providers=["CPUExecutionProvider"])
    inputs = {value.name: tensor.numpy() for value, tensor in zip(session.get_inputs(), (index, source), strict=True)}
    counts = torch.bincount(index, minlength=3)[:, None].expand(3, 8)
    for _ in range(20):
        for result in session.run(None, inputs):
            assert torch.equal(torch.from_numpy(result), counts.float())


def test_an_output_size_for_no_repetitions_is_refused(tmp_path):
    none, path = torch.zeros(0, dtype=torch.int64), tmp_path / "m.onnx"
    with pytest.raises(opbridge.UnsupportedError, match=r"gives int64\[0\], PyTorch gives int64\[6\]"):
        opbridge.export(lambda x: torch.repeat_interleave(x, output_size=6), (none,), path, capture="trace")
    check(torch.repeat_interleave, none)
