"""Programs of the operators ``prims``, the lowest level of torch's decompositions."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
import torch
import torch._prims as prims
from torch._decomp import decomposition_table

import opbridge

X = torch.linspace(-0.9, 0.95, 6).reshape(2, 3)
Y = torch.linspace(2, -1.5, 6).reshape(2, 3)
P = X.abs() + 0.1
Z = torch.complex(X, Y)
I = torch.arange(-3, 3).reshape(2, 3)  # noqa: E741
J = torch.tensor([[1, 2, 3], [4, -5, 6]])
F32 = torch.float32
PLACE = {"dtype": F32, "device": torch.device("cpu"), "requires_grad": False}

# Arguments by name of the operator. Those of tensors are inputs of the model.
CALLS: dict[str, list[tuple[tuple[Any, ...], dict[str, Any]]]] = {
    "amax": [((X, [0]), {}), ((X, [0, 1]), {})],
    "amin": [((X, [1]), {})],
    "as_strided": [((X, [3, 2], [1, 3], 0), {})],
    "as_strided_scatter": [((X, Y[:, :2].contiguous(), [2, 2], [3, 1], 1), {})],
    "broadcast_in_dim": [((X, [4, 2, 5, 3], [1, 3]), {}), ((X[:, :1], [2, 7, 4], [0, 2]), {})],
    "cat": [(([X, Y], 1), {})],
    "clone": [((X,), {})],
    "collapse": [((X[None], 0, 1), {})],
    "collapse_view": [((X[None], 1, 2), {})],
    "conj": [((Z,), {})],
    "conj_physical": [((Z,), {})],
    "convert_element_type": [((X, torch.float64), {}), ((X * 9, torch.int32), {})],
    "copy_strided": [((X, [1, 2]), {})],
    "device_put": [((X, torch.device("cpu")), {})],
    "div": [((X, Y), {}), ((I, J), {})],
    "fft_c2c": [((Z,), {"dim": [1], "forward": True}), ((Z,), {"dim": [0, 1], "forward": False})],
    "fft_c2r": [((Z,), {"dim": [1], "last_dim_size": 4})],
    "fft_r2c": [((X,), {"dim": [0, 1], "onesided": True}), ((X,), {"dim": [1], "onesided": False})],
    "fill": [((X, 3.5), {})],
    "full": [(([2, 3], 1.5), PLACE)],
    "full_like": [((X, 1.5), PLACE)],
    "iota": [((5,), {"start": 2, "step": 3, **PLACE, "dtype": torch.int64})],
    "prod": [((X, [0]), {}), ((X, [0, 1]), {}), ((I, [1]), {})],
    "reshape": [((X, [3, 2]), {})],
    "rev": [((X, [1]), {})],
    "scalar_tensor": [((2.5,), {"dtype": F32, "device": torch.device("cpu")})],
    "split_dim": [((Y.reshape(6), 0, 2), {})],
    "squeeze": [((X[:, None, :, None], [1, 3]), {})],
    "sum": [((X, [0]), {}), ((X, [0, 1]), {})],
    "svd": [((X,), {"full_matrices": False})],
    "transpose": [((X[None], [2, 0, 1]), {})],
    "var": [((X, [1], 1.0), {}), ((X, [0, 1], 0.0), {})],
    "view_of": [((X,), {})],
    "view_of_dtype": [((X, torch.int32), {}), ((I, torch.float64), {}), ((I, torch.int64), {})],
    "where": [((X > 0, X, Y), {})],
}
OF_POSITIVE = {"acosh": P + 1, "digamma": P, "lgamma": P, "log": P, "log10": P, "log1p": P, "log2": P, "ndtri": P / 2}
OF_POSITIVE |= {"rsqrt": P, "sqrt": P}
OF_COMPLEX = {"imag", "real"}
OF_INTEGERS = {"bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "gcd"}
OF_SHIFTS = {"shift_left", "shift_right_arithmetic"}
OF_POSITIVE_PAIRS = {"igamma": (P, P + 1), "igammac": (P, P + 1), "pow": (P, Y), "zeta": (P + 1.5, P)}

# The reasons why no program contains an operator, or why it has no mapping.
LEFT_OUT = {
    "_make_token": "orders effects, of which a program without runtime errors has none",
    "_sink_tokens": "orders effects, of which a program without runtime errors has none",
    "copy_to": "writes to its argument; test_writes",
    "empty": "its elements are not defined",
    "empty_permuted": "its elements are not defined",
    "empty_strided": "its elements are not defined",
    "item": "returns a number",
    "maximum_value": "returns a constant number",
    "minimum_value": "returns a constant number",
    "normal": "random; test_random_numbers",
    "resize": "changes the shape of its argument",
    "uniform": "random; test_random_numbers",
    "xor_sum": "torch computes it in compiled code alone",
}


def calls_of(name: str) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    if name in CALLS:
        return CALLS[name]
    if name in OF_SHIFTS:
        return [((J.abs(), torch.tensor([[1, 2, 0], [3, 1, 2]])), {})]
    if name in OF_POSITIVE_PAIRS:
        return [(OF_POSITIVE_PAIRS[name], {})]
    schema = str(getattr(torch.ops.prims, name).default._schema)
    operand = I if name in OF_INTEGERS else Z if name in OF_COMPLEX else OF_POSITIVE.get(name, X)
    return [((operand, J if operand is I else Y), {})] if "Tensor other" in schema else [((operand,), {})]


def names() -> list[str]:
    found = [name for name in dir(torch.ops.prims) if name in vars(prims) or name in LEFT_OUT]
    return [name for name in found if hasattr(getattr(torch.ops.prims, name), "default")]


def test_every_operator_is_listed() -> None:
    assert len(names()) > 110
    assert not set(LEFT_OUT) - set(names())


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize("name", [name for name in names() if name not in LEFT_OUT])
def test_operator(name: str, capture: Any, tmp_path: pathlib.Path) -> None:
    operator = getattr(torch.ops.prims, name).default
    for args, options in calls_of(name):
        leaves = [leaf for leaf in torch.utils._pytree.tree_leaves(args) if isinstance(leaf, torch.Tensor)]

        def call(*tensors: torch.Tensor, args: Any = args, options: Any = options) -> Any:
            given = iter(tensors)
            args = torch.utils._pytree.tree_map_only(torch.Tensor, lambda _: next(given), args)
            return operator(*args, **options)

        opbridge.export(call, tuple(leaves), tmp_path / "model.onnx", capture=capture, verify=True)


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_dynamic_sizes(capture: Any, tmp_path: pathlib.Path) -> None:
    def model(x: torch.Tensor) -> Any:
        n = x.shape[0]
        wide = torch.ops.prims.broadcast_in_dim(x, [n, 4, 3], [0, 2])
        count = torch.ops.prims.iota(
            n, start=1, step=2, dtype=torch.int64, device=torch.device("cpu"), requires_grad=False
        )
        return wide, count * 2, torch.ops.prims.prod(x, [0]), torch.ops.prims.sum(wide, [0, 1])

    path = tmp_path / "model.onnx"
    opbridge.export(model, (torch.rand(4, 3),), path, capture=capture, dynamic_shapes=({0: "n"},))
    for rows in (4, 1, 7):
        opbridge.verify(path, model, (torch.rand(rows, 3),))


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_writes(capture: Any, tmp_path: pathlib.Path) -> None:
    def model(x: torch.Tensor, y: torch.Tensor) -> Any:
        z = x + 1
        torch.ops.prims.copy_to(torch.ops.prims.transpose(z, [1, 0])[:2], y[:, :2].t())
        return z * 2

    opbridge.export(model, (X, Y), tmp_path / "model.onnx", capture=capture, verify=True)


def test_random_numbers(tmp_path: pathlib.Path) -> None:
    def model(x: torch.Tensor) -> Any:
        uniform = torch.ops.prims.uniform(
            [400], low=2.0, high=5.0, dtype=F32, device=torch.device("cpu"), stride=[1], generator=None
        )
        return uniform, torch.ops.prims.normal([400], mean=3.0, std=0.5, **PLACE)

    path = tmp_path / "model.onnx"
    opbridge.export(model, (X,), path, capture="trace")
    uniform, normal = opbridge.session(path).run(None, {"x": X.numpy()})
    assert 2 <= uniform.min() < 2.5 < 4.5 < uniform.max() <= 5
    assert abs(normal.mean() - 3) < 0.2


def test_quotients_of_integers_decomposed_by_every_rule(tmp_path: pathlib.Path) -> None:
    table = {op: rule for op, rule in decomposition_table.items() if isinstance(op, torch._ops.OpOverload)}
    program = torch.export.export(Quotients(), (I,)).run_decompositions(table)
    opbridge.export(program, (I,), tmp_path / "model.onnx")
    opbridge.verify(tmp_path / "model.onnx", Quotients(), (I,))


class Quotients(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x // 3


def test_what_the_mapping_refuses_is_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(opbridge.UnsupportedError, match=r"aten::view\.dtype: .* use x != 0"):
        opbridge.export(
            lambda x: torch.ops.prims.view_of_dtype(x, torch.bool), (I.to(torch.int8),), tmp_path / "model.onnx"
        )


class Network(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.GELU(), torch.nn.AdaptiveAvgPool2d(2)
        )
        self.norm = torch.nn.LayerNorm(16)
        self.linear = torch.nn.Linear(16, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.layers(x).flatten(1))
        return torch.log_softmax(self.linear(x).sigmoid() * torch.linspace(0, 1, 5).clamp(0.1, 0.9), -1).std(-1)


def test_a_network_decomposed_to_prims(tmp_path: pathlib.Path) -> None:
    """The references of torch._refs call prims; all ATen operators that have one are decomposed."""
    from torch._decomp import decomposition_table

    torch.manual_seed(0)
    model, x = Network().eval(), torch.randn(2, 3, 8, 8)
    program = torch.export.export(model, (x,))
    kept = {torch.ops.aten.convolution.default, torch.ops.aten.mm.default, torch.ops.aten.addmm.default}
    table = {operator: function for operator, function in decomposition_table.items() if operator not in kept}
    decomposed = program.run_decompositions({**table, **references()})
    called = {str(node.target) for node in decomposed.graph.nodes}
    assert sum(name.startswith("prims.") for name in called) > 5
    opbridge.export(decomposed, (x,), tmp_path / "model.onnx", verify=True)


def references() -> dict[Any, Any]:
    import torch._refs as refs

    names = ("add", "mul", "sub", "div", "exp", "sqrt", "rsqrt", "sum", "amax", "erf", "neg", "log", "where", "var")
    return {overload: getattr(refs, name) for name in names for overload in overloads_of(name)}


def overloads_of(name: str) -> list[Any]:
    packet = getattr(torch.ops.aten, name)
    wanted = ("default", "Tensor", "dim_IntList", "correction", "self")
    return [getattr(packet, overload) for overload in packet.overloads() if overload in wanted]
