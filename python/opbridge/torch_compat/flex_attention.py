"""Names of torch.nn.attention.flex_attention, for models that have loaded it."""

from __future__ import annotations

import importlib
from typing import Any

from opbridge.torch_compat.lookup import PatchPoint, look_up

with look_up():
    # torch.nn.attention has a function of the same name.
    _module: Any = importlib.import_module("torch.nn.attention.flex_attention")
    no_mask = _module.noop_mask
    no_score = _module._identity
    empty_block_mask = _module._create_empty_block_mask

OPERATOR = PatchPoint(_module, "flex_attention_hop")
EMPTY_BLOCK_MASK = PatchPoint(_module, "_create_empty_block_mask")
RUNS_UNCOMPILED = PatchPoint(_module, "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG")
