"""Modules that the model converts when it runs, as by ``self.layer.to(x.device)``."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator

import torch
from torch import nn

from opbridge.capture.patching import patch
from opbridge.capture.source import line_of_frame
from opbridge.capture.suppressed_errors import Caught
from opbridge.errors import UnsupportedError
from opbridge.torch_compat import DisablePythonDispatcher, DisableTorchFunction, unset_fake_temporarily
from opbridge.torch_compat.messages import is_of_swapped_weights
from opbridge.torch_compat.patch_points import CONVERSION_OF_MODULE

_Conversion = Callable[[torch.Tensor], torch.Tensor]


@contextlib.contextmanager
def leave_converted_modules(caught: Caught) -> Iterator[None]:
    """Leaves a module as it is if a conversion, as ``module.to(device)`` or ``module.float()``, keeps its weights.
    torch.export cannot give a module other weights: refuses to convert them."""
    original = CONVERSION_OF_MODULE.original

    def convert(module: nn.Module, conversion: _Conversion, recurse: bool = True) -> nn.Module:
        if conversion.__module__ == nn.Module.__module__ and _leaves(conversion, module):
            return module
        try:
            converted: nn.Module = original(module, conversion, recurse)
        except RuntimeError as error:
            if not is_of_swapped_weights(error):
                raise
            refusal = UnsupportedError(
                f"the model converts the weights of a {type(module).__name__} to another element type or device when "
                'it runs; convert them before the export, or use capture="trace", which follows one run',
                line_of_frame(sys._getframe(1)),
            )
            caught.note(refusal)
            raise refusal from error
        return converted

    with patch(CONVERSION_OF_MODULE, convert):
        yield


def _leaves(conversion: _Conversion, module: nn.Module) -> bool:
    """Whether ``conversion`` returns each weight of ``module`` itself."""
    kinds = {(each.dtype, each.device, each.dim()) for each in (*module.parameters(), *module.buffers())}
    with unset_fake_temporarily(), DisableTorchFunction(), DisablePythonDispatcher():
        probes = [torch.empty((0,) * rank, dtype=dtype, device=device) for dtype, device, rank in kinds]
        return all(conversion(probe) is probe for probe in probes)
