"""Fourier transforms, real and complex, against PyTorch's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from lowering_check import check, operators

import opbridge

Functions = Mapping[str, Callable[..., Any]]


def in_pairs(functions: Functions) -> Functions:
    """Complex results as pairs, as the exported model returns them."""

    def real(result: torch.Tensor) -> torch.Tensor:
        return torch.view_as_real(result.resolve_conj()) if result.is_complex() else result

    return {name: lambda *a, f=f: real(f(*a)) for name, f in functions.items()}


def signal(*sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    torch.manual_seed(0)
    return torch.randn(*sizes, dtype=dtype)


ONE_DIM = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
OF_COMPLEX = ("fft", "ifft", "irfft", "hfft")


def variants(name: str) -> Functions:
    one, two, many = (getattr(torch.fft, name + suffix) for suffix in ("", "2", "n"))
    return {
        f"{name}": lambda x: one(x),
        f"{name} cut": lambda x: one(x, n=4, dim=0),
        f"{name} filled up": lambda x: one(x, n=9, dim=-2, norm="ortho"),
        f"{name} forward": lambda x: one(x, norm="forward"),
        f"{name}2": lambda x: two(x, norm="ortho"),
        f"{name}2 sizes": lambda x: two(x, s=(3, -1), dim=(0, 2), norm="forward"),
        f"{name}n": lambda x: many(x),
        f"{name}n last": lambda x: many(x, s=(4, 5)),
    }


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64])
@pytest.mark.parametrize("opset", [17, 21])
def test_transforms(dtype: torch.dtype, opset: int) -> None:
    names = OF_COMPLEX if dtype.is_complex else ONE_DIM
    functions = {key: f for name in names for key, f in variants(name).items()}
    check(in_pairs(functions), signal(5, 6, 7, dtype=dtype), opset=opset)


TRANSFORMS = {name: getattr(torch.fft, name) for name in ("fft", "rfft", "ihfft", "irfft")}


def test_of_integers() -> None:
    check(in_pairs(TRANSFORMS), torch.arange(12).reshape(3, 4))


@pytest.mark.skipif(
    tuple(map(int, torch.__version__.split(".")[:2])) < (2, 15), reason="PyTorch refuses it before 2.15"
)
def test_of_no_signals() -> None:
    check(in_pairs(TRANSFORMS), torch.zeros(0, 4))


def test_long_signals() -> None:
    functions = in_pairs({"prime": lambda x: torch.fft.fft(x), "even": lambda x: torch.fft.rfft(x, n=1000)})
    check(functions, signal(1009, dtype=torch.float64))
    # PyTorch's own error is 1e-5 in float32; that of ONNX Runtime's DFT would be 1e-1.
    check(functions, signal(1009), rtol=1e-5, atol=5e-5)


def test_sizes_known_only_at_run_time() -> None:
    size = torch.export.Dim("size", min=2, max=100)
    functions = {
        "rfft": lambda x: torch.fft.rfft(x, dim=1, norm="ortho"),
        "fft": lambda x: torch.fft.ifft(x, dim=1),
        "back": lambda x: torch.fft.irfft(x, dim=1),
        "hermitian": lambda x: torch.fft.ihfft(x, dim=1, norm="forward"),
        "shift": lambda x: torch.fft.fftshift(x, dim=1),
    }
    also = [(signal(2, size),) for size in (3, 8, 11)]
    check(in_pairs(functions), signal(2, 6), dynamic=[{1: size}], also=also)


def test_phases_of_real_signals() -> None:
    """A spectrum is exactly real at 0 and at half of the length: a rounding error there is a phase of -pi for pi."""
    phases = {
        "rfft": lambda x: torch.fft.rfft(x).angle(),
        "filled up": lambda x: torch.fft.rfft(x, n=32, dim=0).angle(),
        "fft": lambda x: torch.fft.fft(x).angle(),
        "ifft": lambda x: torch.fft.ifft(x).angle(),
        "ihfft": lambda x: torch.fft.ihfft(x).angle(),
        "rfft2": lambda x: torch.fft.rfft2(x).angle(),
        "fftn": lambda x: torch.fft.fftn(x, s=(5, 6)).angle(),
        "stft": lambda x: torch.stft(x, 10, 3, center=False, return_complex=True).angle(),
        "both sides": lambda x: torch.stft(x, 16, 3, center=False, onesided=False, return_complex=True).angle(),
    }
    check(phases, signal(8, 24))
    check(phases, signal(7, 25, dtype=torch.float64), opset=17)
    some = {name: phases[name] for name in ("rfft", "filled up", "fft", "ifft", "ihfft")}
    check(some, signal(8, 24), dynamic=[{1: "size"}], also=[(signal(8, size),) for size in (1, 13, 32)])


def test_shift() -> None:
    functions = {
        "all": lambda x: torch.fft.fftshift(x),
        "one": lambda x: torch.fft.fftshift(x, dim=-1),
        "back": lambda x: torch.fft.ifftshift(x, dim=(0, 1)),
    }
    check(functions, torch.arange(20).reshape(4, 5), opset=13)
    check(in_pairs(functions), signal(4, 5, dtype=torch.complex64))


def windows() -> Functions:
    return {
        "plain": lambda x, w: torch.stft(x, 16, return_complex=True),
        "window": lambda x, w: torch.stft(x, 16, hop_length=5, window=w, win_length=12, return_complex=True),
        "normalized": lambda x, w: torch.stft(x, 12, window=w, center=False, normalized=True, return_complex=True),
        "pairs": lambda x, w: torch.view_as_real(torch.stft(x, 16, onesided=False, return_complex=True)),
    }


def test_stft() -> None:
    window = torch.hann_window(12)
    check(in_pairs(windows()), signal(3, 50), window)
    check(in_pairs(windows()), signal(50), window, opset=17)


def test_stft_that_pads_by_itself() -> None:
    if not hasattr(torch.ops.aten.stft, "center"):
        pytest.skip("newer than this torch")

    def centered(*arguments: object) -> Callable[..., torch.Tensor]:
        return lambda x, w: torch.ops.aten.stft.center(x, 16, 5, 12, w, *arguments)

    functions = {
        "reflect": centered(True, "reflect", False, None, True),
        "constant": centered(True, "constant", True, False, True),
        "replicate": centered(True, "replicate", False, True, True),
        "not centered": centered(False, "reflect", False, None, True),
    }
    window = torch.hann_window(12)
    check(in_pairs(functions), signal(3, 50), window)
    check(in_pairs({"constant": centered(True, "constant", False, False, True)}), signal(50), window, opset=17)
    with pytest.raises(opbridge.UnsupportedError, match='pad_mode="circular" is not supported'):
        check(in_pairs({"circular": centered(True, "circular", False, None, True)}), signal(50), window)


def test_istft() -> None:
    window = torch.hann_window(12)
    functions = {
        "plain": lambda z, w: torch.istft(z, 22),
        "window": lambda z, w: torch.istft(z, 22, hop_length=4, win_length=12, window=w, length=20),
        "longer": lambda z, w: torch.istft(z, 22, hop_length=6, normalized=True, length=70),
        "of a whole spectrum": lambda z, w: torch.istft(z, 12, onesided=False),
        "complex": lambda z, w: torch.istft(z, 12, window=w, onesided=False, return_complex=True),
    }
    check(in_pairs(functions), signal(2, 12, 9, dtype=torch.complex64), window)


def test_the_result_is_standard_onnx() -> None:
    model = check(in_pairs({"rfft": lambda x: torch.fft.rfft(x)}), signal(8))
    assert "DFT" in operators(model)
    assert {node.domain for node in model.graph.node} == {""}


def test_opsets_without_dft_are_refused(tmp_path) -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.fft.rfft(x).abs()

    with pytest.raises(opbridge.UnsupportedError, match="opset 17"):
        opbridge.export(Model(), (signal(8),), tmp_path / "model.onnx", opset_version=16)


def test_a_size_that_python_rounds():
    """A number that no expression of sizes has, which a replacement for ONNX Runtime needs again."""

    def reduced(x):
        step = max(1, round(min(x.shape) / 4))
        return torch.fft.fft2(x[::step]).real, torch.fft.fft2(torch.nn.functional.avg_pool2d(x[None, None], step)).real

    check(reduced, torch.rand(9, 10), dynamic=({0: "h", 1: "w"},), also=[(torch.rand(16, 5),), (torch.rand(3, 21),)])
