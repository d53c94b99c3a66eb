"""The mapping of torch.onnx.ops: ``symbolic`` and ``symbolic_multi_out``, by which a model states its ONNX nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from opbridge.symbolics.builder import GraphContext, Value

SINGLE, SEVERAL = "onnx_symbolic::_symbolic", "onnx_symbolic::_symbolic_multi_out"


def symbolic_of(domain_versions: dict[str, int]) -> Callable[..., Any]:
    """The symbolic function of both operators. It enters the versions of domains that the calls state."""

    def symbolic(
        g: GraphContext,
        inputs: Sequence[Value | None],
        op_type: str,
        onnx_dtypes: Any,  # the types and the shapes of the results are in g.result
        *,
        attr_keys: Sequence[str],
        attr_types: Sequence[str],
        attr_pos: Sequence[int],  # the first index and the one after the last, for each attribute
        attr_ints: Sequence[int],
        attr_floats: Sequence[float],
        attr_strs: Sequence[str],
        domain: str = "",
        version: int | None = None,
        **_: Any,
    ) -> Any:
        stored: dict[str, Sequence[Any]] = {"i": attr_ints, "f": attr_floats, "s": attr_strs}
        attributes: dict[str, Any] = {}
        for key, kind, start, end in zip(attr_keys, attr_types, attr_pos[::2], attr_pos[1::2], strict=True):
            values = list(stored[kind[0]][start:end])
            attributes[f"{key}_{kind[0]}"] = values if kind.endswith("s") and len(kind) > 1 else values[0]
        if domain in ("", "ai.onnx"):
            if version is not None and version > g.opset:
                g.refuse(f"{op_type} is stated for opset {version}, and the model is exported for opset {g.opset}")
            name = op_type
        else:
            domain_versions[domain] = max(version or 1, domain_versions.get(domain, 1))
            name = f"{domain}::{op_type}"
        count = len(onnx_dtypes) if isinstance(onnx_dtypes, (list, tuple)) else 1
        made = g.op(name, *inputs, outputs=count, **attributes)
        results: list[Value] = [made] if count == 1 else list(made)
        for index, value in enumerate(results):
            value.setType(g.result(index))
        return results

    return symbolic
