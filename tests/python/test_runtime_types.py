"""Element types that ONNX allows and for which ONNX Runtime has no kernel."""

import pathlib

import pytest
import torch
from lowering_check import check, operators

import opbridge
from opbridge.runtime import run, session


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.uint8])
def test_computes_in_a_wider_type(dtype):
    a, b = torch.randint(0, 9, (3, 4)).to(dtype), torch.randint(0, 9, (4, 2)).to(dtype)
    model = check({"matmul": torch.matmul, "expand": lambda a, b: a[None].expand(2, 3, 4)}, a, b)
    assert "MatMul" in operators(model)


def test_refuses_where_there_is_none(tmp_path: pathlib.Path):
    def image(columns):
        return torch.nn.functional.fold(columns, (4, 5), (2, 2))

    with pytest.raises(opbridge.UnsupportedError, match="no kernel of Col2Im for float64"):
        opbridge.export(image, (torch.zeros(1, 12, 12, dtype=torch.float64),), tmp_path / "m.onnx")


def test_the_users_own_nodes_stay_as_they_are(tmp_path: pathlib.Path):
    import onnx

    @opbridge.symbolic("aten::asinh", opset=9)
    def asinh(g, self):
        return g.op("Asinh", self)

    try:
        opbridge.export(lambda x: torch.asinh(x), (torch.zeros(2, dtype=torch.float64),), tmp_path / "m.onnx")
    finally:
        opbridge.unregister_custom_op_symbolic("aten::asinh", 9)
    assert operators(onnx.load(tmp_path / "m.onnx")) == ["Asinh"]


def test_an_input_that_is_an_output(tmp_path: pathlib.Path):
    opbridge.export(lambda x: (x, x, x + 1), (torch.ones(2),), tmp_path / "m.onnx", verify=True)


def test_opbridges_operators_compute_in_float64():
    x = torch.rand(3, dtype=torch.float64)
    functions = {
        "asin": torch.asin,
        "erf": torch.erf,
        "body": lambda x: torch.cond(x.sum() > 1, torch.tan, torch.sinh, (x,)),
    }
    model = check(functions, x)
    own = [node.op_type for node in model.graph.node if node.domain == "opbridge"]
    assert own == ["asin", "erf"]


@pytest.mark.parametrize(
    "dtype", [torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz], ids=str
)
def test_inputs_and_outputs_of_float8(dtype: torch.dtype, tmp_path: pathlib.Path):
    path, x = tmp_path / "model.onnx", torch.tensor([[1.5, -0.25, 0.0], [16.0, 240.0, -3.0]]).to(dtype)
    opbridge.export(lambda x: (x.reshape(-1), x.float()), (x,), path)
    turned, wide = run(session(path), {"x": x})
    assert turned.dtype == dtype
    assert torch.equal(turned.float(), x.float().reshape(-1))
    assert torch.equal(wide, x.float())
