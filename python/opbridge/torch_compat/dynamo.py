"""Names of torch.compile, for processes that have loaded it."""

from __future__ import annotations

from typing import Any

from opbridge.torch_compat.lookup import PatchPoint, look_up

with look_up():
    from torch._dynamo import convert_frame, eval_frame
    from torch._dynamo.exc import TorchDynamoException as TRACING_ERROR

    COMPILE_LOCK: Any = convert_frame.compile_lock  # held while torch.compile traces
    EAGER_STANCE: Any = eval_frame.DynamoStance("force_eager")

STANCE = PatchPoint(eval_frame, "_stance")

__all__ = ["COMPILE_LOCK", "EAGER_STANCE", "STANCE", "TRACING_ERROR"]
