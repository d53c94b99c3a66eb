"""Names of torch.compile, for processes that have loaded it."""

from __future__ import annotations

from types import CodeType
from typing import Any

from opbridge.torch_compat.lookup import PatchPoint, look_up

with look_up():
    from torch._dynamo import convert_frame, eval_frame, external_utils
    from torch._dynamo.exc import TorchDynamoException as TRACING_ERROR

    COMPILE_LOCK: Any = convert_frame.compile_lock  # held while torch.compile traces
    EAGER_STANCE: Any = eval_frame.DynamoStance("force_eager")

    # The code of what torch.compiler.disable(recursive=False) returns: it refuses to run where is_exporting() is true.
    CODE_OF_DISABLED: Any = next(
        constant
        for constant in external_utils.get_nonrecursive_disable_wrapper.__code__.co_consts
        if isinstance(constant, CodeType)
    )

STANCE = PatchPoint(eval_frame, "_stance")

__all__ = ["CODE_OF_DISABLED", "COMPILE_LOCK", "EAGER_STANCE", "STANCE", "TRACING_ERROR"]
