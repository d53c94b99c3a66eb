"""custom::my_add through both hosts, against 2 * a + b."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
import torch
from operator_models import node_model, run_node, session

from opbridge import operators

DTYPES = (np.float32, np.float64, np.float16, np.int8, np.int16, np.int32, np.int64, np.uint8)


@pytest.fixture(scope="module", autouse=True)
def _loaded() -> None:
    operators.load_operators()
    operators.load_operators(operators.COMPAT)


def my_add(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.ops.custom.my_add(a, b)


def sample(dtype: type, shape: tuple[int, ...] = (3, 5)) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(0, 20, shape) / (1 if np.issubdtype(dtype, np.integer) else 8) for _ in range(2))
    return np.asarray(a, dtype), np.asarray(b, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_both_hosts_agree_with_the_formula(dtype: type) -> None:
    a, b = sample(dtype)
    expected = (2 * a + b).astype(dtype)
    np.testing.assert_array_equal(my_add(torch.from_numpy(a), torch.from_numpy(b)).numpy(), expected)
    np.testing.assert_array_equal(
        run_node("my_add", domain="custom", inputs={"a": a, "b": b}, outputs=(dtype,))[0], expected
    )


def test_bfloat16_in_torch() -> None:
    a, b = torch.randn(64).bfloat16(), torch.randn(64).bfloat16()
    assert torch.equal(my_add(a, b), (2 * a.float() + b.float()).bfloat16())


def test_noncontiguous_inputs() -> None:
    a, b = torch.randn(4, 6).t(), torch.randn(6, 8)[:, ::2]
    torch.testing.assert_close(my_add(a, b), 2 * a + b)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2)])
def test_empty_and_scalar(shape: tuple[int, ...]) -> None:
    a, b = sample(np.float32, shape)
    assert my_add(torch.tensor(a), torch.tensor(b)).shape == shape
    np.testing.assert_array_equal(run_node("my_add", domain="custom", inputs={"a": a, "b": b})[0], 2 * a + b)


def test_nan_and_infinity_pass_through() -> None:
    a = np.array([np.nan, np.inf, -np.inf, 1], np.float32)
    b = np.array([1, 1, np.inf, np.nan], np.float32)
    expected = np.array([np.nan, np.inf, np.nan, np.nan], np.float32)
    np.testing.assert_array_equal(my_add(torch.from_numpy(a), torch.from_numpy(b)).numpy(), expected)
    np.testing.assert_array_equal(run_node("my_add", domain="custom", inputs={"a": a, "b": b})[0], expected)


def test_threads_do_not_change_the_result() -> None:
    a, b = sample(np.float32, (1000, 301))
    expected = 2 * a + b
    threads = torch.get_num_threads()
    try:
        for n in (1, 2):
            torch.set_num_threads(n)
            np.testing.assert_array_equal(my_add(torch.from_numpy(a), torch.from_numpy(b)).numpy(), expected)
            np.testing.assert_array_equal(
                run_node("my_add", domain="custom", inputs={"a": a, "b": b}, threads=n)[0], expected
            )
    finally:
        torch.set_num_threads(threads)


def test_different_shapes_are_an_error_in_both_hosts() -> None:
    a, b = np.zeros((2, 3), np.float32), np.zeros((3, 2), np.float32)
    message = r"custom::my_add: a and b must have the same shape, not \(2, 3\) and \(3, 2\)"
    with pytest.raises(RuntimeError, match=message):
        my_add(torch.from_numpy(a), torch.from_numpy(b))
    with pytest.raises(onnxruntime.capi.onnxruntime_pybind11_state.InvalidArgument, match=message):
        run_node("my_add", domain="custom", inputs={"a": a, "b": b})


def test_element_types_without_a_kernel_are_an_error_in_both_hosts() -> None:
    a = np.zeros(3, np.bool_)
    with pytest.raises(RuntimeError, match=r"no kernel takes tensors of \(bool, bool\); the existing ones take"):
        my_add(torch.from_numpy(a), torch.from_numpy(a))
    with pytest.raises(onnxruntime.capi.onnxruntime_pybind11_state.InvalidGraph, match="bool"):
        run_node("my_add", domain="custom", inputs={"a": a, "b": a}, outputs=(np.bool_,))
    mixed = {"a": np.zeros(3, np.float32), "b": np.zeros(3, np.float64)}
    with pytest.raises(RuntimeError, match="float32, float64"):
        my_add(*map(torch.from_numpy, mixed.values()))
    with pytest.raises(Exception, match="my_add"):
        session(node_model("my_add", mixed, domain="custom"))


def test_gradient() -> None:
    a, b = (torch.randn(3, 4, dtype=torch.float64, requires_grad=True) for _ in range(2))
    assert torch.autograd.gradcheck(my_add, (a, b))
    constant = torch.randn(3, 4, dtype=torch.float64)
    assert torch.autograd.gradcheck(my_add, (a, constant))
    assert torch.autograd.gradcheck(my_add, (constant, b))


def test_torch_accepts_the_registration() -> None:
    a, b = (torch.randn(3, 4, requires_grad=True) for _ in range(2))
    torch.library.opcheck(torch.ops.custom.my_add.default, (a, b))


def test_fake_and_meta_shapes() -> None:
    meta = my_add(torch.empty(2, 3, device="meta"), torch.empty(2, 3, device="meta"))
    assert meta.shape == (2, 3)
    assert meta.is_meta
    with pytest.raises(RuntimeError, match="same shape"):
        my_add(torch.empty(2, 3, device="meta"), torch.empty(3, 3, device="meta"))


class Model(torch.nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return my_add(a, b[: a.shape[0]])


def test_export_with_dynamic_shapes() -> None:
    a, b = torch.randn(3, 4), torch.randn(9, 4)
    n, m = torch.export.Dim("n", max=1000), torch.export.Dim("m")
    program = torch.export.export(Model(), (a, b), dynamic_shapes=({0: n}, {0: m}), strict=False)
    call = next(node for node in program.graph.nodes if "my_add" in str(node.target))
    assert isinstance(call.meta["val"].shape[0], torch.SymInt)
    a, b = torch.randn(7, 4), torch.randn(11, 4)
    torch.testing.assert_close(program.module()(a, b), 2 * a + b[:7])
