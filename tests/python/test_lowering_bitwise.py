import pytest
import torch
from lowering_check import check, operators

import opbridge

INTEGERS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]


def integers(dtype):
    numbers = torch.tensor([0, 1, 2, 5, 100, 127, -1, -2, -128])
    return numbers.to(dtype)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_logic_of_integers(dtype):
    a, b = integers(dtype), integers(dtype).flip(0)
    functions = {
        "and": lambda a, b: a & b,
        "or": lambda a, b: a | b,
        "xor": lambda a, b: a ^ b,
        "not": lambda a, b: ~a,
        "and number": lambda a, b: a & 6,
        "function": torch.bitwise_or,
        "logical": torch.logical_and,
    }
    check(functions, a, b)


@pytest.mark.parametrize("opset", [13, 21])
def test_logic_of_bools(opset):
    a, b = torch.tensor([True, False, True, False]), torch.tensor([True, True, False, False])
    functions = {
        "and": lambda a, b: a & b,
        "or": lambda a, b: a | b,
        "xor": lambda a, b: a ^ b,
        "not": lambda a, b: ~a,
        "logical and": torch.logical_and,
        "logical or": lambda a, b: torch.logical_or(a, b.float()),
        "logical xor": torch.logical_xor,
        "logical not": lambda a, b: torch.logical_not(b.int()),
        "with true": lambda a, b: a & True,
    }
    check(functions, a, b, opset=opset)


@pytest.mark.parametrize("opset", [13, 21])
@pytest.mark.parametrize("dtype", INTEGERS)
def test_shifts_by_numbers(dtype, opset):
    last = torch.iinfo(dtype).bits - 1
    functions = {f"left {n}": lambda a, n=n: a << n for n in (0, 1, 3, last)}
    functions |= {f"right {n}": lambda a, n=n: a >> n for n in (0, 1, 3, last)}
    if dtype == torch.uint8:
        functions |= {"left by all bits": lambda a: a << 9, "right by all bits": lambda a: a >> 8}
    check(functions, integers(dtype), opset=opset)


def test_shifts_by_tensors():
    a = torch.tensor([1, 2, 255, 3], dtype=torch.uint8)
    b = torch.tensor([1, 7, 9, 0], dtype=torch.uint8)
    check({"left": lambda a, b: a << b, "right": lambda a, b: a >> b}, a, b)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int8])
def test_shifts_of_signed_integers_by_tensors(dtype):
    bits = torch.iinfo(dtype).bits
    a = torch.tensor([1, -1, 5, -7, 100, -128, 3], dtype=dtype)
    b = torch.tensor([0, 1, 3, 2, bits - 1, bits - 1, bits], dtype=dtype)
    check({"left": lambda a, b: a << b, "right": lambda a, b: a >> b}, a, b)


def test_shift_of_uint8_is_one_bit_shift():
    assert operators(check(lambda x: x << 1, torch.tensor([1, 2, 200], dtype=torch.uint8))) == ["BitShift"]


def test_integers_need_opset_18():
    with pytest.raises(opbridge.UnsupportedError, match="opset_version=18"):
        check(lambda a: a & 3, integers(torch.int64), opset=17)
    check(lambda a: ~a, integers(torch.int64), opset=17)


@pytest.mark.parametrize("opset", [17, 18])
@pytest.mark.parametrize("function", [lambda x: x | x, lambda x: x & 3], ids=["or", "and"])
def test_floats_in_a_branch_that_is_not_taken(function, opset):
    def by_size(x, y):
        return function(x) if x.shape[0] == y.shape[0] else x

    shapes = {"dynamic_shapes": ({0: "n"}, {1: "m"}), "opset_version": opset}
    with pytest.raises(opbridge.UnsupportedError, match="bitwise operators take integers and bools"):
        opbridge.export(by_size, (torch.rand(1, 2), torch.rand(3, 1)), capture="trace", **shapes)


def test_dynamic_shape():
    check(
        {"not": lambda a: ~a, "shift": lambda a: a >> 2, "xor": lambda a: a ^ 5},
        torch.arange(6).reshape(2, 3),
        dynamic=({0: "rows"},),
        also=[(torch.arange(12).reshape(4, 3),)],
    )
