"""Numbers that models compute from dynamic sizes stay functions of these: rounding, math, windows, transforms."""

from __future__ import annotations

import math
import pathlib
import warnings
from collections.abc import Callable
from math import sqrt
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import opbridge
from checking.models import export_and_verify
from opbridge import TraceWarning

CAPTURES = pytest.mark.parametrize("capture", ["export", "trace"])
Function = Callable[..., Any]
LENGTHS = (1, 2, 7, 10, 90, 110)  # 0.7 * 90 is 62.99999999999999


def check(
    function: Function, folder: pathlib.Path, capture: Any, example: torch.Tensor, others: list[torch.Tensor], axes: Any
) -> None:
    export_and_verify(function, folder / "model.onnx", (example, *others), axes, capture)


def powers_of_two(x: torch.Tensor) -> torch.Tensor:
    return F.pad(x, (0, 2 ** math.ceil(math.log2(x.shape[0])) - x.shape[0]))


OF_LENGTHS: dict[str, Function] = {
    "a step of a range": lambda x: torch.arange(0.0, 10.0, x.shape[0]),
    "int of a product": lambda x: x[: int(x.shape[0] * 0.5)],
    "int of a decimal": lambda x: x[: int(x.shape[0] * 0.7)],
    "int of a quotient": lambda x: x[: int(x.shape[0] / 2)],
    "int of a size": lambda x: x + torch.arange(int(x.shape[0])),
    "float of a size": lambda x: x / float(x.shape[0]),
    "float of a difference": lambda x: x * float(x.shape[0] - 1) ** 0.5,
    "root of a float": lambda x: x / math.sqrt(float(x.shape[0])),
    "float is an element type beside int of a size": lambda x: x + torch.ones(int(x.shape[0]), dtype=float),
    "isinstance of a float": lambda x: x / float(x.shape[0]) + isinstance(float(x.shape[0]), float),
    "int of what may be negative": lambda x: x[: int((3 - x.shape[0]) * 0.5)],
    "two products": lambda x: x[: int(x.shape[0] * 0.7 * 0.3)],
    "two sums": lambda x: x[: int(x.shape[0] * 0.1 + 0.1 + 0.2)],
    "product of a sum": lambda x: x[: int(0.3 * (x.shape[0] + 1.7))],
    "round": lambda x: x[: round(x.shape[0] * 0.25)],
    "round halves": lambda x: x[: round((x.shape[0] - 1) / 2.0)],
    "floor": lambda x: x[: math.floor(x.shape[0] * 0.9)],
    "ceil": lambda x: x[: math.ceil(x.shape[0] * 0.3)],
    "trunc": lambda x: x[: math.trunc(x.shape[0] * 0.9)],
    "round within a sum": lambda x: F.pad(x, (0, 2 * round(x.shape[0] * 0.7) + x.shape[0])),
    "math.sqrt": lambda x: x / math.sqrt(x.shape[0]),
    "an imported sqrt": lambda x: x[: int(sqrt(x.shape[0]))],
    "numpy.sqrt": lambda x: x / np.sqrt(x.shape[0]) + np.sqrt(x.shape[0] / 2),
    "numpy.exp": lambda x: x * np.exp(-x.shape[0]) + np.hypot(x.shape[0], 3),
    "numpy.sin": lambda x: x * np.sin(x.shape[0]) + np.cos(x.shape[0]) * np.tanh(x.shape[0] / 8),
    "numpy.round": lambda x: x[: int(np.round(x.shape[0] / 4))] * np.rint(x.shape[0] / 2) + np.round(x.shape[0] / 3, 2),
    "floor of a float": lambda x: x * (x.shape[0] // 0.1) - x.shape[0] / 10 // 0.1 + 0.7 // (x.shape[0] / 2),
    "floor of a negative float": lambda x: x * ((7 - x.shape[0]) // 0.3) - 0.7 // (x.shape[0] - 12.5),
    "remainder of a float": lambda x: x * (x.shape[0] % 0.1) + (7 - x.shape[0]) % 2.5,
    "numpy.ceil": lambda x: x[: int(np.ceil(x.shape[0] / 2))],
    "numpy.prod": lambda x: x * np.prod(x.shape) + np.sum(x.shape) + np.array(x.shape)[0],
    "power of a half": lambda x: x * x.shape[0] ** -0.5,
    "power": lambda x: x.sum() * 2 ** min(x.shape[0], 30),
    "and": lambda x: x[: x.shape[0] & ~3],
    "shift": lambda x: x[: x.shape[0] >> 1],
    "exclusive or": lambda x: x[: x.shape[0] ^ 3],
    "bit_length": lambda x: F.pad(x, (0, (1 << (x.shape[0] - 1).bit_length()) - x.shape[0])),
    "divmod": lambda x: x[: sum(divmod(x.shape[0], 3))],
    "math.isqrt": lambda x: x[: math.isqrt(x.shape[0])],
    "math.gcd": lambda x: x[: math.gcd(x.shape[0], 12)] * math.gcd(12, x.shape[0] - 7),
    "math.lcm": lambda x: F.pad(x, (0, math.lcm(x.shape[0], 4) - x.shape[0])),
    "math.comb": lambda x: x * math.comb(x.shape[0], 2) + math.perm(x.shape[0], 3) + math.comb(x.shape[0], 0),
    "math.hypot": lambda x: x / math.hypot(x.shape[0], 3, x.shape[0] / 2),
    "math.exp": lambda x: x * math.exp(-x.shape[0] / 10) + math.exp(1 / x.shape[0]),
    "math.pow": lambda x: x[: int(math.pow(2, x.shape[0] % 5))] * math.pow(x.shape[0], -0.5),
    "math.fmod": lambda x: x * math.fmod(x.shape[0] - 7, 4) + math.fmod(7 - x.shape[0], -3),
    "math.copysign": lambda x: x * math.copysign(x.shape[0] - 7, -0.0) + math.fabs(x.shape[0] - 7),
    "complement": lambda x: x[: ~(5 - x.shape[0])] * ~x.shape[0],
    "abs": lambda x: x[: abs(x.shape[0] - 5)],
    "isinstance": lambda x: x[: int(x.shape[0] * 0.5)] * isinstance(int(x.shape[0] * 0.5), int),
    "topk": lambda x: x.topk(int(x.shape[0] * 0.5))[0],
    "quantile": lambda x: x.sort()[0][int(0.9 * (x.shape[0] - 1))],
}


IN_ARRAYS: dict[str, tuple[Function, str]] = {
    "arange": (lambda x: x * torch.tensor(np.arange(x.shape[0])), "cannot compute"),
    "from_numpy": (lambda x: x * torch.from_numpy(np.arange(x.shape[0])), "cannot compute"),
    "array": (lambda x: x * torch.tensor(np.array(x.shape)), "cannot compute"),
    "index": (lambda x: x[np.array([x.shape[0] - 1])], "cannot compute"),
    "arctan": (lambda x: x * np.arctan(x.shape[0]), "cannot compute"),
    "zeros": (lambda x: x + torch.tensor(np.zeros(x.shape[0])), "fixes it to 12: .* as NumPy's do"),
    "linspace": (lambda x: x + torch.tensor(np.linspace(0, 1, x.shape[0])), "fixes it to 12: .* as NumPy's do"),
    "full": (lambda x: x + torch.tensor(np.full(x.shape, 2.0)), "fixes it to 12: .* as NumPy's do"),
    "int64": (lambda x: x * np.int64(x.shape[0]), "fixes it to 12: .* as NumPy's do"),
    "arange of floats": (lambda x: x * torch.tensor(np.arange(x.shape[0], dtype=np.float32)), "fixes it to 12"),
}


@pytest.mark.filterwarnings("ignore:.*was converted to the number")
@pytest.mark.parametrize("name", IN_ARRAYS)
@CAPTURES
def test_sizes_in_arrays_are_refused_at_the_models_line(name: str, capture: Any, tmp_path: pathlib.Path) -> None:
    function, reason = IN_ARRAYS[name]
    with pytest.raises(opbridge.UnsupportedError, match=reason) as raised:
        check(function, tmp_path, capture, torch.linspace(0, 1, 12), [], {0: "n"})
    assert raised.value.where.startswith("test_size_arithmetic.py:")


REFUSED: dict[str, tuple[Function, str]] = {
    "digits": (lambda x: x * round(x.shape[0] * 0.333, 2), "cannot (round to decimal digits|express)"),
    "remainder of a float": (lambda x: x[: int(x.shape[0] % 2.5) + 1], "remainder of a fraction"),
    "sym_ite": (lambda x: x[: torch.sym_ite(x.shape[0] > 6, 2, 3)], "chooses .* by a condition; write an if"),
}


@pytest.mark.parametrize("name", REFUSED)
@CAPTURES
def test_sizes_that_no_graph_computes_are_refused_at_the_models_line(
    name: str, capture: Any, tmp_path: pathlib.Path
) -> None:
    function, reason = REFUSED[name]
    with pytest.raises(opbridge.UnsupportedError, match=reason) as raised:
        check(function, tmp_path, capture, torch.linspace(0, 1, 12), [], {0: "n"})
    assert "test_size_arithmetic.py:" in str(raised.value)


@pytest.mark.parametrize("name", OF_LENGTHS)
@CAPTURES
def test_arithmetic_on_lengths(name: str, capture: Any, tmp_path: pathlib.Path) -> None:
    others = [torch.linspace(1, -3, length) for length in LENGTHS]
    check(OF_LENGTHS[name], tmp_path, capture, torch.linspace(0, 1, 12), others, {0: "n"})


@CAPTURES
@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * math.gcd(x.shape[0], x.shape[0] // 2),
        lambda x: x * math.comb(x.shape[0], 9),
        lambda x: x * math.log(x.shape[0], 3),
        lambda x: x * math.fmod(x.shape[0], 1.5),
        lambda x: x * math.copysign(2, x.shape[0]),
        lambda x: x * math.factorial(x.shape[0]),
    ],
    ids=["gcd of sizes", "large products", "log to a base", "fmod by a float", "sign of a size", "factorial"],
)
def test_what_has_no_formula_is_refused_at_the_models_line(
    function: Function, capture: Any, tmp_path: pathlib.Path
) -> None:
    with pytest.raises(opbridge.UnsupportedError, match="fixes it to 12") as raised:
        check(function, tmp_path, capture, torch.ones(12), [], {0: "n"})
    assert raised.value.where.startswith("test_size_arithmetic.py:")


def test_arithmetic_in_a_branch(tmp_path: pathlib.Path) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        def half(x: torch.Tensor) -> torch.Tensor:
            return x[: int(x.shape[0] * 0.7)]

        return torch.cond(x.sum() > 0, half, lambda x: -half(x), (x,)) * math.trunc(x.shape[0] * 0.7)

    others = [torch.linspace(1, -3, length) for length in LENGTHS[1:]]
    check(model, tmp_path, "export", torch.linspace(0, 1, 12), others, {0: "n"})


@CAPTURES
@pytest.mark.parametrize(
    "function",
    [
        powers_of_two,
        lambda x: x * math.log(x.shape[0] + 1),
        lambda x: x * math.log10(x.shape[0]) + math.log1p(x.shape[0]) + math.log(x.shape[0], math.e),
        lambda x: F.pad(x, (0, math.ceil(math.log(x.shape[0], 2)) + int(math.log(x.shape[0], 10)))),
        lambda x: x * np.log(x.shape[0]),
    ],
    ids=["log2", "log", "log10", "to a base", "numpy.log"],
)
def test_logarithms(function: Function, capture: Any, tmp_path: pathlib.Path) -> None:
    others = [torch.ones(length) for length in (1, 2, 3, 4, 31, 32, 33, 1024)]
    check(function, tmp_path, capture, torch.ones(12), others, {0: "n"})


@CAPTURES
def test_rounding_to_digits(capture: Any, tmp_path: pathlib.Path) -> None:
    def tens(x: torch.Tensor) -> torch.Tensor:
        n = x.shape[0]
        return x * round(n, -1) + round(n * 50, -2) + round(n, 2)

    check(tens, tmp_path, capture, torch.ones(12), [torch.ones(n) for n in (1, 4, 5, 6, 14, 15, 25, 35, 99)], {0: "n"})
    with pytest.raises(opbridge.UnsupportedError, match=r"decimal digits|RoundDecimal"):
        check(lambda x: x * round(x.shape[0] / 7, 2), tmp_path, capture, torch.ones(12), [], {0: "n"})


def test_the_order_of_operations_is_kept(tmp_path: pathlib.Path) -> None:
    """100 * 0.7 * 0.3 is 21.0, but 90 * 0.7 * 0.3 is 18.899999999999995; sympy would multiply by 0.21."""
    differing = [n for n in range(1, 2000) if int(n * 0.7 * 0.3) != int(n * (0.7 * 0.3))]
    assert differing
    others = [torch.ones(n) for n in differing[:5]]
    check(OF_LENGTHS["two products"], tmp_path, "export", torch.ones(12), others, {0: "n"})


@CAPTURES
def test_a_comparison_made_a_number(capture: Any, tmp_path: pathlib.Path) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return x[: int(x.shape[0] * 0.5)] * int(x.shape[0] > 7)

    check(model, tmp_path, capture, torch.ones(12), [torch.ones(n) for n in (5, 7, 8)], {0: "n"})


@CAPTURES
def test_the_first_rows_are_as_many_as_in_the_example(capture: Any, tmp_path: pathlib.Path) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return torch.stack([row * 2 for row in x[:3]])

    with pytest.warns(TraceWarning, match="as the number 3"):
        check(model, tmp_path, capture, torch.rand(12, 2), [torch.rand(rows, 2) for rows in (3, 5)], {0: "n"})


def test_int_is_restored(tmp_path: pathlib.Path) -> None:
    check(OF_LENGTHS["int of a decimal"], tmp_path, "trace", torch.ones(12), [], {0: "n"})
    check(OF_LENGTHS["float of a size"], tmp_path, "trace", torch.ones(12), [], {0: "n"})
    assert "int" not in globals()
    assert "float" not in globals()
    assert sqrt is math.sqrt
    assert type(math.sqrt).__name__ == "builtin_function_or_method"


MADE: dict[str, Function] = {
    "hann": torch.hann_window,
    "hann, symmetric": lambda n: torch.hann_window(n, False),
    "hamming": lambda n: torch.hamming_window(n, False, 0.5),
    "blackman": torch.blackman_window,
    "bartlett": torch.bartlett_window,
    "bartlett, symmetric": lambda n: torch.bartlett_window(n, periodic=False),
    "kaiser": torch.kaiser_window,
    "kaiser, float64": lambda n: torch.kaiser_window(n, True, 3.0, dtype=torch.float64),
    "fftfreq": torch.fft.fftfreq,
    "rfftfreq": lambda n: torch.fft.rfftfreq(2 * n - 1, 0.5),
    "linspace": lambda n: torch.linspace(0, 1, n),
    "linspace to a size": lambda n: torch.linspace(0, n - 1, 5),
    "linspace between numbers": lambda n: torch.linspace(-n / 2, end=n / 2, steps=n + 1, dtype=torch.float64),
    "as_tensor": lambda n: torch.as_tensor(n * 2 / 3) + torch.asarray([n / 4, 1.0, n]),
    "new_tensor": lambda n: torch.ones(2).new_tensor([n / 4, n, 1.0]),
    "eye": lambda n: torch.eye(n).sum(0),
    "tril_indices": lambda n: torch.tril_indices(n, n + 1)[0],
    "triu_indices": lambda n: torch.triu_indices(n, n, 1)[1],
}


@pytest.mark.parametrize("name", MADE)
@CAPTURES
def test_tensors_made_by_size(name: str, capture: Any, tmp_path: pathlib.Path) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = MADE[name](x.shape[0])
        return made * x if made.shape == x.shape else made

    if name in ("rfftfreq", "tril_indices", "triu_indices"):
        model = lambda x: MADE[name](x.shape[0]) + x.sum().to(torch.int64)  # noqa: E731
    check(model, tmp_path, capture, torch.rand(12), [torch.rand(n) for n in (1, 2, 7, 30)], {0: "n"})


@pytest.mark.parametrize("name", MADE)
@CAPTURES
def test_tensors_made_by_a_part_of_a_size(name: str, capture: Any, tmp_path: pathlib.Path) -> None:
    """Of ``n // 4 + 1``, a number does not fix ``n``."""

    def model(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        count = x.shape[0] // 4 + 1
        return MADE[name](count), F.one_hot(torch.arange(count), num_classes=count) * x.sum()

    with warnings.catch_warnings():
        warnings.simplefilter("error", TraceWarning)
        check(model, tmp_path, capture, torch.rand(12), [torch.rand(n) for n in (2, 7, 30)], {0: "n"})


@CAPTURES
def test_one_hot_and_vander(capture: Any, tmp_path: pathlib.Path) -> None:
    def model(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        classes = torch.remainder(torch.arange(4), x.shape[0])
        return F.one_hot(classes, x.shape[0]), torch.vander(x, 3), torch.vander(x, increasing=True)

    check(model, tmp_path, capture, torch.rand(12), [torch.rand(n) for n in (1, 2, 5)], {0: "n"})


@CAPTURES
def test_one_hot_of_minus_one_class(capture: Any, tmp_path: pathlib.Path) -> None:
    """PyTorch counts the classes then, which is another shape: an error instead of no classes."""

    def model(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.one_hot(x, y.shape[0] - 5)

    path, x, dynamic = tmp_path / "model.onnx", torch.tensor([2, 0, 1]), ({0: "n"}, {0: "m"})
    opbridge.export(model, (x, torch.rand(8)), path, capture=capture, dynamic_shapes=dynamic)
    opbridge.verify(path, model, (torch.tensor([4, 0]), torch.rand(11)))
    with pytest.raises(opbridge.Error, match=r"ConstantOfShape.*must be >= 0"):
        opbridge.verify(path, model, (x, torch.rand(4)))


IMAGES = [(17, 55), (64, 64), (33, 31)]


def transforms() -> dict[str, Function]:
    functional = pytest.importorskip("torchvision.transforms.v2.functional")
    return {
        "resize": lambda x: functional.resize(x, [20], antialias=True),
        "resize to both": lambda x: functional.resize(x, [20, 30], antialias=False),
        "resize, max_size": lambda x: functional.resize(x, [20], max_size=40, antialias=True),
        "center_crop": lambda x: functional.center_crop(x, [16, 15]),
        "five_crop": lambda x: torch.cat(functional.five_crop(x, [16, 16])),
        "interpolate": lambda x: F.interpolate(x, size=(int(x.shape[2] * 0.5), round(x.shape[3] / 3))),
    }


@pytest.mark.parametrize(
    "name", ["resize", "resize to both", "resize, max_size", "center_crop", "five_crop", "interpolate"]
)
@CAPTURES
def test_transforms_of_images(name: str, capture: Any, tmp_path: pathlib.Path) -> None:
    images = [torch.rand(1, 3, *size) for size in IMAGES]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TraceWarning)  # whether an image is too small, or has the size already
        check(transforms()[name], tmp_path, capture, torch.rand(1, 3, 32, 40), images, {2: "height", 3: "width"})


@CAPTURES
def test_code_made_of_a_text_is_the_models(capture: Any, tmp_path: pathlib.Path) -> None:
    """The file name of its code is <string>, as of functions that torch compiles from texts."""
    halves = "def halves(x): return x[: int(x.shape[0] * 0.5)]"
    branch = "def branch(x): return x * 2 if x.shape[0] > 3 else x"
    names: dict[str, Any] = {}
    exec(f"{halves}\n{branch}", names)
    for function in (names["halves"], names["branch"]):
        check(function, tmp_path, capture, torch.ones(12), [torch.ones(n) for n in (1, 5, 31)], {0: "n"})
