"""Scaled dot-product attention, also with the log-sum-exp of its rows."""

import math

import onnx
import pytest
import torch
from lowering_check import check, operators
from torch.nn.attention.bias import causal_lower_right, causal_upper_left
from torch_versions import since_torch_2_14

import opbridge

attention = torch.nn.functional.scaled_dot_product_attention
flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
OPSETS = [13, 21, 23]


def heads(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


QUERY, KEY, VALUE = heads(2, 4, 5, 8), heads(2, 4, 7, 8), heads(2, 4, 7, 6)


@pytest.mark.parametrize("opset", OPSETS)
def test_forms(opset):
    functions = {
        "plain": lambda q, k, v: attention(q, k, v),
        "scale": lambda q, k, v: attention(q, k, v, scale=0.3),
        "causal, more keys": lambda q, k, v: attention(q, k, v, is_causal=True),
        "causal, more queries": lambda q, k, v: attention(q, k[:, :, :3], v[:, :, :3], is_causal=True),
        "one batch of keys": lambda q, k, v: attention(q, k[:1], v[:1]),
        "three dims": lambda q, k, v: attention(q[0], k[0], v[0]),
        "nothing to attend to": lambda q, k, v: attention(q, k[:, :, :0], v[:, :, :0]),
    }
    exported = check(functions, QUERY, KEY, VALUE, opset=opset)
    assert operators(exported).count("Attention") == (4 if opset >= 23 else 0)


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("shape", [(5, 7), (2, 4, 5, 7), (1, 1, 5, 7), (2, 1, 1, 7), (4, 5, 7), (5, 1)])
def test_masks(opset, shape):
    added = heads(*shape)
    hiding = added.masked_fill(added < 0.5, -math.inf)
    masks = (added, hiding, added > 0.5)
    functions = {
        f"mask {i}": lambda q, k, v, *masks, i=i: attention(q, k, v, attn_mask=masks[i]) for i in range(len(masks))
    }
    check(functions, QUERY, KEY, VALUE, *masks, opset=opset)


@pytest.mark.parametrize("opset", OPSETS)
def test_rows_that_a_mask_hides_are_zeros(opset):
    shown = torch.ones(5, 7, dtype=torch.bool).tril()
    shown[2] = False
    functions = {
        "bool": lambda q, k, v, mask: attention(q, k, v, attn_mask=mask),
        "float": lambda q, k, v, mask: attention(q, k, v, attn_mask=torch.where(mask, 0.0, -math.inf)),
    }
    check(functions, QUERY, KEY, VALUE, shown, opset=opset)


@pytest.mark.parametrize("opset", OPSETS)
def test_tables_of_positions_are_asked_whether_they_hide_rows_when_exported(opset):
    indices = torch.arange(5)[:, None] - torch.arange(7) + 6
    finite = heads(11, 4)
    hiding = finite.masked_fill(torch.arange(11)[:, None] < 8, -math.inf)

    def biased(table):
        shift = torch.zeros(5, 7).masked_fill(torch.arange(7) > 5, -100.0)
        return lambda q, k, v: attention(q, k, v, attn_mask=table[indices].permute(2, 0, 1) + shift)

    assert "Where" not in operators(check({"finite": biased(finite)}, QUERY, KEY, VALUE, opset=opset))
    assert "Where" in operators(check({"hiding": biased(hiding)}, QUERY, KEY, VALUE, opset=opset))


def test_a_table_that_is_doubled_often_is_looked_at_once_and_may_become_infinite():
    def biased(count, start):
        def function(q, k, v):
            table = start
            for _ in range(count):
                table = table + table
            return attention(q, k, v, attn_mask=table)

        return function

    assert "Where" not in operators(check({"few": biased(20, torch.full((5, 7), -1e-6))}, QUERY, KEY, VALUE))
    assert "Where" in operators(check({"infinite": biased(60, torch.full((5, 7), -1e29))}, QUERY, KEY, VALUE))


@pytest.mark.parametrize("opset", OPSETS)
def test_nan_is_not_a_hidden_row(opset):
    query = QUERY.clone()
    query[0, 1, 2] = math.nan
    functions = {
        "no mask": lambda q, k, v: attention(q, k, v),
        "mask": lambda q, k, v: attention(q, k, v, attn_mask=torch.zeros(5, 7)),
    }
    check(functions, query, KEY, VALUE, opset=opset)


@pytest.mark.parametrize("opset", OPSETS)
def test_grouped_queries(opset):
    check(lambda q, k, v: attention(q, k, v, enable_gqa=True), QUERY, KEY[:, :2], VALUE[:, :2], opset=opset)


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_other_floats(opset, dtype):
    tolerance = {} if dtype == torch.float64 else {"rtol": 2e-2, "atol": 2e-2}
    check(attention, *(tensor.to(dtype) for tensor in (QUERY, KEY, VALUE)), opset=opset, **tolerance)


@pytest.mark.parametrize("opset", OPSETS)
def test_dynamic_sizes(opset):
    batch, length = torch.export.Dim("batch"), torch.export.Dim("length")
    dims = {0: batch, 2: length}
    also = [(heads(3, 4, 9, 8), heads(3, 4, 9, 8), heads(3, 4, 9, 8), heads(9, 9) > 0)]
    check(
        {
            "plain": lambda q, k, v, mask: attention(q, k, v),
            "causal": lambda q, k, v, mask: attention(q, k, v, is_causal=True),
            "mask": lambda q, k, v, mask: attention(q, k, v, attn_mask=mask),
        },
        *(QUERY, QUERY, QUERY, heads(5, 5) > 0),
        opset=opset,
        dynamic=(dims, dims, dims, {0: length, 1: length}),
        also=also,
    )


@pytest.mark.parametrize("opset", OPSETS)
def test_attention_and_its_sums(opset):
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 3, length, 8) for length in (4, 4, 4))
    functions = {
        "plain": lambda q, k, v: flash(q, k, v),
        "causal": lambda q, k, v: flash(q, k, v, is_causal=True, scale=0.5),
        "mask": lambda q, k, v: flash(q, k, v, attn_mask=k[:, :, :, :4]),
    }
    check(functions, q, k, v, opset=opset, dynamic=({0: torch.export.Dim.DYNAMIC},) * 3, also=[(q[:1], k[:1], v[:1])])


@pytest.mark.parametrize("scale", [-0.5, 0.0, 0.25])
def test_any_scale(scale):
    check(lambda q: attention(q, q, q, scale=scale), heads(1, 2, 3, 4), opset=23)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_the_standard_has_attention_of_half_types(dtype, tmp_path):
    # The standard rounds the scale to float32, too much for float64.
    inputs = tuple(tensor.to(dtype) for tensor in (QUERY, KEY, VALUE))
    opbridge.export(attention, inputs, tmp_path / "model.onnx", target="onnx", opset_version=23)
    assert ("Attention" in operators(onnx.load(tmp_path / "model.onnx"))) == (dtype != torch.float64)


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_causal_by_the_length_of_the_query(capture, tmp_path):
    """One query attends to all keys of a cache, as in openai-whisper."""

    class Attention(torch.nn.Module):
        def forward(self, x, cache):
            keys = torch.cat([cache, x], 2)
            return torch.nn.functional.scaled_dot_product_attention(
                x, keys, keys, is_causal=cache is not None and x.shape[2] > 1
            )

    path, sizes = tmp_path / "m.onnx", ({0: "b", 2: "n"}, {0: "b", 2: "cached"})
    args = [
        (torch.randn(b, 2, n, 4), torch.randn(b, 2, cached, 4)) for b, n, cached in ((2, 3, 5), (1, 1, 4), (3, 4, 2))
    ]
    opbridge.export(Attention(), args[0], path, dynamic_shapes=sizes, capture=capture)
    for each in args:
        assert opbridge.verify(path, Attention(), each).ok


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize("bias", [causal_lower_right, causal_upper_left])
@pytest.mark.parametrize("sizes", [None, ({2: "n"}, {2: "m"})], ids=["constant", "dynamic"])
def test_causal_by_a_bias(sizes, bias, capture, tmp_path):
    """A class of torch, whose objects no mode can make."""
    pairs = [(3, 5), (2, 2), (1, 4), (4, 6)]
    for example in pairs[:2]:
        path, calls = tmp_path / "m.onnx", [example, *(pairs if sizes else ())]
        inputs = [(torch.randn(1, 2, n, 4), torch.randn(1, 2, m, 4)) for n, m in calls]

        def attend(query, key):
            return attention(query, key, key, bias(query.shape[2], key.shape[2]))

        opbridge.export(attend, inputs[0], path, dynamic_shapes=sizes, capture=capture)
        for each in inputs:
            assert opbridge.verify(path, attend, each).ok
    assert bias(2, 3).seq_len_kv == 3


@pytest.mark.parametrize(
    ("function", "args", "message"),
    [
        pytest.param(
            attention,
            (torch.zeros(4, 1, 5), torch.zeros(4, 2, 5), torch.zeros(4, 1, 5)),
            "there are 2 keys and 1 values",
            marks=since_torch_2_14("attention checks the number of values"),
        ),
        (
            torch.ops.aten._transform_bias_rescale_qkv,
            (torch.zeros(1, 1, 3, 1), torch.zeros(3), 1),
            "three dims and the bias one",
        ),
    ],
)
def test_values_that_do_not_fit_are_refused(function, args, message, tmp_path):
    """PyTorch's kernels read out of bounds."""
    with pytest.raises(opbridge.UnsupportedError, match=message):
        opbridge.export(function, args, tmp_path / "m.onnx")
