"""Sparse tensors that a model holds, makes and consumes."""

import pytest
import torch
from torch import nn

import opbridge
from checking.models import compare
from opbridge import UnsupportedError

pytestmark = [
    pytest.mark.parametrize("capture", ["export", "trace"]),
    pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta state"),
]
DYNAMIC = torch.export.Dim.DYNAMIC
EDGES = torch.tensor([[0, 1, 2, 3, 0], [1, 2, 3, 4, 1]])  # one of them twice


def adjacency(size: int) -> torch.Tensor:
    return (torch.rand(size, size) > 0.6).float()


class GraphConvolution(nn.Module):
    def __init__(self, layout):
        super().__init__()
        self.register_buffer("adjacency", adjacency(5).to_sparse(layout=layout))
        self.register_buffer("counts", torch.ones(5))
        self.transposed = adjacency(5).to_sparse()  # an attribute
        self.first, self.second = nn.Linear(4, 8), nn.Linear(8, 3)

    def forward(self, x):
        hidden = torch.relu(torch.sparse.mm(self.adjacency, self.first(x)))
        return self.transposed.t() @ (self.adjacency @ self.second(hidden))


class Pair(nn.Module):
    """Two modules of one class, each with a matrix of its own."""

    def __init__(self):
        super().__init__()
        self.a, self.b = GraphConvolution(torch.sparse_coo), GraphConvolution(torch.sparse_csr)

    def forward(self, x):
        return self.a(x) - self.b(x)


def exported(model, inputs, tmp_path, capture, dynamic=None):
    return opbridge.export(model, inputs, tmp_path / "model.onnx", capture=capture, dynamic_shapes=dynamic)


def check(model, inputs, tmp_path, capture, dynamic=None, others=()):
    compare(model, exported(model, inputs, tmp_path, capture, dynamic), (inputs, *others))


@pytest.mark.parametrize(
    "make", [lambda: GraphConvolution(torch.sparse_coo), lambda: GraphConvolution(torch.sparse_csr), Pair]
)
def test_a_model_that_holds_sparse_matrices_is_left_as_it_was(tmp_path, capture, make):
    model = make()
    before = [*model.state_dict()]
    check(model, (torch.randn(5, 4),), tmp_path, capture)
    assert [*model.state_dict()] == before
    convolution = getattr(model, "a", model)
    assert type(convolution) is GraphConvolution
    assert convolution.adjacency.layout in (torch.sparse_coo, torch.sparse_csr)
    assert "adjacency" in convolution._buffers
    assert "transposed" in vars(convolution)
    assert not {"adjacency", "transposed"} & set(vars(GraphConvolution))


def of_edges(x, edges, weights):
    n = x.size(0)
    a = torch.sparse_coo_tensor(edges, weights, (n, n))
    both = (a + a.t()).coalesce()
    degrees = torch.sparse.sum(a, 1).to_dense()
    return (
        *(a @ x, x.t() @ a, torch.mv(a, x[:, 0]), torch.sparse.addmm(x, a, x, beta=0.5, alpha=2.0)),
        *(degrees, a.to_dense() / 2, (-a / 2 - a * 3).to_dense(), a.mul(degrees[:, None].expand(n, n)).to_dense()),
        *(torch.sparse.mm(both, x), both.indices(), both.values(), a.sum(), torch.ones(n, n) + a, torch.ones(n, n) - a),
    )


@pytest.mark.parametrize("dynamic", [None, ({0: DYNAMIC}, {1: DYNAMIC}, {0: DYNAMIC})])
def test_matrices_of_edges(tmp_path, capture, dynamic):
    inputs = torch.randn(5, 4), EDGES, torch.rand(5)
    others = [(torch.randn(7, 4), torch.tensor([[6, 0], [2, 0]]), torch.rand(2))] if dynamic else []
    check(of_edges, inputs, tmp_path, capture, dynamic, others)


def test_rows_in_compressed_form(tmp_path, capture):
    def function(x, starts, columns, weights):
        a = torch.sparse_csr_tensor(starts, columns, weights, (5, 5))
        return a @ x, a.to_dense()

    inputs = torch.randn(5, 4), torch.tensor([0, 1, 1, 3, 4, 4]), torch.tensor([0, 1, 4, 2]), torch.rand(4)
    check(function, inputs, tmp_path, capture)


def test_dense_tensors_there_and_back(tmp_path, capture):
    def function(x):
        sparse = x.relu().to_sparse()
        return sparse.to_dense(), sparse.values(), sparse.to(torch.float64).to_dense(), x.to_sparse_csr().to_dense()

    check(function, (torch.randn(3, 4),), tmp_path, capture)


def test_numbers_that_meet_no_entry_do_not_count(tmp_path, capture):
    def function(x):
        return torch.sparse.mm(torch.eye(2).to_sparse(), x)

    check(function, (torch.tensor([[1.0], [torch.inf]]),), tmp_path, capture)


def test_what_a_model_asks_of_a_sparse_tensor(tmp_path, capture):
    def function(x):
        coo, csr = x.to_sparse(), x.to_sparse_csr()
        asked = [coo.is_sparse, csr.is_sparse, csr.is_sparse_csr, coo.layout == torch.sparse_coo, coo.shape == x.shape]
        asked += [
            isinstance(coo, torch.Tensor),
            coo.is_floating_point(),
            coo.dtype == torch.float32,
            coo.is_coalesced(),
        ]
        return x * sum(2**i for i, holds in enumerate(asked) if holds)

    check(function, (torch.ones(2, 2),), tmp_path, capture)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: torch.relu(x.to_sparse()).to_dense(), r"relu\(\) of a sparse tensor"),
        (lambda x: torch.sparse.softmax(x.to_sparse(), 1).to_dense(), r"softmax\(\) of a sparse tensor"),
        (lambda x: x.to_sparse(1).to_dense(), r"dense dims"),
        (lambda x: torch.sparse_coo_tensor(EDGES, torch.ones(5)).to_dense() + x.sum(), "needs size="),
        (lambda x: torch.sparse_coo_tensor(EDGES, torch.ones(5), (5, 5)).values() + x.sum(), r"call coalesce\(\)"),
        (lambda x: x.to_sparse(), "sparse"),
        (lambda x: (x.to_sparse() * x.to_sparse()).to_dense(), "two sparse tensors"),
        (lambda x: (x.to_sparse() @ x.to_sparse()).to_dense(), r"call to_dense\(\)"),
    ],
)
def test_other_uses_are_refused(tmp_path, capture, function, message):
    with pytest.raises(UnsupportedError, match=message):
        exported(function, (torch.randn(3, 3),), tmp_path, capture)


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
def test_sparse_inputs_are_refused(tmp_path, capture, layout):
    inputs = torch.eye(3).to_sparse(layout=layout), torch.rand(3, 2)
    with pytest.raises(UnsupportedError, match=r"the input .* has the layout"):
        exported(lambda a, x: torch.sparse.mm(a, x), inputs, tmp_path, capture)


def test_a_refused_product_does_not_hide_another_refusal(tmp_path, capture):
    def function(x):
        y = x * 2 if [*filter(None, x.sum(0) > 0)] else x
        return (y.to_sparse() @ y.to_sparse()).to_dense()

    what = "branches on a tensor" if capture == "export" else r"call to_dense\(\)"
    with pytest.raises(UnsupportedError, match=what):
        exported(function, (torch.rand(3, 3),), tmp_path, capture)
