"""``torch.istft`` to a length that is a dynamic size, which torch's operator takes as a number only."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional as F


def istft(
    input: torch.Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: torch.Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: Any = None,
    return_complex: bool = False,
) -> torch.Tensor:
    """Computes as aten/src/ATen/native/SpectralOps.cpp of PyTorch does, without the check that no sum of squared
    windows is 0."""
    if not isinstance(length, torch.SymInt) or return_complex:
        return torch.istft(
            input, n_fft, hop_length, win_length, window, center, normalized, onesided, length, return_complex
        )
    spectrum = input if input.dim() == 3 else input.unsqueeze(0)
    hop, width = hop_length or n_fft // 4, win_length or n_fft
    shape = torch.ones(width, dtype=spectrum.real.dtype) if window is None else window
    before = (n_fft - width) // 2
    shape = F.pad(shape, (before, n_fft - width - before))
    norm = "ortho" if normalized else "backward"
    columns = torch.fft.irfft(spectrum, n_fft, dim=1, norm=norm)  # like torch.istft, irfft reads one half only
    total = n_fft + hop * (spectrum.shape[2] - 1)

    def overlapped(columns: torch.Tensor) -> torch.Tensor:
        sums = F.fold(columns, (1, total), (1, n_fft), stride=(1, hop)).flatten(1)
        start = n_fft // 2 if center else 0
        return sums[:, start : start + length]

    squares = (shape * shape)[None, :, None].expand(1, n_fft, spectrum.shape[2])
    signal = overlapped(columns * shape[:, None]) / overlapped(squares)
    missing: Any = length - signal.shape[1]
    signal = F.pad(signal, (0, missing))
    return signal if input.dim() == 3 else signal.squeeze(0)
