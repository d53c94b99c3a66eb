"""The operator SDK: every kind of argument and return, in both hosts, with the operators of sdk_ops.cc."""

from __future__ import annotations

import os
import re
from pathlib import Path

import command
import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from not_compiling import compile_errors
from onnx import helper
from operator_models import run_node

import opbridge
from opbridge import operators
from opbridge.operator_build import build
from opbridge.runtime import session

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "tests/python/sdk_ops.cc"
os.environ.setdefault("OPBRIDGE_CACHE", str(ROOT / "build/operator-cache"))


@pytest.fixture(scope="module")
def library() -> str:
    """The ONNX Runtime side; the PyTorch side is loaded."""
    stem = build([SOURCE], flags=["-Wall", "-Wextra", "-Werror"])
    operators.load_operators(stem)
    return f"{stem}_ort.so"


@pytest.fixture
def ops(library: str):
    return torch.ops.sdktest


ATTRIBUTES = {
    "i": -7,
    "f": 0.25,
    "b": True,
    "s": "text",
    "ints": [1, 2, 3],
    "floats": [0.5, 0.25],
    "flags": [True, False, True],
    "strings": ["a", "", "bcd"],
}
#             x   i    f    b  s  ints floats flags strings maybe…        pair  fallback halves
SEEN = [9.0, -7, 0.25, 1, 4, 6, 0.75, 2, 103, -1, -1, -1, -1, 206, 4, 2.0]


def onnx_attributes(**attributes: object) -> dict[str, object]:
    result = {k: int(v) if isinstance(v, bool) else v for k, v in attributes.items()}
    result["flags"] = [int(v) for v in ATTRIBUTES["flags"]]
    result["strings"] = "".join(f"{text}\0" for text in ATTRIBUTES["strings"])
    return result


def test_attributes_arrive_with_defaults(ops, library: str) -> None:
    x = np.array([9.0])
    np.testing.assert_allclose(ops.attributes(torch.from_numpy(x), *ATTRIBUTES.values()).numpy(), SEEN)
    attributes = onnx_attributes(**ATTRIBUTES)
    options = {"library": library, "domain": "sdktest", "version": 2, "outputs": (np.float64,)}
    np.testing.assert_allclose(run_node("attributes", {"x": x}, **options, **attributes)[0], SEEN)


def test_optional_and_list_attributes_arrive(ops, library: str) -> None:
    given = {
        "maybe_i": 8,
        "maybe_f": 2.5,
        "maybe_s": "",
        "maybe_ints": [4, -1],
        "pair": [5, 6],
        "fallback": "zz",
    }
    seen = [*SEEN[:9], 8, 2.5, 0, 3, 211, 2, 2.0]
    x = np.array([9.0])
    np.testing.assert_allclose(ops.attributes(torch.from_numpy(x), *ATTRIBUTES.values(), **given).numpy(), seen)
    attributes = onnx_attributes(**ATTRIBUTES, **given)
    options = {"library": library, "domain": "sdktest", "version": 2, "outputs": (np.float64,)}
    np.testing.assert_allclose(run_node("attributes", {"x": x}, **options, **attributes)[0], seen)


def test_empty_lists(ops, library: str) -> None:
    given = {**ATTRIBUTES, "ints": [], "floats": [], "flags": [], "strings": []}
    seen = ops.attributes(torch.tensor([9.0], dtype=torch.float64), *given.values()).numpy()
    np.testing.assert_array_equal(seen[5:9], [0, 0, 0, 0])


def test_a_missing_attribute_is_named(library: str) -> None:
    attributes = onnx_attributes(**{k: v for k, v in ATTRIBUTES.items() if k != "i"})
    options = {"library": library, "domain": "sdktest", "version": 2, "outputs": (np.float64,)}
    with pytest.raises(Exception, match="sdktest::attributes: the argument i is missing"):
        run_node("attributes", {"x": np.array([9.0])}, **options, **attributes)


def test_the_version_of_the_domain_counts(library: str) -> None:
    options = {"library": library, "domain": "sdktest", "outputs": (np.float64,)}
    with pytest.raises(Exception, match="attributes"):
        run_node("attributes", {"x": np.array([9.0])}, version=1, **options, **onnx_attributes(**ATTRIBUTES))


def test_an_export_names_the_version_of_the_domain(ops, library: str, tmp_path: Path) -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return ops.attributes(x, *ATTRIBUTES.values())

    x, path = torch.tensor([9.0], dtype=torch.float64), tmp_path / "model.onnx"
    opbridge.export(Model(), (x,), path, verify=True)
    assert versions(path) == {"": 21, "sdktest": 2}
    opbridge.export(Model(), (x,), path, custom_opsets={"sdktest": 3})
    assert versions(path) == {"": 21, "sdktest": 3}

    torch.export.save(torch.export.export(Model(), (x,)), tmp_path / "model.pt2")
    done = command.opbridge("convert", tmp_path / "model.pt2", path, "--ops", library)
    assert done.returncode == 0, done.stderr
    assert versions(path) == {"": 21, "sdktest": 2}
    opbridge.verify(path, Model(), (x,))
    stem = library.removesuffix("_ort.so")
    done = command.opbridge("doctor", tmp_path / "model.pt2", "--ops", stem)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[3].split() == [
        "sdktest::attributes",
        "1",
        "there",
        "sdktest::attributes",
        "the",
        "library",
        "of",
        "sdktest",
    ]


def versions(path: Path) -> dict[str, int]:
    return {each.domain: each.version for each in onnx.load(path).opset_import}


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
@pytest.mark.parametrize("with_b", [False, True])
@pytest.mark.parametrize("with_d", [False, True])
def test_optional_inputs(ops, library: str, dtype: type, with_b: bool, with_d: bool) -> None:
    a, b, c, d = (np.array([k, k + 1], dtype) for k in (1, 2, 3, 4))
    inputs = {"a": a, "b": b if with_b else None, "c": c, "d": d if with_d else None}
    expected = a + c * 100 + (b * 10 if with_b else 0) + (d * 1000 if with_d else 0)
    tensors = [None if array is None else torch.from_numpy(array) for array in inputs.values()]
    np.testing.assert_array_equal(ops.sum_present(*tensors).numpy(), expected)
    result = run_node("sum_present", inputs, library=library, domain="sdktest", outputs=(dtype,))
    np.testing.assert_array_equal(result[0], expected)


@pytest.mark.parametrize("count", [1, 3])
def test_lists_of_tensors(ops, library: str, count: int) -> None:
    arrays = {f"x{i}": np.arange(i + 2, dtype=np.float32) for i in range(count)}
    made = ops.scale_all(2.5, [torch.from_numpy(array) for array in arrays.values()])
    outputs = run_node(
        "scale_all", arrays, library=library, domain="sdktest", outputs=(np.float32,) * count, factor=2.5
    )
    assert len(made) == len(outputs) == count
    for array, tensor, output in zip(arrays.values(), made, outputs, strict=True):
        np.testing.assert_array_equal(tensor.numpy(), array * 2.5)
        np.testing.assert_array_equal(output, array * 2.5)


def test_a_list_mixes_no_element_types(ops) -> None:
    with pytest.raises(RuntimeError, match="the tensors of tensors have several element types"):
        ops.scale_all(1.0, [torch.zeros(1), torch.zeros(1, dtype=torch.float64)])


@pytest.mark.parametrize("table_type", [np.float32, np.float64])
@pytest.mark.parametrize("row_type", [np.int32, np.int64])
def test_two_returns_of_other_types(ops, library: str, table_type: type, row_type: type) -> None:
    table = np.arange(12, dtype=table_type).reshape(4, 3)
    rows = np.array([3, 0, 3], row_type)
    inputs = {"table": table, "rows": rows}
    in_torch = ops.gather_rows(*map(torch.from_numpy, inputs.values()))
    in_ort = run_node("gather_rows", inputs, library=library, domain="sdktest", outputs=(table_type, np.bool_))
    for values, first in (map(torch.Tensor.numpy, in_torch), in_ort):
        np.testing.assert_array_equal(values, table[rows])
        np.testing.assert_array_equal(first, rows == 0)
        assert values.dtype == table_type
        assert first.dtype == np.bool_


def test_what_a_kernel_requires_is_the_error_of_the_host(ops, library: str) -> None:
    inputs = {"table": np.zeros((4, 3), np.float32), "rows": np.array([4])}
    with pytest.raises(RuntimeError, match="sdktest::gather_rows: row 4 is not in table"):
        ops.gather_rows(*map(torch.from_numpy, inputs.values()))
    with pytest.raises(Exception, match="sdktest::gather_rows: row 4 is not in table"):
        run_node("gather_rows", inputs, library=library, domain="sdktest", outputs=(np.float32, np.bool_))


@pytest.mark.parametrize("shape", [(7,), (3, 4), (0, 2)])
def test_outputs_whose_size_the_data_decides(ops, library: str, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    in_torch = [t.numpy() for t in ops.positive(torch.from_numpy(x))]
    in_ort = run_node("positive", {"x": x}, library=library, domain="sdktest", outputs=(np.float32, np.int64))
    for values, indices in (in_torch, in_ort):
        np.testing.assert_array_equal(values, x[x > 0])
        np.testing.assert_array_equal(indices, np.argwhere(x > 0))


def test_sizes_from_data_are_symbols_in_an_export(ops) -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.ops.sdktest.positive(x)[0] * 2

    program = torch.export.export(Model(), (torch.randn(9),), strict=False)
    x = torch.randn(9)
    torch.testing.assert_close(program.module()(x), x[x > 0] * 2)


class Windows(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.ops.sdktest.windows(x, y.shape[0] + 1, [y.shape[0], 3], step=2)


def windows(x: np.ndarray, size: int, extra: list[int], step: int) -> np.ndarray:
    base = np.stack([x[i : i + size] for i in range(0, len(x) - size + 1, step)])
    tail = [min(max(e, 1), len(x)) * 2 - e % 2 for e in extra]
    return np.broadcast_to(base.reshape(*base.shape, *(1 for _ in tail)), (*base.shape, *tail))


def test_symbolic_arithmetic_in_an_export(library: str) -> None:
    x, y = torch.randn(10), torch.randn(3)
    shapes = {"x": {0: torch.export.Dim.AUTO}, "y": {0: torch.export.Dim.AUTO}}
    program = torch.export.export(Windows(), (x, y), dynamic_shapes=shapes, strict=False)
    call = next(node for node in program.graph.nodes if "windows" in str(node.target))
    sizes = call.meta["val"].shape
    assert [isinstance(size, torch.SymInt) for size in sizes] == [
        True,
        True,
        True,
        isinstance(sizes[3], torch.SymInt),
    ]
    x, y = torch.randn(13), torch.randn(4)
    expected = windows(x.numpy(), 5, [4, 3], 2)
    np.testing.assert_array_equal(program.module()(x, y).numpy(), expected)


def test_symint_attributes_in_both_hosts(ops, library: str) -> None:
    x = np.arange(6, dtype=np.float32)
    expected = windows(x, 3, [2], 1)
    np.testing.assert_array_equal(ops.windows(torch.from_numpy(x), 3, [2]).numpy(), expected)
    result = run_node("windows", {"x": x}, library=library, domain="sdktest", size=3, extra=[2])
    np.testing.assert_array_equal(result[0], expected)
    with pytest.raises(RuntimeError, match="size must not be larger than x"):
        ops.windows(torch.from_numpy(x), 7, [])
    with pytest.raises(RuntimeError, match="size must not be larger than x"):
        ops.windows(torch.empty(6, device="meta"), 7, [])


@pytest.mark.parametrize("threads", [1, 2])
def test_exceptions_in_parts_reach_the_caller(ops, library: str, threads: int) -> None:
    x = np.arange(100_000, dtype=np.float32)
    for at, message in ((-1, "failed before it began"), (70_000, "failed at 70000")):
        with pytest.raises(RuntimeError, match=f"sdktest::fail_at: {message}"):
            ops.fail_at(torch.from_numpy(x), at)
        with pytest.raises(Exception, match=f"sdktest::fail_at: {message}"):
            run_node("fail_at", {"x": x}, library=library, domain="sdktest", threads=threads, at=at)
    np.testing.assert_array_equal(ops.fail_at(torch.from_numpy(x), 1 << 40).numpy(), x)
    result = run_node("fail_at", {"x": x}, library=library, domain="sdktest", threads=threads, at=1 << 40)
    np.testing.assert_array_equal(result[0], x)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dims": [2, 3], "times": 0}, "has not allocated its output 0"),
        ({"dims": [2, 3], "times": 2}, "allocates its output 0 twice"),
        ({"dims": [2, 4]}, r"in the shape \(2, 4\); its shape rule says \(\?, 3\)"),
        ({"dims": [6]}, "in the shape"),
        ({"dims": [-2, 3]}, "in the shape"),
        ({"dims": [2, 3], "fails": True}, "no exception"),
    ],
)
def test_outputs_that_a_kernel_allocates_are_as_its_shape_rule_says(ops, library: str, arguments, message) -> None:
    x = np.ones(3, np.float32)
    assert ops.allocates(torch.from_numpy(x), [2, 3]).shape == (2, 3)
    with pytest.raises(RuntimeError, match=f"sdktest::allocates: .*{message}"):
        ops.allocates(torch.from_numpy(x), **arguments)
    attributes = {name: int(value) if isinstance(value, bool) else value for name, value in arguments.items()}
    with pytest.raises(Exception, match=f"sdktest::allocates: .*{message}"):
        run_node("allocates", {"x": x}, library=library, domain="sdktest", **attributes)


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_a_name_like_that_of_an_operator_in_place(ops, library: str, tmp_path: Path, capture: str) -> None:
    class Model(torch.nn.Module):
        def forward(self, x):
            return x - ops.negated_(x)

    opbridge.export(Model(), (torch.randn(3),), tmp_path / "model.onnx", capture=capture, verify=True)


def test_complex_kernels_are_those_of_pytorch_alone(ops, library: str) -> None:
    assert ops.conjugated(torch.tensor([1 + 2j])).item() == 1 - 2j
    options = onnxruntime.SessionOptions()
    options.register_custom_ops_library(library)
    add = helper.make_node("Add", ["x", "x"], ["y"])
    value = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [3]) for name in "xy"]
    model = helper.make_model(
        helper.make_graph([add], "g", value[:1], value[1:]), opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    )
    onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def test_empty_lists_of_strings_and_large_numbers_as_attributes(ops, library: str, tmp_path: Path) -> None:
    class Model(torch.nn.Module):
        def __init__(self, f: float, floats: list[float]) -> None:
            super().__init__()
            self.f, self.floats = f, floats

        def forward(self, x):
            return ops.attributes(x, 1, self.f, True, "", [], self.floats, [], [])

    x = torch.tensor([9.0], dtype=torch.float64)
    opbridge.export(Model(0.25, []), (x,), tmp_path / "model.onnx", verify=True)
    for f, floats in ((1e300, []), (0.25, [1.0, 1e300])):
        with pytest.raises(opbridge.UnsupportedError, match=r"is 1e\+300, which exceeds float32"):
            opbridge.export(Model(f, floats), (x,), tmp_path / "model.onnx")


def test_numbers_that_float32_does_not_hold_are_exact(ops, tmp_path: Path) -> None:
    class Model(torch.nn.Module):
        def forward(self, x):
            return ops.attributes(x, 1, 0.1, True, "", [], [0.1, 1e-50, -0.7], [], [], maybe_f=1 / 3)

    path = tmp_path / "model.onnx"
    x = torch.tensor([9.0], dtype=torch.float64)
    opbridge.export(Model(), (x,), path)
    (found,) = session(path).run(None, {"x": x.numpy()})
    np.testing.assert_allclose(found, Model()(x).numpy(), rtol=1e-15)
    (node,) = onnx.load(path).graph.node
    texts = {each.name: each.s.decode() for each in node.attribute if each.name.endswith("_float64")}
    assert texts == {"f_float64": "0.1", "floats_float64": "0.1,1e-50,-0.7", "maybe_f_float64": "0.3333333333333333"}


def test_there_are_no_second_derivatives(ops) -> None:
    x = torch.randn(5, dtype=torch.float64, requires_grad=True)
    _, square = ops.affine(x, torch.arange(5), None, 1.5)
    (gradient,) = torch.autograd.grad(square.sum(), x, create_graph=True)
    with pytest.raises(NotImplementedError, match="sdktest::affine has a gradient, but no second derivative"):
        gradient.sum().backward()


def test_gradient_with_constants_and_absent_arguments(ops) -> None:
    x, shift = (torch.randn(5, dtype=torch.float64, requires_grad=True) for _ in range(2))
    rows = torch.arange(5)
    assert torch.autograd.gradcheck(lambda x, s: ops.affine(x, rows, s, 1.5), (x, shift))
    assert torch.autograd.gradcheck(lambda x: ops.affine(x, rows, None, 1.5), (x,))
    assert torch.autograd.gradcheck(lambda s: ops.affine(x.detach(), rows, s, 1.5), (shift,))
    y, _ = ops.affine(x, rows, None, 2.0)  # the other return has no gradient
    y.sum().backward()
    torch.testing.assert_close(x.grad, 2.0 * rows.double())


def test_torch_accepts_the_registrations(ops) -> None:
    x = torch.randn(5, requires_grad=True)
    torch.library.opcheck(ops.affine.default, (x, torch.arange(5), None, 1.5))
    torch.library.opcheck(ops.sum_present.default, (torch.ones(3), None, torch.ones(3)))
    torch.library.opcheck(ops.scale_all.default, (2.0, [torch.ones(3), torch.ones(4, 2)]))
    torch.library.opcheck(ops.positive.default, (torch.randn(5),))


def test_libraries_in_one_session(library: str, tmp_path: Path) -> None:
    """Two libraries share a domain; one is registered twice."""
    source = tmp_path / "twice.cc"
    source.write_text(
        '#include "opbridge/operator.h"\n'
        "using namespace opbridge::op;\n"
        'OPBRIDGE_OPERATOR("custom::twice(Tensor x) -> Tensor")\n'
        "    .shape([](const Shape& x) { return x; })\n"
        "    .cpu(types<float>, []<class T>(Context&, TensorView<const T> x, TensorView<T> out) {\n"
        "      for (std::int64_t i = 0; i < x.size(); ++i) out[i] = 2 * x[i];\n"
        "    });\n"
    )
    twice = f"{build([source])}_ort.so"
    x = np.ones(3, np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("twice", ["x"], ["y"], domain="custom"),
            helper.make_node("my_add", ["y", "x"], ["z"], domain="custom"),
        ],
        "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [3])],
        [helper.make_tensor_value_info("z", onnx.TensorProto.FLOAT, [3])],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("custom", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    options = onnxruntime.SessionOptions()
    for path in (operators.ort_library(operators.COMPAT), twice, library, twice):
        options.register_custom_ops_library(path)
    runtime = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    np.testing.assert_array_equal(runtime.run(None, {"x": x})[0], 5 * x)


def test_an_operator_that_exists_is_refused(tmp_path: Path) -> None:
    operators.load_operators(operators.COMPAT)
    source = tmp_path / "again.cc"
    source.write_text(
        '#include "opbridge/operator.h"\n'
        "using namespace opbridge::op;\n"
        'OPBRIDGE_OPERATOR("custom::my_add(Tensor a) -> Tensor")\n'
        "    .shape([](const Shape& a) { return a; })\n"
        "    .cpu([](Context&, TensorView<const float>, TensorView<float>) {});\n"
    )
    with pytest.raises(RuntimeError, match=r"PyTorch refused operators of .*custom::my_add"):
        operators.load_operators(build([source]))


@pytest.mark.parametrize(
    ("schema", "kernel", "message"),
    [
        ("t::f(Tensor a) -> Tensor", "TensorView<const float>, std::int64_t", "a return is a TensorView"),
        ("t::f(Tensor? a) -> Tensor", "TensorView<const float>, TensorView<float>", "does not fit"),
        ("t::f(Tensor a, int n) -> Tensor", "TensorView<const float>, TensorView<float>", "then each return"),
        ("t::f(Tensor a -> Tensor", "TensorView<const float>, TensorView<float>", "after an argument"),
        (
            "t::f(Tensor(a!) a) -> Tensor",
            "TensorView<const float>, TensorView<float>",
            "do not write to inputs",
        ),
        ("t::f(Tensor a, int? n=1) -> Tensor", "TensorView<const float>", "default of an optional is None"),
        ("f(Tensor a) -> Tensor", "TensorView<const float>, TensorView<float>", "namespace::name"),
        ("t::f(Tensor a) -> Tensor", "TensorView<float>, TensorView<float>", "Tensor is TensorView<const T>"),
        ("t::f(Tensor a, int n) -> Tensor", "TensorView<const float>, int, TensorView<float>", "int and SymInt"),
        ("t::f(Tensor in) -> Tensor", "TensorView<const float>, TensorView<float>", "reserve"),
        ("t::f(Tensor a, Tensor a) -> Tensor", "TensorView<const float>, TensorView<float>", "have the same name"),
        ("t::f(Tensor a, int n=1, Tensor b) -> Tensor", "TensorView<const float>", "without a default"),
    ],
)
def test_a_kernel_that_does_not_fit_its_schema_does_not_compile(
    tmp_path: Path, schema: str, kernel: str, message: str
) -> None:
    shape = "std::optional<Shape>" if "Tensor?" in schema else "Shape"
    more = ", std::int64_t" if "int" in schema else ""
    errors = compile_errors(
        tmp_path,
        f'OPBRIDGE_OPERATOR("{schema}")\n'
        f"    .shape([](const {shape}&{more}) {{ return Shape{{}}; }})\n"
        f"    .cpu([](Context&, {kernel}) {{}});\n",
    )
    assert re.search(message, errors), errors
