import math

import pytest
import torch
from lowering_check import check, operators

TYPES = [
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.bool,
]


@pytest.mark.parametrize("opset", [13, 21])
@pytest.mark.parametrize("dtype", TYPES)
def test_from_each_type_to_each(dtype, opset):
    numbers = torch.tensor([0.0, 1.0, 2.75, 100.5, -3.5] if dtype.is_floating_point else [0, 1, 2, 100, -3])
    # The conversion of a negative floating-point number to an unsigned integer is undefined.
    targets = [t for t in TYPES if not (dtype.is_floating_point and t == torch.uint8)]
    check({str(target): lambda x, target=target: x.to(target) for target in targets}, numbers.to(dtype), opset=opset)


def test_ways_to_say_it():
    functions = {
        "half": lambda x, y: x.half(),
        "double": lambda x, y: x.double(),
        "bool": lambda x, y: x.bool(),
        "to other": lambda x, y: x.to(y),
        "type_as": lambda x, y: x.type_as(y),
        "device": lambda x, y: x.to("cpu"),
        "device and type": lambda x, y: x.to("cpu", torch.int32),
        "copy": lambda x, y: torch.ops.aten.copy(x, y),
        "to_dense": lambda x, y: torch.ops.aten.to_dense(y) + torch.ops.aten.to_dense(x, torch.float64),
        "_to_copy": lambda x, y: torch.ops.aten._to_copy(x, dtype=torch.int16),
    }
    check(functions, torch.tensor([[1.5, -2.5], [0.0, 7.0]]), torch.tensor([3, 4], dtype=torch.int32))


def test_nan_is_true():
    check(lambda x: x.bool(), torch.tensor([math.nan, 0.0, -0.0, math.inf]))


def test_casts_by_way_of_another_type():
    x = torch.tensor([5e9, -5e9, 3e9, 70000.5, 256.0, 3.7, 0.5, -0.25, 1e-9, 0.0])
    for opset in (9, None):
        check(
            {
                "lower bits": lambda x: x.long().int(),
                "twice": lambda x: x.double().long().int().short(),
                "few": lambda x: (x.long() + 1).to(torch.uint8),
                "bool of an integer": lambda x: x.long().bool(),
                "bool of a short one": lambda x: x.long().to(torch.int8).bool(),
                "on by a longer one": lambda x: x.long().short().long().bool(),
                "bool of a short float": lambda x: x.half().bool(),
                "not": lambda x: x.long().logical_not(),
            },
            x,
            opset=opset,
        )


def test_what_changes_nothing_adds_no_node():
    def forward(x):
        return (x + 1).contiguous().clone().detach().to(torch.float32)

    assert operators(check(forward, torch.randn(2, 3))) == ["Add"]


def test_dynamic_copy():
    def forward(x, y):
        return torch.ops.aten.copy(x, y)

    sizes = ({0: "rows"}, {})
    check(forward, torch.randn(2, 3), torch.ones(3), dynamic=sizes, also=[(torch.randn(4, 3), torch.ones(3))])
