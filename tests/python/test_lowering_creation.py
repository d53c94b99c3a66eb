import math

import pytest
import torch
import torch.nn.functional as F
from lowering_check import check, operators

FUNCTIONS = {
    "zeros": lambda x: torch.zeros(2, x.shape[0]),
    "zeros without dims": lambda x: torch.zeros(()),
    "new_zeros": lambda x: x.new_zeros(x.shape),
    "zeros_like": lambda x: torch.zeros_like(x, dtype=torch.int8),
    "ones": lambda x: torch.ones(x.shape[1], dtype=torch.int64),
    "new_ones": lambda x: x.new_ones((2,), dtype=torch.bool),
    "ones_like": lambda x: torch.ones_like(x),
    "full": lambda x: torch.full((x.shape[0], 2), 7),
    "full of infinity": lambda x: torch.full((2,), -math.inf),
    "full of a size": lambda x: torch.full((2,), x.shape[0]),
    "full of bools": lambda x: torch.full((x.shape[1],), True),
    "full in bfloat16": lambda x: torch.full((2, x.shape[0]), 1.5, dtype=torch.bfloat16),
    "full in float16": lambda x: torch.full((2, x.shape[0]), 1.5, dtype=torch.float16),
    "full_like": lambda x: torch.full_like(x, 2.5),
    "new_full": lambda x: x.new_full((3,), 3),
    "fill": lambda x: torch.ops.aten.fill.Scalar(x, 3),
    "fill with a tensor": lambda x: torch.ops.aten.fill.Tensor(x, x[0, 0]),
    "zero": lambda x: torch.ops.aten.zero(x),
    "scalar_tensor": lambda x: torch.scalar_tensor(3.5),
    "eye": lambda x: torch.eye(3),
    "eye by sizes": lambda x: torch.eye(x.shape[0], 4, dtype=torch.int64),
    "eye of bools": lambda x: torch.eye(3, dtype=torch.bool),
    "eye of int8": lambda x: torch.eye(3, dtype=torch.int8),
    "tril_indices": lambda x: torch.tril_indices(3, 4),
    "triu_indices": lambda x: torch.triu_indices(3, 4, 1),
    "fftfreq": lambda x: torch.fft.fftfreq(9, 0.3),
    "fftfreq of float64": lambda x: torch.fft.fftfreq(8, 2.0, dtype=torch.float64),
    "rfftfreq": lambda x: torch.fft.rfftfreq(9, 0.3),
    "rfftfreq of an even number": lambda x: torch.fft.rfftfreq(8),
    "linspace": lambda x: torch.linspace(0, 1, 7),
    "linspace of integers": lambda x: torch.linspace(-3, 10, 5, dtype=torch.int64),
    "linspace of one": lambda x: torch.linspace(3, 4, 1),
    "linspace of none": lambda x: torch.linspace(3, 4, 0),
    "linspace in float16": lambda x: torch.linspace(-1, 1, 9, dtype=torch.float16),
    "logspace": lambda x: torch.logspace(0, 2, 5),
    "logspace base 2": lambda x: torch.logspace(-1, 3, 4, base=2),
    "logspace of one, to a tensor": lambda x: torch.logspace(2, x.sum(), 1),
    "one_hot": lambda x: F.one_hot(x.argmax(1), 9),
}
RANGES = {
    "end": lambda x: torch.arange(x.shape[0]),
    "float end": lambda x: torch.arange(5.0),
    "as floats": lambda x: torch.arange(x.shape[0], dtype=torch.float32),
    "as int8": lambda x: torch.arange(3, dtype=torch.int8),
    "as int32": lambda x: torch.arange(x.shape[1], dtype=torch.int32),
    "as bfloat16": lambda x: torch.arange(x.shape[1], dtype=torch.bfloat16),
    "step": lambda x: torch.arange(1, 2 * x.shape[1], 2),
    "float step": lambda x: torch.arange(0, 1, 0.1),
    "fraction to a size": lambda x: torch.arange(0.5, x.shape[0]),
    "downwards": lambda x: torch.arange(7, 2, -2),
    "integers from floats": lambda x: torch.arange(0, 2.5, dtype=torch.int64),
    "none": lambda x: torch.arange(0),
}
TRIANGLES = {
    "tril": lambda x: torch.tril(x),
    "tril -1": lambda x: torch.tril(x, -1),
    "triu 1": lambda x: torch.triu(x, 1),
    "triu of bools": lambda x: torch.triu(x > 0),
    "tril of int32": lambda x: torch.tril((x * 3).int(), 1),
    "tril of int8": lambda x: torch.tril((x * 3).to(torch.int8)),
}


@pytest.mark.parametrize("opset", [13, 17, 21])
def test_opsets(opset):
    check(FUNCTIONS | RANGES | TRIANGLES, torch.randn(2, 3), opset=opset)


@pytest.mark.parametrize("opset", [13, 21])
def test_dynamic_shapes(opset):
    sizes = ({0: "rows", 1: "columns"},)
    check(
        FUNCTIONS | RANGES | TRIANGLES,
        torch.randn(2, 3),
        opset=opset,
        dynamic=sizes,
        also=[(torch.randn(5, 4),), (torch.randn(3, 7),)],
    )


@pytest.mark.parametrize("opset", [13, 21])
def test_places_that_go_down_or_begin_below_zero(opset):
    """ONNX Runtime fuses a Gather of a Range to a Slice."""
    check(
        {
            "down": lambda x: x[torch.arange(x.shape[0] - 1, -1, -1)],
            "by two": lambda x: x[torch.arange(x.shape[0] - 1, -1, -2)],
            "from below": lambda x: x[torch.arange(-x.shape[0], 0)],
            "up": lambda x: x[torch.arange(1, x.shape[0])],
            "embedding": lambda x: F.embedding(torch.arange(x.shape[0] - 1, -1, -1), x),
        },
        torch.randn(4, 3),
        dynamic=[{0: torch.export.Dim.DYNAMIC}],
        also=[(torch.randn(7, 3),)],
        opset=opset,
    )


def test_triangle_of_batches():
    check(TRIANGLES, torch.randn(2, 4, 3), dynamic=({0: "batch"},), also=[(torch.randn(5, 4, 3),)])


def test_constants_are_folded():
    assert operators(check(lambda x: torch.zeros(2, 3) + x, torch.randn(3))) == ["Add"]


def test_empty_has_shape_and_type():
    def forward(x):
        return (
            torch.empty(2, x.shape[0], dtype=torch.int32) * 0,
            torch.empty_like(x).fill_(2.0),
            x.new_empty(3).fill_(1.0),
        )

    check(forward, torch.randn(3), dynamic=({0: "n"},), also=[(torch.randn(5),)])


def test_one_hot_of_as_many_classes_as_are_found():
    check(lambda x: F.one_hot(x), torch.tensor([0, 2, 1]), also=[(torch.tensor([4, 0, 0]),)])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("steps", [1, 2, 4, 5])
def test_linspace_between_infinite_ends(steps, dtype):
    inf = float("inf")
    for start, end in ((-inf, -3.0), (1.0, inf), (inf, inf), (1.0, float("nan")), (-1e38, 3e38)):
        functions = {
            f"{f.__name__} {start} {end}": lambda x, y, f=f, start=start, end=end: (
                f(x, y, steps, dtype=dtype),
                f(x, end, steps, dtype=dtype),
                f(start, y, steps, dtype=dtype),
                f(start, end, steps, dtype=dtype),
            )
            for f in (torch.linspace, torch.logspace)
        }
        check(functions, torch.tensor(start, dtype=dtype), torch.tensor(end, dtype=dtype))


def test_unusual_windows_and_frequencies():
    functions = {
        "negative beta": lambda x: x + torch.kaiser_window(5, periodic=False, beta=-2.5).sum(),
        "fewer than no samples": lambda x: (torch.fft.rfftfreq(-1), torch.fft.rfftfreq(-2), torch.fft.rfftfreq(0)),
    }
    check(functions, torch.ones(2))
