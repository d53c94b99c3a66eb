"""Maps convolutions by functions that are registered for ``aten::_convolution``.

In a TorchScript trace, for which functions are registered with torch.onnx, every convolution calls this operator, or
``aten::_convolution_mode`` if its padding is "same" or "valid". opbridge's captures have the operators that the model
calls, such as ``aten::conv2d``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from opbridge import _core
from opbridge.symbolics.arguments import complete_arguments, schema_of_name
from opbridge.symbolics.builder import Callback, GraphContext, Results
from opbridge.symbolics.values import Value

_OF_CONVOLUTION = (
    "aten::conv1d",
    "aten::conv2d",
    "aten::conv3d",
    "aten::conv_transpose1d",
    "aten::conv_transpose2d.input",
    "aten::conv_transpose3d.input",
    "aten::convolution",
)
_OF_MODE = ("aten::conv1d.padding", "aten::conv2d.padding", "aten::conv3d.padding")
_CALLS = {"aten::_convolution": _OF_CONVOLUTION, "aten::_convolution_mode": _OF_MODE}

# The arguments that only select a kernel, as in torch's own calls.
_KERNEL = {"benchmark": False, "deterministic": False, "cudnn_enabled": True, "allow_tf32": True}


def calls_of(key: str, callback: Callback) -> Iterator[tuple[str, Callback]]:
    """The further operators that a function for ``key`` maps, each with its callback."""
    for name in _CALLS.get(key, ()):
        yield name, _adapted(key, callback)


def _adapted(key: str, callback: Callback) -> Callback:
    schema = schema_of_name(key)
    wanted = [argument.name for argument in schema.arguments] if schema is not None else []

    def call(core: _core.GraphBuilder, op: str, names: list[str], arguments: list[Any]) -> Results:
        given = {each.name: each.value for each in complete_arguments(op, names, arguments)}
        image, weight = given["input"], given["weight"]
        axes = len(weight.dims or ()) - 2
        values = _KERNEL | {"transposed": "transpose" in op, "output_padding": [0] * axes} | given
        is_batch = len(image.dims or ()) == axes + 2
        if not is_batch:
            values["input"] = core.unsqueeze(image, [0])
        results = callback(core, key, wanted, [values[name] for name in wanted])
        return results if is_batch else [_of_one_image(core, result) for result in results]

    return call


def _of_one_image(core: _core.GraphBuilder, result: _core.Value | None) -> _core.Value | None:
    if result is None:
        return None
    g, batch = GraphContext(core), Value(result)
    if batch.type().dims is None and (dims := g.result().dims) is not None:
        batch.setType(g.result().with_sizes([1, *dims]))
    return g.squeeze(batch, [0]).core
