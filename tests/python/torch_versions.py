"""Tests that some versions of torch cannot run."""

from __future__ import annotations

import pytest
import torch

IS_BEFORE_2_15 = torch.__version__ < (2, 15)


def since_torch_2_14(reason: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(torch.__version__ < (2, 14), reason=f"before torch 2.14, {reason}")


def since_torch_2_15(reason: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(IS_BEFORE_2_15, reason=f"before torch 2.15, {reason}")


def before_torch_2_15(reason: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(not IS_BEFORE_2_15, reason=f"since torch 2.15, {reason}")
