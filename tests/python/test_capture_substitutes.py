"""Functions of torch that read data are exported without reading it."""

import pytest
import torch
from lowering_check import check
from torch.nn import functional as F
from torch.onnx.operators import reshape_from_tensor_shape, shape_as_tensor

import opbridge


def test_whole_tensors_compared():
    x = torch.tensor([1.0, 2.0, float("nan")])
    also = [(x.nan_to_num(), x.nan_to_num()), (x.nan_to_num(), x.nan_to_num() + 1e-9)]
    check(
        {
            "equal": torch.equal,
            "method": lambda x, y: x.equal(y),
            "of different shapes": lambda x, y: torch.equal(x, y[:2]),
            "allclose": torch.allclose,
            "with NaN": lambda x, y: x.allclose(y, 1e-3, equal_nan=True),
        },
        x,
        x.clone(),
        also=also,
    )


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_shapes_in_tensors(tmp_path, capture, dynamic):
    """The functions of torch.onnx.operators, also as the size that an operator needs."""

    def model(x):
        shape = shape_as_tensor(x)
        k = shape[1].clamp(max=3)
        return shape, torch.topk(x, k, dim=1)[0], reshape_from_tensor_shape(x, shape.flip(0))

    path, x = tmp_path / "m.onnx", torch.rand(2, 5)
    sizes = ({0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC},) if dynamic else None
    opbridge.export(model, (x,), path, capture=capture, dynamic_shapes=sizes)
    for other in (x, torch.rand(3, 2), torch.rand(4, 7))[: 3 if dynamic else 1]:
        opbridge.verify(path, model, (other,))


def test_classes_counted():
    check(F.one_hot, torch.tensor([[0, 3], [1, 1]]), also=[(torch.tensor([[5, 3], [1, 1]]),)])


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_gaussian_nll_loss(reduction):
    check(
        {
            "each": lambda x, y: F.gaussian_nll_loss(x, y, y**2, reduction=reduction),
            "rows": lambda x, y: F.gaussian_nll_loss(x, y, y[:, 0] ** 2, full=True, reduction=reduction),
            "column": lambda x, y: F.gaussian_nll_loss(x, y, y[:, :1] ** 2, eps=0.1, reduction=reduction),
            "number": lambda x, y: F.gaussian_nll_loss(x, y, 2.0, reduction=reduction),
        },
        torch.randn(4, 3),
        torch.randn(4, 3),
    )


def test_covariances():
    weights = torch.tensor([1, 3, 2, 1])
    check(
        {
            "cov": torch.cov,
            "of one row": lambda x: x[0].cov(),
            "weights": lambda x: torch.cov(x, fweights=weights, aweights=weights / 3),
            "uncorrected": lambda x: torch.cov(x, correction=0, aweights=weights / 3),
            "corrcoef": torch.corrcoef,
            "of a vector": lambda x: torch.corrcoef(x[0]),
        },
        torch.randn(3, 4),
    )


def test_weights_of_covariances_are_summed_in_their_own_type(tmp_path):
    class Covariance(torch.nn.Module):
        def forward(self, x, weights):
            return torch.cov(x, aweights=weights)

    torch.manual_seed(0)
    x, weights = torch.randn(3, 400, dtype=torch.float64), torch.rand(400)
    for capture in ("export", "trace"):
        opbridge.export(Covariance(), (x, weights), tmp_path / "model.onnx", capture=capture)
        opbridge.verify(tmp_path / "model.onnx", Covariance(), (x, weights), rtol=1e-12, atol=1e-12)


def test_narrow_from_a_tensor():
    check(lambda x, start: torch.narrow(x, 1, start, 2), torch.randn(3, 5), torch.tensor(2), also=[
        (torch.randn(3, 5), torch.tensor(-3))
    ])  # fmt: skip


DYNAMIC = torch.export.Dim.DYNAMIC


def test_sizes_that_torch_takes_from_the_example():
    """torch.kron, torch.take_along_dim and products of several matrices convert sizes to numbers."""
    check(
        {
            "multi_dot": lambda x, y: torch.linalg.multi_dot([x[0], x.T, x]),
            "chain_matmul": lambda x, y: torch.chain_matmul(y.T, y, y.T),
            "kron": torch.kron,
            "of a vector": lambda x, y: torch.kron(x[0], y),
            "method": lambda x, y: y.kron(x),
            "take_along_dim": lambda x, y: torch.take_along_dim(x, y[:1].abs().long() % 3, dim=-1),
            "of all": lambda x, y: x.take_along_dim(y.abs().long()),
        },
        torch.randn(4, 5),
        torch.randn(2, 3),
        dynamic=[{0: DYNAMIC, 1: DYNAMIC}, {0: DYNAMIC, 1: DYNAMIC}],
        also=[(torch.randn(3, 7), torch.randn(5, 2))],
    )


@pytest.mark.filterwarnings("error::opbridge.TraceWarning")
def test_norms_of_matrices_of_dynamic_sizes():
    """torch reads the sizes to ask whether there are any rows or columns, and would warn of ``min(rows, columns)``."""
    check(
        {
            "1": lambda x, y: torch.linalg.matrix_norm(x, 1),
            "2": lambda x, y: torch.linalg.matrix_norm(x, 2),
            "inf": lambda x, y: torch.linalg.matrix_norm(x, float("inf")),
            "of other dims": lambda x, y: torch.linalg.matrix_norm(x, 1, (2, 0)),
            "of singular values of other dims": lambda x, y: torch.linalg.matrix_norm(x, 2, (0, -1), True),
            "kept": lambda x, y: torch.linalg.matrix_norm(x, float("inf"), (0, 1), keepdim=True),
            "in float64": lambda x, y: torch.linalg.matrix_norm(x, 2, dtype=torch.float64),
            "norm": lambda x, y: torch.linalg.norm(x, 1, (1, 2)),
            "norm of a matrix": lambda x, y: torch.linalg.norm(x[0], float("inf")),
            "norm of vectors": lambda x, y: torch.linalg.norm(x, 1, -1) + torch.linalg.norm(x, 2, 2),
            "least column": lambda x, y: torch.linalg.matrix_norm(x, -1) + torch.linalg.norm(x, -2, (1, 2)),
            "least row": lambda x, y: torch.linalg.matrix_norm(x, -float("inf"), (2, 0), True),
            "nuclear": lambda x, y: torch.linalg.matrix_norm(x, "nuc"),
            "condition by the least": lambda x, y: torch.linalg.cond(y, -1) + torch.linalg.cond(y, -float("inf")),
            "condition": lambda x, y: torch.linalg.cond(y, 1),
            "condition by rows": lambda x, y: torch.linalg.cond(y, float("inf")),
        },
        torch.randn(3, 4, 5),
        torch.randn(2, 4, 4) + 5 * torch.eye(4),
        dynamic=[{0: DYNAMIC, 1: DYNAMIC, 2: DYNAMIC}, {0: DYNAMIC, 1: "n", 2: "n"}],
        also=[
            (torch.randn(2, 6, 3), torch.ones(1, 3, 3)),
            (torch.zeros(2, 3, 2), torch.zeros(2, 2, 2)),
            (torch.randn(5, 2, 2), torch.randn(3, 2, 2) + 5 * torch.eye(2)),
        ],
    )


def test_no_norm_of_no_rows_but_zero(tmp_path):
    path = tmp_path / "m.onnx"

    def norms(x):
        square = x @ x.mT + torch.eye(x.shape[1])
        conditions = [torch.linalg.cond(square, order) for order in (1, -1, float("inf"), -float("inf"))]
        return *(torch.linalg.matrix_norm(x, order) for order in (1, 2, float("inf"), -1)), *conditions

    opbridge.export(norms, (torch.randn(3, 4, 5),), path, dynamic_shapes=({1: "n"},))
    opbridge.verify(path, norms, (torch.zeros(3, 0, 5),))


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_norms_of_matrices_that_the_model_finds(tmp_path, capture):
    path = tmp_path / "m.onnx"

    def norms(x):
        found = x[x[:, 0, 0] > 0]
        return tuple(torch.linalg.matrix_norm(found, order) for order in (1, 2, -1, -2, -float("inf")))

    opbridge.export(norms, (torch.randn(5, 3, 2),), path, capture=capture)
    for x in (torch.rand(5, 3, 2), torch.randn(5, 3, 2)):
        opbridge.verify(path, norms, (x,))


def test_tensors_made_of_dynamic_sizes():
    check(
        {
            "as_tensor": lambda x: torch.as_tensor(x.shape[0]) + torch.as_tensor([1, 2]) * x.sum(),
            "of a list": lambda x: torch.as_tensor([x.shape[0], 2 * x.shape[1]], dtype=torch.float32),
            "new_tensor": lambda x: x.new_tensor([x.shape[0], 0.5]),
            "linspace": lambda x: x + torch.linspace(-1, 1, x.shape[1]),
            "linspace of half as many": lambda x: torch.linspace(-1, 1, x.shape[1] // 2) + x.sum(),
            "linspace of integers": lambda x: torch.linspace(-3, 10, x.shape[0], dtype=torch.int64),
            "linspace between tensors": lambda x: torch.linspace(x.min(), x.max(), x.shape[1]),
            "linspace in float64": lambda x: torch.linspace(3, -2.5, 2 * x.shape[0], dtype=torch.float64),
            "logspace": lambda x: torch.logspace(-1, 2, x.shape[1]),
            "logspace in float64": lambda x: torch.logspace(2, 0.5, x.shape[0] + 1, 3.0, dtype=torch.float64),
            "cov": lambda x: torch.cov(x.T),
            "corrcoef": lambda x: torch.corrcoef(x.T),
        },
        torch.randn(5, 3),
        dynamic=[{0: DYNAMIC, 1: DYNAMIC}],
        also=[(torch.randn(2, 8),), (torch.randn(7, 2),)],
    )


def test_gradients_of_dynamic_sizes():
    check(
        {
            "all dims": lambda x: torch.gradient(x),
            "one dim": lambda x: torch.gradient(x, dim=1),
            "spacing": lambda x: torch.gradient(x, spacing=[0.5, 2], dim=(-1, 0)),
            "second order": lambda x: torch.gradient(x, spacing=3, edge_order=2),
            "integers": lambda x: torch.gradient((9 * x).int()),
        },
        torch.randn(4, 5),
        dynamic=[{0: DYNAMIC, 1: DYNAMIC}],
        also=[(torch.randn(3, 8),), (torch.randn(6, 3),)],
    )


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_what_torch_cannot_run_on_dynamic_sizes_is_refused(capture, tmp_path):
    class Combination(torch.nn.Module):
        def forward(self, x):
            return torch.ops.aten._compute_linear_combination(x, torch.ones(1, x.shape[0]))

    shapes = ({0: DYNAMIC},)
    with pytest.raises(opbridge.UnsupportedError, match=r"aten\._compute_linear_combination"):
        opbridge.export(
            Combination(), (torch.randn(5, 2),), tmp_path / "x.onnx", dynamic_shapes=shapes, capture=capture
        )


TRUTHS = {
    "if": lambda x: x * 2 if x.shape[0] % 4 else x,
    "not": lambda x: x * 2 if not x.shape[0] % 4 else x,
    "all": lambda x: x * 2 if all(size % 2 for size in x.shape) else x,
}


def test_branches_by_the_truth_of_a_size():
    check(TRUTHS, torch.ones(9, 3), dynamic=[{0: torch.export.Dim.DYNAMIC}], also=[(torch.ones(n, 3),) for n in (4, 6)])


def test_extremes_of_sizes_and_numbers():
    functions = {
        "float": lambda x: x * max(x.shape[0] / 2, 3.0),
        "generator": lambda x: x * max(size for size in x.shape),
        "least": lambda x: x * min(x.shape[0], 4, x.shape[1] * 3),
    }
    check(functions, torch.ones(9, 3), dynamic=[{0: torch.export.Dim.DYNAMIC}], also=[(torch.ones(2, 3),)])


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_floats_made_of_sizes_are_told(capture, tmp_path):
    with pytest.warns(UserWarning, match="was converted to the number 0.1"):
        opbridge.export(
            lambda x: torch.nn.functional.pdist(x, 1 / x.shape[0]),
            (torch.ones(10, 3),),
            tmp_path / "m.onnx",
            dynamic_shapes=({0: "n"},),
            capture=capture,
        )


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_functions_that_torch_runs_only_in_eager_mode(tmp_path, capture, dynamic):
    def model(x):
        old_mask = (x > 0.5).to(torch.uint8)
        return torch.where(old_mask, x, -x), x.where(condition=old_mask, other=x * 2), x * x.nbytes

    path, sizes = tmp_path / "m.onnx", ({0: torch.export.Dim.DYNAMIC},) if dynamic else None
    opbridge.export(model, (torch.rand(4, 5),), path, capture=capture, dynamic_shapes=sizes)
    for rows in (4, 1, 7)[: 3 if dynamic else 1]:
        opbridge.verify(path, model, (torch.rand(rows, 5),))


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_masks_of_uint8(tmp_path, capture, dynamic):
    """They were those of torch before it had bool; only eager mode still indexes by them."""

    def model(x):
        mask, column = (x > 0.5).to(torch.uint8), torch.tensor([1, 0, 1, 0, 1]).to(torch.uint8)
        first = (torch.arange(x.shape[0]) == 0).to(torch.uint8)
        written = x.clone()
        written[:, column] += 1
        written.index_put_((first,), torch.ones(5))
        return x[mask], x[:, column], x[column[0]], x[mask[0].sum() * 0], written, x.index_put((first,), x[:1] * 2)

    path, sizes = tmp_path / "m.onnx", ({0: torch.export.Dim.DYNAMIC},) if dynamic else None
    opbridge.export(model, (torch.rand(4, 5),), path, capture=capture, dynamic_shapes=sizes)
    for rows in (4, 1, 7)[: 3 if dynamic else 1]:
        opbridge.verify(path, model, (torch.rand(rows, 5),))


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_random_numbers_of_dynamic_sizes_with_a_generator(tmp_path, capture):
    def drawn(x, generator=None):
        shifted = x + torch.randn(x.shape, generator=generator) + torch.rand(x.shape[0], 5, generator=generator)
        return shifted + torch.randint(3, x.shape, generator=generator)

    path, given = tmp_path / "m.onnx", {"capture": capture, "dynamic_shapes": ({0: "n"},), "random": True}
    opbridge.export(lambda x: drawn(x), (torch.rand(4, 5),), path, **given)
    (output,) = opbridge.session(path).run(None, {"x": torch.rand(7, 5).numpy()})
    assert output.shape == (7, 5)
    with pytest.raises(opbridge.UnsupportedError, match=r"randn\S* draws from a generator of the model's own"):
        opbridge.export(lambda x: drawn(x, torch.Generator()), (torch.rand(4, 5),), path, **given)


class Converting(torch.nn.Module):
    def __init__(self, convert):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(5, 3), torch.nn.BatchNorm1d(3), torch.nn.LSTM(3, 2))
        self.convert = convert

    def forward(self, x):
        return self.convert(self, x).layers(x)[0]


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize(
    "convert",
    [lambda m, x: m.to(x.device), lambda m, x: m.to(x), lambda m, x: m.float().cpu()],
    ids=["device", "like a tensor", "type"],
)
def test_a_module_is_converted_to_what_it_is(tmp_path, capture, convert):
    model, path = Converting(convert).eval(), tmp_path / "m.onnx"
    opbridge.export(model, (torch.rand(4, 5),), path, capture=capture, dynamic_shapes=({0: torch.export.Dim.DYNAMIC},))
    opbridge.verify(path, model, (torch.rand(7, 5),))
    assert all(type(each) is torch.nn.Parameter for each in model.parameters())


def test_a_module_that_is_converted_to_another_type_is_refused(tmp_path):
    model = Converting(lambda m, x: m.double()).eval()
    with pytest.raises(opbridge.UnsupportedError, match="converts the weights of a Linear to another element type"):
        opbridge.export(model, (torch.rand(4, 5, dtype=torch.float64),), tmp_path / "m.onnx")
