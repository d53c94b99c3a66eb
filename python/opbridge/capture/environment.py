"""What holds while a model is captured, and while it is compared with what was made of it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import torch

from opbridge.capture.inputs import torchscript_in
from opbridge.capture.replaced import replaced
from opbridge.errors import UnsupportedError

# What is replaced meanwhile belongs to the whole process: threads wait for one another.
_one_at_a_time = threading.RLock()


@contextlib.contextmanager
def inference(model: torch.nn.Module) -> Iterator[None]:
    """Evaluation mode, no gradients, no fused transformer kernels.

    The fast paths of ``nn.MultiheadAttention`` and ``nn.TransformerEncoder`` call private kernels in place
    of the operators that the modules are made of, and give other values where the input is padding. The modes of
    the model's modules are as before afterwards.
    """
    with _one_at_a_time:
        in_training = [
            module for module in model.modules() if getattr(module, "training", False)
        ]  # TorchScript may lack it
        fastpath = torch.backends.mha.get_fastpath_enabled()
        try:
            for module in in_training:
                module.training = False
            torch.backends.mha.set_fastpath_enabled(False)
            with torch.no_grad():
                yield
        finally:
            torch.backends.mha.set_fastpath_enabled(fastpath)
            for module in in_training:
                module.training = True


@contextlib.contextmanager
def capturing(model: torch.nn.Module) -> Iterator[None]:
    """Inference, in which the model knows that it is exported."""
    if torch.is_autocast_enabled("cpu"):
        raise UnsupportedError(
            "the model is captured inside torch.autocast, whose casts no capture sees; "
            "leave it, and convert the model itself (model.to(torch.bfloat16)) if that is wanted"
        )
    from torch.onnx._internal.exporter import _flags

    # TorchScript calls the Python code that it was made from where it is exported, in vain.
    exporting = torchscript_in(model) is None
    with (
        _one_at_a_time,
        replaced(_flags, _is_onnx_exporting=True),
        replaced(torch.compiler, _is_compiling_flag=exporting, _is_exporting_flag=exporting),
        inference(model),
    ):
        yield
