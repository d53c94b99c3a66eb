"""Complex tensors: pairs at the inputs and outputs, two real tensors in between."""

import math
import pathlib

import pytest
import torch
from lowering_check import check
from torch.nn import functional as F

import opbridge


@pytest.fixture
def pair():
    torch.manual_seed(0)
    return torch.randn(3, 4, dtype=torch.complex64), torch.randn(3, 4, dtype=torch.complex64)


def checked(functions, *args, **options):
    """Like check, with complex results compared as pairs (torch.view_as_real)."""
    real = {
        name: lambda *a, f=f: torch.utils._pytree.tree_map(
            lambda t: torch.view_as_real(t.resolve_conj()) if t.is_complex() else t, f(*a)
        )
        for name, f in functions.items()
    }
    check(real, *args, **options)


def test_angles_on_the_axes_have_the_precision_of_float64():
    z = torch.complex(
        torch.tensor([0.0, -0.0, -2.0, 3.0, 0.0, -float("inf"), 1.0], dtype=torch.float64),
        torch.tensor([2.0, 0.0, 0.0, 1e-9, -float("inf"), 1.0, float("inf")], dtype=torch.float64),
    )
    checked({"angle": torch.angle, "log": torch.log, "log10": torch.log10}, z, rtol=1e-14, atol=0)


def test_arithmetic(pair):
    functions = {
        "add": lambda a, b: a + b,
        "add of a number": lambda a, b: a + 2 + 1j,
        "add scaled": lambda a, b: torch.add(a, b, alpha=3),
        "sub of real": lambda a, b: a.real - b,
        "mul": lambda a, b: a * b,
        "mul by real": lambda a, b: a.real * b,
        "mul by a number": lambda a, b: a * 2j,
        "div": lambda a, b: a / b,
        "div of a number": lambda a, b: 1j / b,
        "neg": lambda a, b: -a,
        "conj": lambda a, b: a.conj() * b,
        "abs": lambda a, b: a.abs(),
        "equal": lambda a, b: (a == b) | (a != a),
        "exp": lambda a, b: torch.exp(a),
        "silu": lambda a, b: torch.nn.functional.silu(a),
        "cos": lambda a, b: torch.cos(a) + torch.sinh(b),
        "matmul": lambda a, b: a @ b.t(),
    }
    checked(functions, *pair)


def test_sizes_are_real_numbers(pair):
    functions = {
        "add": lambda a, b: a + a.shape[0],
        "sub": lambda a, b: a - b.shape[0],
        "of a size": lambda a, b: (a.shape[0] - b, a.shape[0] * b, a.shape[0] / b),
        "div": lambda a, b: (a / a.shape[0], a / math.sqrt(a.shape[0]), a.sum(0) / (a.shape[0] // 2 + 1)),
        "pow": lambda a, b: a ** a.shape[0],
        "equal": lambda a, b: (a == a.shape[0], a != a.shape[0]),
        "where": lambda a, b: torch.where(a.real > 0, a, a.shape[0]),
        "full": lambda a, b: torch.full_like(a, a.shape[0]),
        "pad": lambda a, b: F.pad(a, (1, 1), value=a.shape[0]),
        "mean": lambda a, b: (a.mean(), b.mean(0), a.mean((0, 1), keepdim=True)),
        "number that depends on data": lambda a, b: a + b.real.sum().item(),
    }
    other = torch.randn(5, 4, dtype=torch.complex64), torch.randn(5, 4, dtype=torch.complex64)
    sizes = {0: torch.export.Dim("rows")}
    checked(functions, *pair, dynamic=[sizes, sizes], also=[other])


def test_movement(pair):
    functions = {
        "permute": lambda a, b: a.t().reshape(2, 6),
        "reshape_alias": lambda a, b: torch.ops.aten._reshape_alias(a * b, [2, 6], [6, 1]),
        "cat": lambda a, b: torch.cat([a, b.real], 1),
        "index": lambda a, b: a[:, torch.tensor([1, 0])],
        "where": lambda a, b: torch.where(a.real > 0, a, b),
        "pad": lambda a, b: torch.nn.functional.pad(a, (1, 2)),
        "masked_fill": lambda a, b: a.masked_fill(b.real > 0, 1 + 2j),
        "sum": lambda a, b: (a.sum(0), b.mean(1)),
        "ones": lambda a, b: (torch.ones_like(a), torch.full_like(b, 3), torch.zeros_like(a)),
        "parts": lambda a, b: (torch.complex(a.real, b.imag), torch.polar(a.abs(), b.real)),
        "pairs": lambda a, b: torch.view_as_complex(torch.view_as_real(a) * 2),
    }
    checked(functions, *pair)


def test_constants_and_outputs_in_pairs(tmp_path: pathlib.Path):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("turn", torch.tensor([1j, 2 + 1j]))

        def forward(self, x):
            return x * self.turn, x

    args = (torch.randn(3, 2, dtype=torch.complex64),)
    opbridge.export(Model(), args, tmp_path / "m.onnx", verify=True)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.logcumsumexp(x, 0),
        lambda x: x.scatter(0, torch.tensor([[0, 1]]), x, reduce="multiply"),
        lambda x: x.scatter(0, torch.tensor([[0, 1]]), 1 + 2j, reduce="multiply"),
        lambda x: torch.gradient(x, spacing=1 + 2j, dim=0)[0],
    ],
)
def test_what_is_not_supported_is_refused(function, pair, tmp_path: pathlib.Path):
    with pytest.raises(opbridge.UnsupportedError, match="complex"):
        opbridge.export(function, (pair[0],), tmp_path / "m.onnx")


def test_powers_of_zero():
    exponents = torch.tensor([2, -1, 1 + 1j, -1 + 1j, 0, 0.5], dtype=torch.complex64)
    functions = {f"to {number}": lambda z, e, number=number: z**number for number in (0, 2, 0.5)}
    checked(functions | {"to a tensor": lambda z, e: z**e}, torch.zeros(6, dtype=torch.complex64), exponents)


def test_distances_and_logarithms_of_sums(pair):
    functions = {
        "dist": lambda a, b: (torch.dist(a, b), torch.dist(a, b, 3)),
        "pairwise_distance": lambda a, b: F.pairwise_distance(a, b, keepdim=True),
        "l1_loss": lambda a, b: (F.l1_loss(a, b), F.l1_loss(a, b, reduction="none")),
        "triplet": lambda a, b: F.triplet_margin_loss(a, b, a * b, margin=20, swap=True, reduction="sum"),
        "renorm": lambda a, b: torch.renorm(a, 2, 0, 1.5),
        "logsumexp": lambda a, b: (torch.logsumexp(a, 0), torch.logsumexp(b, (0, 1), keepdim=True)),
        "logaddexp": lambda a, b: torch.logaddexp(a, 20 * b),
        "ldexp": torch.ldexp,
        "rms_norm": lambda a, b: F.rms_norm(a, a.shape[-1:], b[0]),
    }
    checked(functions, *pair)
    checked({"logdet": torch.logdet}, torch.randn(4, 4, dtype=torch.complex64))


def test_rms_norm_of_imaginary_numbers():
    """The imaginary parts of their squares are -0, those of the mean 0: the sign decides between the roots."""
    for z in (torch.tensor([[-1 + 0j, 0j], [-1j, -1j]]), torch.tensor([[-1.75j]]), torch.tensor([[2j, -1j]])):
        checked({"rms_norm": lambda a, b: F.rms_norm(a, a.shape[-1:], b)}, z, torch.randn(z.shape[1], dtype=z.dtype))


def test_ldexp_by_infinity():
    z = torch.tensor([1 - 2j, 0.5 + 0j, -1 + 3j, 2 + 1j, 1 + 1j])
    exponents = torch.tensor([torch.inf, -torch.inf, torch.nan, 200.0, 2.25])
    for kind in (torch.complex64, torch.complex128):
        checked({"ldexp": torch.ldexp}, z.to(kind), exponents)
        checked({"ldexp": torch.ldexp}, z.to(kind), torch.tensor([3, -2, 0, 1, 2]))


def test_places_are_no_numbers():
    indices = torch.tensor([1, 3])
    functions = {
        "tensor_split": lambda z: torch.tensor_split(z, indices),
        "repeat_interleave": lambda z: torch.repeat_interleave(z, torch.tensor([0, 2, 1, 1, 3]), 0, output_size=7),
    }
    checked(functions, torch.randn(5, dtype=torch.complex64))


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_where_a_part_begins_is_no_number(capture: str, tmp_path: pathlib.Path):
    class Part(torch.nn.Module):
        def forward(self, z, start):
            return torch.narrow(z, 0, start, 2)

    args = torch.randn(5, dtype=torch.complex64), torch.tensor(3)
    opbridge.export(Part(), args, tmp_path / "model.onnx", capture=capture, verify=True)


FUNCTIONS = [
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "sqrt",
    "rsqrt",
    "reciprocal",
    "square",
    "sin",
    "cos",
    "tan",
    "sinh",
    "cosh",
    "tanh",
    "asin",
    "acos",
    "atan",
    "asinh",
    "acosh",
    "atanh",
    "sigmoid",
    "angle",
    "sgn",
    "sinc",
    "isfinite",
    "isinf",
    "isreal",
]


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_functions(dtype):
    torch.manual_seed(0)
    small, large = torch.randn(40, dtype=dtype), 20 * torch.randn(40, dtype=dtype)
    axes = torch.tensor([1, -1, 1j, -1j, 0.5, -0.5, 2, -2, 2j, 1 + 1j, -1 - 1j], dtype=dtype)
    checked({name: getattr(torch, name) for name in FUNCTIONS}, small)
    of_large = [name for name in FUNCTIONS if name != "sinc"]  # PyTorch divides infinities there
    checked({name: getattr(torch, name) for name in of_large}, large)
    on_axes = [name for name in FUNCTIONS if name not in ("atan", "atanh")]  # infinite, or on the cut
    checked({name: getattr(torch, name) for name in on_axes}, axes)


def test_products(pair):
    functions = {
        "of itself": lambda a, b: a * a,
        "matrix with itself": lambda a, b: a[:, :3] @ a[:, :3],
        "addmm": lambda a, b: torch.addmm(a[:, :3], a, b.t(), alpha=2 - 1j, beta=1j),
        "addmm alone": lambda a, b: torch.addmm(a[0, :3], a, b.t(), beta=0),
        "addmv": lambda a, b: torch.addmv(b[:, 0], a, b[0]),
        "addr": lambda a, b: torch.addr(a, a[:, 0], b[0]),
        "baddbmm": lambda a, b: torch.baddbmm(a[None, :, :3], a[None], b.t()[None], alpha=2),
        "vdot": lambda a, b: torch.vdot(a[0], b[0]),
        "linear": lambda a, b: torch.nn.functional.linear(a, b, b[:, 0]),
        "conv": lambda a, b: torch.nn.functional.conv1d(a[None], b[:, :3, None], b[:, 0]),
        "einsum": lambda a, b: torch.einsum("ij,kj,ki->k", a, b, b[:, :3]),
        "addcmul": lambda a, b: torch.addcmul(a, b, b, value=1 + 1j),
        "addcmul to more elements": lambda a, b: torch.addcmul(a.real, a[0], a.real[0, 0]),
        "addcmul of infinite real factors": lambda a, b: torch.addcmul(a, b.real / 0, b.real),
        "addcdiv": lambda a, b: torch.addcdiv(a, a, b, value=2),
        "addcdiv to more elements": lambda a, b: torch.addcdiv(a.real, a[0], a.real[0, 0]),
        "lerp": lambda a, b: torch.lerp(a, b, 0.25),
        "prod": lambda a, b: (a.prod(), a.prod(1), a.prod(0, keepdim=True)),
        "cumprod": lambda a, b: a.cumprod(1),
        "trapezoid": lambda a, b: torch.trapezoid(a, b),
        "pow": lambda a, b: (a**b, a**3, a**0.5, 2**a),
        "scaled sum": lambda a, b: torch.add(a, b, alpha=2j),
    }
    checked(functions, *pair)


def test_reductions(pair):
    functions = {
        "var": lambda a, b: torch.var_mean(a, 1),
        "std": lambda a, b: torch.std_mean(a),
        "norm": lambda a, b: (torch.linalg.vector_norm(a, 3, 0), a.norm()),
        "any": lambda a, b: (a * (b.real > 0)).any(0),
        "count_nonzero": lambda a, b: torch.count_nonzero(a * (b.real > 0)),
        "nonzero": lambda a, b: (a * (b.real > 0)).nonzero(),
        "logical_and": lambda a, b: torch.logical_and(a, b * 0),
        "isclose": lambda a, b: torch.isclose(a, a + 1e-7),
        "transposed": lambda a, b: (a.mH, a.H, a.adjoint()),
        "ones": lambda a, b: torch.ones_like(a, dtype=torch.float64),
    }
    checked(functions, *pair)


@pytest.mark.filterwarnings("ignore:Casting complex values to real discards the imaginary part")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.int32, torch.bool])
def test_products_in_a_real_type_are_of_the_real_parts(pair, dtype):
    functions = {
        "prod": lambda a, b: (torch.prod(a, dtype=dtype), torch.prod(a, 1, dtype=dtype)),
        "cumprod": lambda a, b: torch.cumprod(a, 1, dtype=dtype),
    }
    if dtype is torch.bool:
        del functions["cumprod"]  # PyTorch has none
    checked(functions, *pair, rtol=1e-3, atol=1e-4)


def test_products_of_many_and_of_rows(pair):
    a, b = pair
    checked(
        {
            "multi_dot": lambda a, b: torch.linalg.multi_dot([a, b.t(), a, b.t()]),
            "chain_matmul": lambda a, b: torch.chain_matmul(a, b.t(), a),
            "vecdot conjugates the first": lambda a, b: torch.linalg.vecdot(a, b),
            "vecdot of real and complex": lambda a, b: torch.linalg.vecdot(a.real.to(a.dtype), b, dim=0),
            "vander": lambda a, b: torch.linalg.vander(a, N=5),
            "vander without a size": lambda a, b: torch.linalg.vander(b),
            "cumprod": lambda a, b: torch.cumprod(a, 1),
        },
        a,
        b,
    )


def test_inverse_and_solution_of_tensors():
    torch.manual_seed(0)
    a, b = torch.randn(2, 3, 6, dtype=torch.complex64), torch.randn(2, 3, dtype=torch.complex64)
    checked(
        {
            "tensorinv": lambda a, b: torch.linalg.tensorinv(a),
            "tensorsolve": lambda a, b: torch.linalg.tensorsolve(a, b),
            "tensorsolve of moved dims": lambda a, b: torch.linalg.tensorsolve(a.movedim(0, 2), b.t(), dims=(1,)),
        },
        a,
        b,
    )


def test_a_real_base_lies_above_the_cut():
    """-1 has the imaginary part 0 and not -0."""
    exponents = torch.tensor([1.25 - 3.5j, -2.0 - 2.75j, 0.5j])
    functions = {
        "pow": lambda a, b: torch.view_as_real(a**b),
        "float_power": lambda a, b: torch.view_as_real(torch.float_power(a, b)),
        "of a number": lambda a, b: torch.view_as_real(torch.float_power(-2.0, b)),
    }
    check(functions, torch.tensor([-1.0, -0.5, 2.0]), exponents)


def test_division_by_zero():
    """Real and imaginary parts are compared; the signs of zeros do not matter."""
    a, zero = torch.tensor([0.5 - 2j, -1j, 0j, 1 + 0j]), torch.zeros(4)
    functions = {
        "of complex numbers": lambda a, z: torch.view_as_real(a / torch.complex(-z, z)),
        "by real numbers": lambda a, z: torch.view_as_real(a / -z),
        "of real numbers": lambda a, z: torch.view_as_real(a.real / torch.complex(-z, z)),
        "by a number": lambda a, z: torch.view_as_real(a / -0.0),
        "reciprocal": lambda a, z: torch.view_as_real(torch.complex(-z, z).reciprocal()),
    }
    check(functions, a, zero)


def test_logarithm_of_a_sum_of_equal_real_parts():
    a, b = torch.tensor([1 - 2.75j, 1.5 + 4j, 2j]), torch.tensor([1 + 3.75j, 1.5 - 4j, 1 + 3j])
    check(lambda a, b: torch.view_as_real(torch.logaddexp(a, b)), a, b)


def test_power_by_a_bool():
    check(lambda a: torch.view_as_real(torch.float_power(a, True)), torch.tensor([0.5 - 2j, -1j]))


def test_sizes_of_complex_tensors_that_depend_on_data():
    """No other tensor has the size that the complex result brings."""
    torch.manual_seed(0)
    x = torch.randn(5, 3)
    check(lambda x: x.flatten()[: torch.complex(x, x)[x > 0].shape[0]], x, also=[(-x,)])


def test_operators_of_a_refused_one_are_not_refused_for_it(tmp_path):
    """Below opset 17 there is no Fourier transform; what is computed of its result has a mapping."""
    x, window = torch.randn(20), torch.ones(4)
    with pytest.raises(opbridge.UnsupportedError, match="aten::stft: needs a higher opset") as refused:
        opbridge.export(
            lambda x: torch.stft(x, 4, return_complex=True, window=window).abs() + 1,
            (x,),
            tmp_path / "model.onnx",
            opset_version=13,
        )
    assert "aten::abs" not in str(refused.value)
