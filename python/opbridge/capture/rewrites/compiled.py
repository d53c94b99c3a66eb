"""torch.compile, which a capture leaves out."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from opbridge.capture.patching import patch
from opbridge.torch_compat import dynamo_if_loaded
from opbridge.torch_compat.patch_points import CALL_OF_COMPILE_REGION, COMPILE


@contextlib.contextmanager
def run_uncompiled() -> Iterator[None]:
    """Runs functions of torch.compile uncompiled, so that their operators are recorded: functions that were compiled
    before, if torch._dynamo is loaded, functions that the run compiles, as torch.cond and similar operators do, and
    those of torch.compiler.nested_compile_region."""

    def as_written(model: Any = None, **_: Any) -> Any:
        return as_written if model is None else model

    with contextlib.ExitStack() as until_the_end:
        until_the_end.enter_context(patch(COMPILE, as_written))
        until_the_end.enter_context(
            patch(CALL_OF_COMPILE_REGION, lambda region, *args, **kwargs: region(*args, **kwargs))
        )
        dynamo = dynamo_if_loaded()
        if dynamo is not None:  # torch.compiler.set_stance("force_eager") would hold in all threads
            until_the_end.enter_context(patch(dynamo.STANCE, dynamo.EAGER_STANCE))
        yield
