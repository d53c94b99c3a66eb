"""onnxscript functions that mappings call."""

import onnxscript
import torch
from onnxscript import opset18 as op

import opbridge
from opbridge.runtime import run, session

domain = onnxscript.values.Opset("tests.functions", 1)


@onnxscript.script(domain, default_opset=op)
def scaled(x, alpha: float, unused: int, also_unused: str = "a"):
    return op.Mul(x, op.CastLike(op.Constant(value_float=alpha), x))


def test_an_attribute_that_the_function_does_not_use(tmp_path):
    def sinh(g, x):
        return g.onnxscript_op(scaled, x, alpha=2.5, unused=3).setType(x.type())

    x = torch.rand(3)
    path = tmp_path / "model.onnx"
    opbridge.register_custom_op_symbolic("aten::sinh", sinh, 18)
    try:
        opbridge.export(torch.sinh, (x,), path)
    finally:
        opbridge.unregister_custom_op_symbolic("aten::sinh", 18)
    torch.testing.assert_close(run(session(path), {"args_0": x})[0], x * 2.5)
