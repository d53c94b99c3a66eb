"""Window functions of signal processing."""

import pytest
import torch
from lowering_check import check

WINDOWS = {
    "hann": torch.hann_window,
    "hamming": torch.hamming_window,
    "blackman": torch.blackman_window,
    "bartlett": torch.bartlett_window,
    "kaiser": torch.kaiser_window,
    "kaiser of another shape": lambda length, periodic=True, **options: torch.kaiser_window(
        length, periodic, 5.0, **options
    ),
}


@pytest.mark.parametrize("name", WINDOWS)
def test_window(name):
    window = WINDOWS[name]
    check(
        {
            f"{length} {options}": lambda x, length=length, options=options: window(length, **options) + x
            for length in (0, 1, 2, 7, 400)
            for options in ({}, {"periodic": False}, {"dtype": torch.float64})
        },
        torch.zeros(()),
    )


def test_hamming_of_other_coefficients():
    check(
        lambda x: torch.hamming_window(9, True, 0.6) + torch.hamming_window(9, False, alpha=0.5, beta=0.4) + x,
        torch.zeros(()),
    )
