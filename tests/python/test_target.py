"""target="onnx": models that rely on the ONNX standard alone compute the same without opbridge's operators.

The other runtime is ONNX's reference implementation; ONNX Runtime runs what it has kernels for, without our library.
"""

from __future__ import annotations

import functools
import itertools
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from lowering_check import named_tensors
from onnx.reference import ReferenceEvaluator
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented as NoKernel
from torch._C import parse_schema

import opbridge
from conformance.operators import Sample, quick_indices, samples
from opbridge import _core
from opbridge.operators import COMPAT

STANDARD = ("", "ai.onnx", "ai.onnx.ml")
torchvision = pytest.importorskip("torchvision")


class _All(torch.nn.Module):
    def __init__(self, functions: Mapping[str, Callable[..., Any]]) -> None:
        super().__init__()
        self.functions = functions

    def forward(self, *args: torch.Tensor) -> dict[str, Any]:
        return {name: function(*args) for name, function in self.functions.items()}


def _nodes(nodes: Sequence[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for graph in [attribute.g, *attribute.graphs]:
                yield from _nodes(graph.node)


def assert_standard(model: onnx.ModelProto) -> None:
    """Every node, also of bodies and functions, is ONNX's own or calls a function of the model."""
    functions = {(function.domain, function.name) for function in model.functions}
    for nodes in [model.graph.node, *(function.node for function in model.functions)]:
        for node in _nodes(nodes):
            assert node.domain in STANDARD or (node.domain, node.op_type) in functions, f"{node.domain}::{node.op_type}"
    used = {node.domain for node in _nodes(model.graph.node)} | {function.domain for function in model.functions}
    assert {entry.domain for entry in model.opset_import} <= used | {""}
    onnx.checker.check_model(model, full_check=True)


def _in_onnxruntime(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> list[np.ndarray] | None:
    """None where ONNX Runtime lacks a kernel: this target is not fitted to it."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        running = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except NoKernel:
        return None
    return running.run(None, feeds)


def check(
    function: Callable[..., Any] | Mapping[str, Callable[..., Any]],
    *args: torch.Tensor,
    path: pathlib.Path,
    opset: int = 21,
    dynamic: Sequence[Mapping[int, Any]] | None = None,
    also: Sequence[tuple[torch.Tensor, ...]] = (),
    rtol: float | None = None,
    atol: float | None = None,
    reference: bool = True,
) -> onnx.ModelProto:
    """Exports, runs and compares, in ONNX's reference implementation and in ONNX Runtime; at least one must run it."""
    module = _All(function if isinstance(function, Mapping) else {"result": function})
    file = path / "model.onnx"
    shapes = None if dynamic is None else (tuple(dynamic),)
    opbridge.export(module, args, file, target="onnx", opset_version=opset, dynamic_shapes=shapes)
    model = onnx.load(file)
    assert_standard(model)
    evaluator = ReferenceEvaluator(model) if reference else None
    for inputs in [args, *also]:
        expected = [tensor for _, tensor in named_tensors(module(*(tensor.clone() for tensor in inputs)))]
        feeds = {value.name: tensor.numpy().copy() for value, tensor in zip(model.graph.input, inputs, strict=True)}
        results = {
            "reference": evaluator.run(None, feeds) if evaluator else None,
            "ONNX Runtime": _in_onnxruntime(model, feeds),
        }
        assert any(result is not None for result in results.values()), "no runtime runs it"
        for runtime, actual in results.items():
            for got, wanted in zip(actual or (), expected, strict=actual is not None):
                found = torch.from_numpy(np.array(got))
                torch.testing.assert_close(
                    found, wanted, rtol=rtol, atol=atol, equal_nan=True, msg=lambda text, by=runtime: f"{by}: {text}"
                )
    return model


def function_names(model: onnx.ModelProto) -> list[str]:
    return [f"{function.domain}::{function.name}" for function in model.functions]


def test_an_operator_of_ours_becomes_a_function_of_its_name(tmp_path: pathlib.Path) -> None:
    model = check(lambda a, b: torch.cdist(a, b), torch.randn(300, 5), torch.randn(200, 5), path=tmp_path)
    assert function_names(model) == ["opbridge::cdist"]
    assert [(node.domain, node.op_type) for node in model.graph.node] == [("opbridge", "cdist")]


def test_a_body_of_one_node_takes_the_place_of_the_call(tmp_path: pathlib.Path) -> None:
    model = check(torch.asin, torch.rand(3, 4, dtype=torch.float64), path=tmp_path)
    assert [node.op_type for node in model.graph.node] == ["Asin"]
    assert not model.functions


def test_calls_with_one_body_share_a_function_and_others_have_their_own(tmp_path: pathlib.Path) -> None:
    def distances(a: torch.Tensor, b: torch.Tensor) -> Any:
        return torch.cdist(a, b), torch.cdist(b, a), torch.cdist(a, b, 1.0)

    model = check(distances, torch.randn(300, 5), torch.randn(200, 5), path=tmp_path)
    assert function_names(model) == ["opbridge::cdist", "opbridge::cdist_1"]


def test_a_function_serves_sizes_known_only_when_the_model_runs(tmp_path: pathlib.Path) -> None:
    rows = torch.export.Dim("rows", max=25)
    check(
        lambda a, b: (torch.cdist(a, b), torch.pdist(a), torch.searchsorted(a.flatten().sort().values, b)),
        torch.randn(7, 5),
        torch.randn(4, 5),
        dynamic=({0: rows}, {}),
        also=[(torch.randn(2, 5), torch.randn(4, 5)), (torch.randn(11, 5), torch.randn(4, 5))],
        path=tmp_path,
        rtol=1e-5,
        atol=1e-5,
    )


def test_the_default_target_keeps_our_nodes(tmp_path: pathlib.Path) -> None:
    opbridge.export(lambda x: torch.asin(x), (torch.rand(3, dtype=torch.float64),), tmp_path / "model.onnx")
    assert [node.op_type for node in onnx.load(tmp_path / "model.onnx").graph.node] == ["asin"]


def test_an_operator_without_a_body_is_refused_by_name(tmp_path: pathlib.Path) -> None:
    def airy(x: torch.Tensor) -> torch.Tensor:
        return torch.special.airy_ai(x) + torch.linalg.svdvals(x)

    with pytest.raises(opbridge.UnsupportedError) as error:
        opbridge.export(airy, (torch.rand(3, 3),), tmp_path / "model.onnx", target="onnx")
    text = str(error.value)
    assert "aten::special_airy_ai" in text
    assert "opbridge::airy_ai has no body of standard operators" in text
    assert "opbridge::svd has no body" in text
    assert 'target="onnxruntime"' in text
    assert "return torch.special.airy_ai(x) + torch.linalg.svdvals(x)" in text
    assert not (tmp_path / "model.onnx").exists()


def test_a_body_of_a_later_opset_is_named(tmp_path: pathlib.Path) -> None:
    with pytest.raises(opbridge.UnsupportedError, match=r"opbridge::pdist has a body .* from opset 14 on"):
        opbridge.export(torch.pdist, (torch.rand(300, 3),), tmp_path / "model.onnx", target="onnx", opset_version=13)


def test_a_node_of_a_users_domain_is_refused(tmp_path: pathlib.Path) -> None:
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return 2 * x

        @staticmethod
        def symbolic(g: Any, x: Any) -> Any:
            return g.op("vendor::Twice", x)

    with pytest.raises(opbridge.UnsupportedError, match=r"vendor::Twice is not an operator of the ONNX standard"):
        opbridge.export(Twice.apply, (torch.rand(3),), tmp_path / "model.onnx", target="onnx")


def test_an_unknown_target_is_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(opbridge.InvalidArgumentError, match="target must be one of onnxruntime, onnx"):
        opbridge.export(torch.relu, (torch.rand(3),), tmp_path / "model.onnx", target="tensorrt")


@pytest.mark.parametrize("line", _core.standard_bodies())
def test_a_body_has_the_schema_of_its_operator(line: str) -> None:
    opbridge.load_operators()
    opbridge.load_operators(COMPAT)
    namespace, name = line.partition("(")[0].split("::")
    if not hasattr(getattr(torch.ops, namespace), name):
        assert name in {"acos", "erf"}
    else:
        written = parse_schema(line)
        assert (
            str(written).partition("(")[2]
            == str(getattr(getattr(torch.ops, namespace), name).default._schema).partition("(")[2]
        )


F32, F64 = torch.float32, torch.float64


def boxes(count: int, dtype: torch.dtype = F32) -> torch.Tensor:
    torch.manual_seed(0)
    corner = torch.rand(count, 2, dtype=dtype) * 10
    return torch.cat([corner, corner + 1 + torch.rand(count, 2, dtype=dtype) * 8], 1)


@pytest.mark.parametrize("name", ["acos", "asin", "atan", "atanh", "sinh", "cosh", "tan", "asinh", "erf"])
def test_elementary_functions_of_float64(name: str, tmp_path: pathlib.Path) -> None:
    check(getattr(torch, name), torch.rand(4, 5, dtype=F64), path=tmp_path)


def test_the_bits_of_numbers(tmp_path: pathlib.Path) -> None:
    opbridge.load_operators()
    integers, floats = torch.arange(-6, 6), torch.randn(2, 4)
    functions = {
        "same": lambda x, y: (x.view(torch.float64), y.view(torch.int32)),
        "own": lambda x, y: torch.ops.opbridge.bit_cast(y, torch.ones(1, dtype=torch.int32)),
        "narrow": lambda x, y: (x.view(torch.uint8), y.view(torch.int16)),
    }
    check(functions, integers, floats, path=tmp_path, opset=26, rtol=0, atol=0)
    check(lambda x: x.view(torch.int32), integers, path=tmp_path, rtol=0, atol=0)
    with pytest.raises(opbridge.UnsupportedError, match="from opset 26 on"):
        opbridge.export(lambda x: x.view(torch.int32), (floats,), tmp_path / "model.onnx", target="onnx")


@pytest.mark.parametrize("p", [0.0, 1.0, 2.0, 2.5, float("inf")])
def test_distances(p: float, tmp_path: pathlib.Path) -> None:
    functions = {
        "batches": lambda a, b: torch.cdist(a.reshape(2, 1, 150, 5), b.reshape(4, 50, 5), p),
        "pairs": lambda a, b: torch.pdist(a, p),
    }
    check(functions, torch.randn(300, 5), torch.randn(200, 5), path=tmp_path, rtol=1e-5, atol=1e-5)


def test_distances_of_an_order_that_float32_does_not_hold(tmp_path: pathlib.Path) -> None:
    opbridge.load_operators()
    functions = {
        "batches": lambda a, b: torch.ops.opbridge.cdist(a, b, 0.1),
        "pairs": lambda a, b: torch.ops.opbridge.pdist(a, 0.1),
    }
    a, b = torch.rand(6, 5, dtype=F64), torch.rand(4, 5, dtype=F64)
    check(functions, a, b, path=tmp_path, rtol=1e-13, atol=0)


@pytest.mark.parametrize("dtype", [F32, F64, torch.int32, torch.int64])
def test_searchsorted_and_mode(dtype: torch.dtype, tmp_path: pathlib.Path) -> None:
    edges = torch.arange(0, 100, dtype=dtype)
    x = torch.tensor([[3, 1, 2, 2, 1], [5, 5, 0, 0, 7], [9, 8, 7, 6, 5]], dtype=dtype)
    if dtype.is_floating_point:
        x = torch.cat([x, torch.tensor([[float("inf"), 1, float("inf"), -1, -1]], dtype=dtype)])
    functions = {
        "left": lambda edges, x: torch.searchsorted(edges, x),
        "right": lambda edges, x: torch.bucketize(x, edges, right=True),
        "rows": lambda edges, x: torch.searchsorted(edges.expand(*x.shape[:1], 100).contiguous(), x),
        "mode": lambda edges, x: torch.mode(x, 1)[0],
    }
    check(functions, edges, x, path=tmp_path)


@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min", "prod"])
@pytest.mark.parametrize("initial", [None, 0.5])
def test_segment_reduce(reduce: str, initial: float | None, tmp_path: pathlib.Path) -> None:
    data = torch.randn(2, 6, 3)
    data[0, 1, 1] = float("nan")
    lengths = torch.tensor([[2, 0, 4], [1, 3, 2]])
    check(
        lambda data, lengths: torch.segment_reduce(data, reduce, lengths=lengths, axis=1, initial=initial, unsafe=True),
        data,
        lengths,
        path=tmp_path,
    )


@pytest.mark.parametrize("dtype", [F32, F64])
def test_nms_by_comparison_of_all_boxes(dtype: torch.dtype, tmp_path: pathlib.Path) -> None:
    opbridge.load_operators()
    scores, classes = torch.rand(40, dtype=dtype), torch.arange(40) % 3
    functions = {
        "nms": lambda boxes, scores, classes: torch.ops.opbridge.nms(boxes, scores, 0.3),
        "batched": lambda boxes, scores, classes: torch.ops.opbridge.batched_nms(boxes, scores, classes, 0.3),
    }
    check(functions, boxes(40, dtype), scores, classes, path=tmp_path)


def test_nms_of_torchvision(tmp_path: pathlib.Path) -> None:
    for dtype in (F32, F64):
        check(
            lambda boxes, scores: torch.ops.torchvision.nms(boxes, scores, 0.3),
            boxes(30, dtype),
            torch.rand(30, dtype=dtype),
            path=tmp_path,
        )


@pytest.mark.parametrize("opset", [16, 21, 22])
@pytest.mark.parametrize("aligned", [True, False])
def test_roi_align(opset: int, aligned: bool, tmp_path: pathlib.Path) -> None:
    rois = torch.cat([torch.arange(5).remainder(2)[:, None].float(), boxes(5)], 1)
    check(
        lambda x, rois: torch.ops.torchvision.roi_align(x, rois, 0.5, 3, 4, 2, aligned),
        torch.randn(2, 3, 12, 14),
        rois,
        opset=opset,
        path=tmp_path,
        rtol=2e-5,
        atol=2e-5,
    )


@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_grid_sample_of_volumes(mode: str, padding: str, tmp_path: pathlib.Path) -> None:
    check(
        lambda x, grid: torch.nn.functional.grid_sample(x, grid, mode, padding, align_corners=True),
        torch.randn(1, 2, 4, 5, 6),
        torch.rand(1, 3, 3, 2, 3) * 2.4 - 1.2,
        opset=20,
        path=tmp_path,
        rtol=1e-4,
        atol=1e-5,
    )


def test_grid_sample_of_volumes_before_opset_20_is_refused(tmp_path: pathlib.Path) -> None:
    args = (torch.randn(1, 2, 4, 5, 6), torch.rand(1, 3, 3, 2, 3))
    with pytest.raises(opbridge.UnsupportedError, match="GridSample takes volumes from opset 20 on"):
        opbridge.export(torch.nn.functional.grid_sample, args, tmp_path / "model.onnx", target="onnx", opset_version=19)


def test_deform_conv2d(tmp_path: pathlib.Path) -> None:
    opbridge.load_operators()
    opbridge.load_operators(COMPAT)
    x, weight = torch.randn(1, 4, 8, 9), torch.randn(6, 2, 3, 3)
    offset, mask, bias = torch.randn(1, 36, 6, 7), torch.rand(1, 18, 6, 7), torch.randn(6)

    def version2(x: torch.Tensor, offset: torch.Tensor, mask: torch.Tensor) -> Any:
        return torch.ops.opbridge.deform_conv2d(x, weight, offset, mask, bias, groups=2, offset_groups=2)

    def version1(x: torch.Tensor, offset: torch.Tensor, mask: torch.Tensor) -> Any:
        return torch.ops.mmdeploy.MMCVDeformConv2d(x, offset, weight, groups=2, deform_groups=2)

    model = check({"1": version1, "2": version2}, x, offset, mask, path=tmp_path, rtol=1e-4, atol=1e-4)
    assert sorted(node.op_type for node in model.graph.node) == ["DeformConv", "DeformConv"]


def test_multi_scale_deformable_attention(tmp_path: pathlib.Path) -> None:
    opbridge.load_operators()
    shapes = torch.tensor([[6, 5], [3, 2]])
    starts = torch.tensor([0, 30])
    value, locations = torch.randn(2, 36, 4, 8), torch.rand(2, 7, 4, 2, 3, 2) * 1.4 - 0.2
    attention = torch.rand(2, 7, 4, 2, 3)
    locations[0, 0, 0, 0, 0, 0] = float("nan")
    check(
        lambda *args: torch.ops.opbridge.multi_scale_deformable_attention(*args),
        value,
        shapes,
        starts,
        locations,
        attention,
        path=tmp_path,
        rtol=1e-4,
        atol=1e-5,
    )


def test_points(tmp_path: pathlib.Path) -> None:
    opbridge.load_operators()
    ops = torch.ops.opbridge
    functions = {
        "knn": lambda a, b, f: ops.knn(4, a, b),
        "knn of channels": lambda a, b, f: ops.knn(4, a.mT.contiguous(), b.mT.contiguous(), True),
        "three_nn": lambda a, b, f: ops.three_nn(b, a),
        "gather": lambda a, b, f: ops.gather_points(f, ops.furthest_point_sample(a, 5)),
        "group": lambda a, b, f: ops.group_points(f, ops.ball_query(0.1, 0.6, 6, a, b)),
        "ball": lambda a, b, f: ops.ball_query(0.0, 0.3, 25, a, b),
        "furthest": lambda a, b, f: ops.furthest_point_sample(a, 9),
        "interpolate": lambda a, b, f: ops.three_interpolate(f, ops.three_nn(b, a)[1], b.softmax(2)),
    }
    check(functions, torch.rand(2, 20, 3), torch.rand(2, 7, 3), torch.randn(2, 5, 20), path=tmp_path)


def test_my_add(tmp_path: pathlib.Path) -> None:
    opbridge.load_operators()
    opbridge.load_operators(COMPAT)
    a, b = torch.randint(-100, 100, (3, 4)), torch.randint(-100, 100, (3, 4))
    for dtype in (F32, F64, torch.int32, torch.int64):
        model = check(torch.ops.custom.my_add, a.to(dtype), b.to(dtype), path=tmp_path)
        assert function_names(model) == ["custom::my_add"]


SPECIAL = {
    "digamma": (-8.3, 40), "erfc": (-6, 9), "erfcx": (-5, 60), "erfinv": (-1, 1), "i0": (-30, 30), "i0e": (-60, 60),
    "i1": (-30, 30), "i1e": (-60, 60), "gammaln": (-9.7, 50), "log_ndtr": (-30, 9), "ndtr": (-12, 6), "ndtri": (0, 1),
}  # fmt: skip


@pytest.mark.parametrize("name", SPECIAL)
@pytest.mark.parametrize("dtype", [F32, F64])
def test_special_functions(name: str, dtype: torch.dtype, tmp_path: pathlib.Path) -> None:
    low, high = SPECIAL[name]
    edges = torch.tensor([0.0, -0.0, float("nan"), float("inf"), -float("inf"), 1, -1, 2, -2, 1e-30, 1e30], dtype=dtype)
    x = torch.cat([torch.linspace(low, high, 301, dtype=dtype), edges])
    exact = getattr(torch.special, name)(x.double())
    if name == "ndtr":  # eager PyTorch is not exact for small results
        exact = torch.special.erfc(-x.double() / 2**0.5) / 2
    # In float32, eager PyTorch is not exact itself: the model is nearer to the exact result than its rounding.
    model = check(
        lambda x: getattr(torch.special, name)(x), x, path=tmp_path, rtol=1e-4 if dtype == F32 else 1e-7, atol=1e-7
    )
    found = ReferenceEvaluator(model).run(None, {model.graph.input[0].name: x.numpy()})[0]
    torch.testing.assert_close(torch.from_numpy(found).double(), exact, rtol=2e-7, atol=1e-14, equal_nan=True)


@pytest.mark.parametrize("order", [0, 1])
def test_polygamma(order: int, tmp_path: pathlib.Path) -> None:
    x = torch.linspace(-7.3, 30, 200)
    check(lambda x: (torch.polygamma(order, x), torch.mvlgamma(x.abs() + 2, 3)), x, path=tmp_path, rtol=1e-4, atol=1e-4)


def test_polygamma_of_a_higher_order_is_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(opbridge.UnsupportedError, match="polygamma of an order above 1"):
        opbridge.export(lambda x: torch.polygamma(2, x), (torch.rand(3),), tmp_path / "model.onnx", target="onnx")


def test_linear_algebra(tmp_path: pathlib.Path) -> None:
    torch.manual_seed(0)
    linalg = torch.linalg
    a, b = torch.randn(2, 5, 5, dtype=F64), torch.randn(2, 5, 3, dtype=F64)
    functions: dict[str, Callable[..., Any]] = {
        "solve": lambda a, b: linalg.solve(a, b),
        "solve from the right": lambda a, b: linalg.solve(a, b.mT, left=False),
        "inv": lambda a, b: linalg.inv_ex(a),
        "det": lambda a, b: (linalg.det(a), linalg.slogdet(a)),
        "lu": lambda a, b: linalg.lu(torch.cat([a, b], 2)),
        "lu of high matrices": lambda a, b: linalg.lu(torch.cat([a, b.mT], 1)),
        "lu_solve": lambda a, b: linalg.lu_solve(*linalg.lu_factor(a), b),
        "lu_solve, transposed": lambda a, b: linalg.lu_solve(*linalg.lu_factor(a), b, adjoint=True),
        "lu_solve from the right": lambda a, b: linalg.lu_solve(*linalg.lu_factor(a), b.mT, left=False),
        "cholesky": lambda a, b: linalg.cholesky_ex(a @ a.mT),
        "cholesky, upper": lambda a, b: linalg.cholesky(a @ a.mT, upper=True),
        "cholesky_solve": lambda a, b: torch.cholesky_solve(b, linalg.cholesky(a @ a.mT)),
        "cholesky_inverse": lambda a, b: torch.cholesky_inverse(linalg.cholesky(a @ a.mT)),
        "triangular": lambda a, b: linalg.solve_triangular(a, b, upper=True),
        "triangular, lower": lambda a, b: linalg.solve_triangular(a, b, upper=False, unitriangular=True),
        "triangular from the right": lambda a, b: linalg.solve_triangular(a, b.mT, upper=False, left=False),
    }
    check(functions, a, b, path=tmp_path, rtol=1e-8, atol=1e-8)
    singular = torch.tensor([[1.0, 2], [2, 4]])
    check(lambda a: (linalg.inv_ex(a).info, linalg.det(a), linalg.lu_factor_ex(a)), singular, path=tmp_path)


def test_linear_algebra_of_open_sizes(tmp_path: pathlib.Path) -> None:
    size = torch.export.Dim("size", min=2)
    check(
        lambda a: (torch.linalg.inv(a), torch.linalg.det(a), torch.linalg.cholesky(a @ a.mT)),
        torch.eye(3) + torch.rand(2, 3, 3),
        dynamic=({1: size, 2: size},),
        also=[(torch.eye(6) * 3 + torch.rand(2, 6, 6),)],
        path=tmp_path,
        rtol=1e-4,
        atol=1e-4,
    )


def test_linear_algebra_of_complex_matrices_is_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(opbridge.UnsupportedError, match="complex matrices have no body"):
        opbridge.export(
            torch.linalg.inv, (torch.eye(3, dtype=torch.complex64),), tmp_path / "model.onnx", target="onnx"
        )


SAMPLED = """
abs add addmm amax argmax atan2 bmm cat cdist clamp cos cumsum diff div.no_rounding_mode einsum eq exp expand flip
floor_divide gather gt index_select isin lerp linalg.norm linalg.vector_norm log1p log_softmax logsumexp masked_fill
matmul maximum mean mode mul mv nn.functional.adaptive_avg_pool2d nn.functional.avg_pool2d nn.functional.conv2d
nn.functional.conv_transpose2d nn.functional.gelu nn.functional.grid_sample nn.functional.group_norm
nn.functional.interpolate.bilinear nn.functional.layer_norm nn.functional.linear nn.functional.max_pool2d
nn.functional.pad.constant nn.functional.pairwise_distance
nn.functional.silu nn.functional.smooth_l1_loss permute pow prod remainder roll scatter searchsorted sigmoid softmax
sort split stack std sub sum tanh topk tril unfold var where
"""

# onnx 1.23's reference implementation cannot run GatherElements of more than 64 elements along the axis, or
# ReduceLogSumExp of 0-d tensors.
BEYOND_REFERENCE = {"logsumexp", "mode", "sort"}


@functools.cache
def _chosen(name: str, dtype: str) -> list[Sample]:
    first = list(itertools.islice(samples(name, dtype), 24))
    return [first[index] for index in quick_indices(len(first))]


@pytest.mark.parametrize("name", SAMPLED.split())
def test_samples_of_pytorch(name: str, tmp_path: pathlib.Path) -> None:
    for sample in _chosen(name, "float32"):
        if sample.tensors:
            reference = name not in BEYOND_REFERENCE
            check(sample.call, *sample.tensors, path=tmp_path, rtol=1e-4, atol=1e-4, reference=reference)


def test_a_convolutional_network(tmp_path: pathlib.Path) -> None:
    torch.manual_seed(0)
    model = torchvision.models.mobilenet_v3_small(weights=None).eval()
    check(model, torch.randn(1, 3, 64, 64), path=tmp_path, rtol=1e-3, atol=1e-4)


def test_a_transformer(tmp_path: pathlib.Path) -> None:
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, activation="gelu")
    model = torch.nn.TransformerEncoder(layer, 2).eval()
    check(
        model,
        torch.randn(2, 7, 32),
        dynamic=({1: torch.export.Dim("length", min=2)},),
        also=[(torch.randn(2, 12, 32),)],
        path=tmp_path,
        rtol=1e-3,
        atol=1e-4,
    )


def test_a_recurrent_network(tmp_path: pathlib.Path) -> None:
    torch.manual_seed(0)
    model = torch.nn.LSTM(6, 5, 2, batch_first=True, bidirectional=True).eval()
    check(lambda x: model(x)[0], torch.randn(2, 4, 6), path=tmp_path, rtol=1e-3, atol=1e-4)
