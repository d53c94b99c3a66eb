import math

import pytest
import torch
from lowering_check import check, operators

FUNCTIONS = {
    "topk": lambda x: tuple(x.topk(2)),
    "topk of the least": lambda x: tuple(x.topk(2, 0, largest=False)),
    "sort": lambda x: tuple(x.sort()),
    "sort down": lambda x: tuple(x.sort(0, descending=True)),
    "stable sort": lambda x: tuple(x.sort(dim=-1, stable=True)),
    "msort": lambda x: x.msort(),
    "argsort": lambda x: x.argsort(0, descending=True),
    "stable argsort": lambda x: torch.argsort(x, dim=1, stable=True),
    "kthvalue": lambda x: tuple(x.kthvalue(2, 0)),
    "kthvalue keeping the dim": lambda x: tuple(x.kthvalue(1, -1, keepdim=True)),
    "median": lambda x: x.median(),
    "median over one": lambda x: tuple(x.median(0)),
    "median keeping the dim": lambda x: tuple(x.median(1, keepdim=True)),
}


def numbers(*shape):
    return torch.randperm(math.prod(shape), generator=torch.Generator().manual_seed(0)).reshape(shape).float() - 7


@pytest.mark.parametrize("opset", [13, 17, 21])
def test_opsets(opset):
    check(FUNCTIONS, numbers(3, 5), opset=opset)


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int8, torch.uint8]
)
def test_element_types(dtype):
    check(FUNCTIONS, (numbers(3, 5) + (7 if dtype == torch.uint8 else 0)).to(dtype))


def test_equal_elements_keep_their_order():
    stable = {
        "up": lambda x: tuple(x.sort(stable=True)),
        "down": lambda x: tuple(x.sort(stable=True, descending=True)),
        "of bools": lambda x: tuple((x > 1).sort(stable=True)),
    }
    check(stable, torch.tensor([1.0, 2.0, 2.0, 1.0, 2.0, 1.0, 3.0]))


def test_dynamic_shapes():
    sizes = ({0: "rows", 1: "columns"},)
    functions = FUNCTIONS | {"all but one": lambda x: tuple(x.topk(x.shape[1] - 1))}
    check(functions, numbers(3, 5), dynamic=sizes, also=[(numbers(4, 8),), (numbers(5, 3),)])


def test_no_dims():
    functions = {
        "sort": lambda x: tuple(x.sort()),
        "topk": lambda x: tuple(x.topk(1)),
        "median": lambda x: x.median(),
        "kthvalue": lambda x: tuple(x.kthvalue(1)),
    }
    check(functions, torch.tensor(3.0))


def test_median_of_nan():
    x = numbers(3, 5)
    x[1, 2] = math.nan
    check({name: FUNCTIONS[name] for name in ("median", "median over one", "median keeping the dim")}, x)


def test_nan_is_the_greatest():
    x = torch.tensor([[1.0, 2, math.nan, -2, 0.5, 3, math.inf], [math.nan, 3, -math.inf, math.inf, math.nan, 0, 1]])
    three = {"kthvalue": lambda x: tuple(x.kthvalue(3)), "topk": lambda x: tuple(x.topk(3))}
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        check(FUNCTIONS | three, x.to(dtype), also=[(-x.to(dtype),)])


def test_one_node():
    assert operators(check(lambda x: tuple(x.topk(2)), numbers(6).long())) == ["TopK"]


TYPES = [torch.float32, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]


@pytest.mark.parametrize("dtype", [*TYPES, torch.bool])
def test_median_of_nothing(dtype):
    functions = {"median": torch.median, "nanmedian": torch.nanmedian}
    check(functions, torch.zeros(1, 0, 3, dtype=dtype))
    masked = {name: lambda x, f=f: f(x[x > 2]) for name, f in functions.items()}
    check(masked, torch.tensor([5, 1, 3], dtype=dtype), also=[(torch.ones(3, dtype=dtype),)])
