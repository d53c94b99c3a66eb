"""Operators that PyTorch keeps for itself, as parts or old names of public ones; a model may call them all the same."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from lowering_check import check

import opbridge

aten = torch.ops.aten
CAPTURES = pytest.mark.parametrize("capture", ["export", "trace"])


def test_reductions() -> None:
    x = torch.tensor([[1.5, -2.0, 0.0], [4.0, float("nan"), 1.0]])
    check({"all": lambda x: aten._aminmax(x), "dim": lambda x: aten._aminmax.dim(x, 1, True)}, x)
    check({"all": lambda x: aten._is_all_true(x > 0), "any": lambda x: aten._is_any_true(x > 0)}, torch.rand(3, 4))
    orders = (2, 0, 1.5, -1, float("inf"))
    sums = {str(order): lambda x, order=order: aten.linalg__powsum(x, order, [1], True) for order in orders}
    check(sums, torch.tensor([[1.0, -2.0, 0.0], [0.5, 0.25, 1.0]]))
    check(lambda x: aten.linalg__powsum(x, dtype=torch.float64), torch.rand(3, 4))


def test_unique() -> None:
    x = torch.randint(0, 4, (3, 5))
    check({"inverse": lambda x: aten._unique(x, True, True), "values": lambda x: aten._unique(x)}, x)


def test_shapes() -> None:
    x = torch.rand(1, 2, 5, 6)
    check(lambda x: aten._pad_circular(x, [1, 2, 1, 0]), x)
    check(lambda x: aten._pad_circular(x, [-1, 4, 1, -2]), x)
    with pytest.raises(opbridge.UnsupportedError, match="shorten an axis to less than its circular padding"):
        check(lambda x: aten._pad_circular(x, [-2, 5, 1, 0]), x)
    for mode in range(3):
        check(lambda x, mode=mode: aten._pad_enum(x, [1, 2, 1, 0], mode), x)
    check(lambda x: aten._pad_enum(x, [1, 2, 1, 0], 3, 0.5), x)
    check(lambda x: aten._dim_arange(x, -2), x)  # torch's rule makes the size constant
    check(lambda x: aten._reshape_copy(x, [5, -1]), x)


def test_lists_of_tensors_in_one() -> None:
    x, y, n = torch.rand(3, 4), torch.rand(2), torch.rand(())
    check(lambda *tensors: aten.flatten_dense_tensors(tensors), x, y, n)
    check(lambda x, y: aten.unflatten_dense_tensors(aten.flatten_dense_tensors([x, y]) + 1, [x.mT, y]), x, y)
    check(lambda x, y: aten.unflatten_dense_tensors(x.flatten(), [y]), x, y)


def test_views_in_lists_follow_writes() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x = x + 1
        [part] = aten.unflatten_dense_tensors(x, [y])
        x.mul_(2)
        return part + 0

    with pytest.raises(opbridge.UnsupportedError):
        check(function, torch.rand(6), torch.rand(2, 2))


def test_copies_keep_what_the_source_was() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = x + 1
        lazy, reshaped = aten._lazy_clone(x), aten._reshape_copy(x, [4, 3])
        x.mul_(2)
        return lazy, reshaped

    check(function, torch.rand(3, 4))


def test_kernels_of_convolution() -> None:
    x, weight, bias = torch.rand(1, 4, 6, 7), torch.rand(3, 4, 2, 3), torch.rand(3)
    check(lambda x, w, b: aten.thnn_conv2d.default(x, w, [2, 3], b, [2, 1], [1, 0]), x, weight, bias)
    check(lambda x, w, b: aten._slow_conv2d_forward(x, w, [2, 3], b, [2, 1], [1, 0]), x, weight, bias)
    check(lambda x, w, b: aten.slow_conv_dilated2d.default(x, w, [2, 3], b, [2, 1], [1, 0], [1, 2]), x, weight, bias)
    check(
        lambda x, w, b: aten.slow_conv_transpose2d.default(x, w, [2, 3], b, [2, 3], [1, 0], [1, 2], [1, 1]),
        x,
        torch.rand(4, 3, 2, 3),
        bias,
    )
    x, weight, bias = torch.rand(1, 2, 5, 5, 6), torch.rand(2, 2, 2, 3, 3), torch.rand(2)
    size = [2, 3, 3]
    check(lambda x, w, b: aten.slow_conv3d.default(x, w, size, b, [2, 1, 1], [1, 0, 1]), x, weight, bias)
    check(lambda x, w, b: aten.slow_conv3d_forward(x, w, size, b, [2, 1, 1], [1, 0, 1]), x, weight, bias)
    dilation = [1, 2, 1]
    check(
        lambda x, w, b: aten.slow_conv_dilated3d.default(x, w, size, b, [2, 1, 1], [1, 0, 1], dilation),
        x,
        weight,
        bias,
    )
    check(lambda x, w, b: aten.slow_conv_transpose3d.default(x, w, size, b, [2, 1, 1], [1, 0, 1]), x, weight, bias)


def test_mkldnn_convolution_of_dense_tensors(tmp_path: Any) -> None:
    if not torch.backends.mkldnn.is_available():
        pytest.skip("PyTorch is built without oneDNN")

    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
            return aten.mkldnn_convolution(x, weight, None, [1, 0], [2, 1], [1, 1], 2)  # type: ignore[no-any-return]

    args = (torch.rand(1, 4, 6, 6), torch.rand(4, 2, 3, 3))
    opbridge.export(Model(), args, tmp_path / "model.onnx", capture="trace", verify=True)


def test_normalization() -> None:
    x, values = torch.rand(2, 3, 4), torch.rand(3)
    check(lambda x, w, m, v: aten._batch_norm_no_update(x, w, w, m, v, 0.1, 1e-5), x, values, values + 1, values + 2)
    check({str(eps): lambda x, eps=eps: aten._fused_rms_norm(x, [3, 4], None, eps) for eps in (None, 1e-2)}, x)
    check(lambda x, w: aten._fused_rms_norm(x, [4], w, 1e-5), x, torch.rand(4))


def test_attention() -> None:
    x = torch.rand(2, 3, 24)
    check(lambda x, b: aten._transform_bias_rescale_qkv(x, b, 2), x, torch.rand(24))
    mask = torch.tensor([[True, False, True], [True, True, True]])
    check(
        {str(dim): lambda x, m, dim=dim: aten._masked_softmax(x, m, dim) for dim in (None, 0)}, torch.rand(2, 3), mask
    )
    with pytest.raises(opbridge.UnsupportedError, match="other sizes than the input; expand it"):
        check(lambda x, m: aten._masked_softmax(x, m, 3, 1), torch.rand(2, 1, 3, 3), mask)


def test_attention_with_its_weights() -> None:
    q, k = torch.rand(1, 4, 3, 8), torch.rand(1, 2, 5, 8)
    op = aten._scaled_dot_product_attention_math
    check(lambda q, k: op(q, k, k, enable_gqa=True, scale=0.3), q, k)
    check(lambda q, k: op(q, k, k, is_causal=True), q.half(), torch.rand(1, 4, 5, 8).half(), rtol=2e-3, atol=2e-3)
    check(lambda q, k: op(q, k, k), torch.randint(-3, 4, (1, 4, 3, 8)), torch.rand(1, 4, 5, 8))
    check(lambda q, k: op(q, k, k), torch.rand(1, 4, 3, 8) > 0.5, torch.rand(1, 4, 5, 8))
    check(op, torch.tensor([True, True, False]), torch.zeros(1, 2, 3), torch.zeros(1, 2, 1))
    mask = torch.zeros(3, 5).masked_fill(torch.rand(3, 5) > 0.5, -float("inf"))
    mask[1] = -float("inf")
    check(lambda q, k, mask: op(q, k, k, mask), q, torch.rand(1, 4, 5, 8), mask)
    check(lambda q, k, mask: op(q, k, k, mask), q, torch.rand(1, 4, 5, 8), mask == 0)
    with pytest.raises(opbridge.UnsupportedError, match="dropout is random"):
        check(lambda q, k: op(q, k, k, None, 0.5), q, q)


def test_products_with_an_activation() -> None:
    a, b = torch.randn(3, 4), torch.randn(3, 3)
    check(
        {
            str(gelu): lambda a, b, g=gelu: aten._addmm_activation(b, a, a.T, beta=2, alpha=-1, use_gelu=g)
            for gelu in (0, 1)
        },
        a,
        b,
    )
    check(aten._compute_linear_combination, torch.rand(3, 4, 4), torch.rand(2, 3))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int32, torch.int64])
def test_sums_with_an_activation(dtype: torch.dtype) -> None:
    x, y = (torch.randint(-9, 9, (3, 4)).to(dtype) for _ in range(2))
    check(
        {
            "tensor": lambda x, y: aten._add_relu(x, y[0]),
            "alpha": lambda x, y: aten._add_relu(x, y, alpha=-2),
            "scalar": lambda x, y: aten._add_relu(x, -3, 2),
            "in place": lambda x, y: aten._add_relu_(x + 0, y),
        },
        x,
        y,
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
def test_gradients_of_selections(dtype: torch.dtype) -> None:
    dy, x, rows = torch.rand(3, 4).to(dtype), torch.rand(3, 4).to(dtype), torch.tensor([0, 2, 2, 1])
    indices = torch.tensor([[0, 2, 2, 1], [1, 2, 0, 1], [0, 2, 2, 2]])
    check(lambda dy, x, i: aten.gather_backward(dy, x, -2, i, False), dy, x, indices)
    check(lambda dy, x, i: aten.gather_backward(dy[:2, :3], x, 1, i[:2, :3], False), dy, x, indices)
    check(lambda dy, x: aten.cummaxmin_backward(dy, x, x.cummax(-1)[1], -1), dy, x)
    check(
        {
            "selected": lambda dy, i: aten.index_select_backward(dy, [3, 5], 1, i),
            "reduced": lambda dy, i: aten.value_selecting_reduction_backward(dy[0], 0, i, [3, 4], False),
            "kept": lambda dy, i: aten.value_selecting_reduction_backward(dy[:1], -2, i[None], [3, 4], True),
            "a number": lambda dy, i: aten.value_selecting_reduction_backward(dy[0, 0], 0, i[0], [], False),
        },
        dy,
        rows,
    )


def test_gradients_of_kernels() -> None:
    dy, x, weight = torch.rand(2, 3, 4, 5), torch.rand(2, 4, 7, 5), torch.rand(3, 4, 3, 3)
    op = aten._slow_conv2d_backward.output_mask
    check(lambda dy, x, w: op(dy, x, w, [3, 3], [2, 1], [1, 1], [True] * 3), dy, x, weight)


@pytest.mark.skipif(torch.__version__ < (2, 14), reason="torch 2.13 has no shape rule for it")
def test_the_sampling_kernel_of_cpus() -> None:
    dy, x, grid = torch.rand(1, 2, 3, 4), torch.rand(1, 2, 5, 6), torch.rand(1, 3, 4, 2) * 2.2 - 1.1
    check(lambda x, g: aten._grid_sampler_2d_cpu_fallback(x, g, 0, 1, True), x, grid)
    for mode, padding in ((0, 0), (0, 1), (1, 2)):
        check(
            lambda *tensors, mode=mode, padding=padding: aten._grid_sampler_2d_cpu_fallback_backward(
                *tensors, mode, padding, True
            ),
            dy,
            x,
            grid,
        )


def test_gradients_of_embeddings() -> None:
    dy, indices = torch.rand(3, 4), torch.tensor([0, 2, 2])
    check(lambda dy, i: aten.embedding_backward(dy, i, 5, 0, True, False), dy, indices)


def test_statistics_of_a_batch() -> None:
    x, values = torch.rand(2, 3, 4), torch.rand(3)
    check(lambda x: aten.batch_norm_update_stats(x, None, None, 0.1), x)
    with pytest.raises(opbridge.UnsupportedError, match="pass None for both"):
        check(lambda x, mean, var: aten.batch_norm_update_stats(x, mean, var, 0.1), x, values, values)


def test_lists_of_sums_of_powers() -> None:
    check(lambda x, y: aten._foreach_powsum([x, y], 3), torch.rand(3, 4), torch.rand(2))


def test_gradients() -> None:
    dy, x, mask = torch.randn(3, 4), torch.randn(3, 4), torch.rand(3, 4) > 0.5
    check(aten.infinitely_differentiable_gelu_backward, dy, x)
    check(aten.fake_quantize_per_tensor_affine_cachemask_backward, dy, mask)
    check(aten.fake_quantize_per_channel_affine_cachemask_backward, dy, mask)
    check({str(sizes): lambda dy, s=sizes: aten.trace_backward(dy, s) for sizes in ([3, 4], [4, 2])}, torch.tensor(2.5))


@CAPTURES
def test_integers_below_a_tensor(capture: Any, tmp_path: Any) -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor, high: torch.Tensor) -> torch.Tensor:
            return torch.randint_like(x, high)

    path = tmp_path / "model.onnx"
    opbridge.export(Model(), (torch.zeros(4000), torch.tensor(5)), path, capture=capture, random=True)
    [drawn] = opbridge.runtime.run(opbridge.session(path), {"x": torch.zeros(4000), "high": torch.tensor(3)})
    assert drawn.dtype == torch.float32
    shares = drawn.long().bincount() / 4000
    torch.testing.assert_close(shares, torch.full((3,), 1 / 3), atol=0.04, rtol=0)


def test_histograms() -> None:
    points, edges = torch.rand(9, 2), (torch.linspace(0, 1, 4), torch.linspace(0, 1, 3))
    check(
        {
            "edges": lambda x: aten._histogramdd_bin_edges(x, [3, 2], range=[0.0, 1.0, 0.0, 2.0]),
            "counts": lambda x: aten._histogramdd_from_bin_cts(x, [3, 2], density=True),
        },
        points,
    )
    check(lambda x, a, b: aten._histogramdd_from_bin_tensors(x, [a, b]), points, *edges)


def test_solving() -> None:
    factor = torch.linalg.cholesky(torch.eye(3) + 0.1)
    check(lambda b, a: aten._cholesky_solve_helper(b, a, False), torch.rand(3, 2), factor)
    check(lambda b, a: aten._cholesky_solve_helper(b, a, True), torch.rand(3, 2), factor.mT.contiguous())
    check(
        lambda b, a: torch.view_as_real(aten._cholesky_solve_helper(b, a, False)),
        torch.rand(3, 2, dtype=torch.complex64),
        factor.to(torch.complex64),
    )


@CAPTURES
@pytest.mark.parametrize("name", ["_cummax_helper", "_cummin_helper"])
def test_operators_that_return_nothing_write_their_arguments(capture: Any, name: str, tmp_path: Any) -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            values, indices = torch.zeros_like(x), torch.zeros_like(x, dtype=torch.int64)
            getattr(aten, name)(x, values, indices, 1)
            return values + 1, indices + 1

    opbridge.export(Model(), (torch.rand(3, 4),), tmp_path / "model.onnx", capture=capture, verify=True)


def test_a_mask_of_one_number() -> None:
    masked = {"shown": lambda x: aten._masked_softmax(x, x > 9), "hidden": lambda x: aten._masked_softmax(x, x < 9)}
    check(masked, torch.tensor(2.0))


@pytest.mark.parametrize(
    ("x", "coefficients"),
    [
        (torch.ones(3, 4), torch.ones(2, 2)),
        (torch.ones(3, 4), torch.ones(2, 3, dtype=torch.float64)),
        (torch.ones(3, 4, dtype=torch.int32), torch.ones(2, 3, dtype=torch.int32)),
    ],
    ids=["columns", "type", "integers"],
)
def test_coefficients_that_do_not_fit_are_refused(x: torch.Tensor, coefficients: torch.Tensor, tmp_path: Any) -> None:
    # PyTorch's kernel would read other memory; torch.export runs its rule of shapes alone.
    with pytest.raises(opbridge.UnsupportedError, match="a column for each slice"):
        opbridge.export(aten._compute_linear_combination, (x, coefficients), tmp_path / "model.onnx")
