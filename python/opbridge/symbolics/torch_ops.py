"""The mappings of torch.onnx.ops, by which a model states its ONNX nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from opbridge.symbolics.builder import GraphContext
from opbridge.symbolics.values import Value


def symbolics(domain_versions: dict[str, int]) -> Iterator[tuple[str, int, Callable[..., Any]]]:
    """Name, first opset and symbolic function of each operator. Calls enter the versions of their domains."""
    for name in ("onnx_symbolic::_symbolic", "onnx_symbolic::_symbolic_multi_out"):
        yield name, 1, _symbolic_of(domain_versions)
    yield "onnx::Attention.opset23", 23, _attention
    yield "onnx::RotaryEmbedding.opset23", 23, _rotary_embedding


def _attention(
    g: GraphContext, q: Any, k: Any, v: Any, mask: Any, past_key: Any, past_value: Any, **attributes: Any
) -> Any:
    if attributes["softcap"] and (mask is not None or attributes["is_causal"]):
        g.refuse("PyTorch applies softcap before the mask, and ONNX's Attention after it; write the attention in full")
    return _node(g, "Attention", (q, k, v, mask, past_key, past_value), attributes, 4)


def _rotary_embedding(
    g: GraphContext, x: Any, cos_cache: Any, sin_cache: Any, position_ids: Any, **attributes: Any
) -> Any:
    return _node(g, "RotaryEmbedding", (x, cos_cache, sin_cache, position_ids), attributes, 1)


def _node(g: GraphContext, name: str, inputs: Sequence[Any], attributes: dict[str, Any], outputs: int) -> Any:
    # 0 is the default of every attribute except the scale, and means that the attribute is not set.
    given = {key: value for key, value in attributes.items() if value or (key == "scale" and value is not None)}
    suffixed = {f"{key}_{'f' if isinstance(value, float) else 'i'}": value for key, value in given.items()}
    return _typed(g, g.op(name, *inputs, outputs=outputs, **suffixed))


def _typed(g: GraphContext, made: Any) -> list[Value]:
    """The values of a node, with the types of PyTorch's results."""
    values = [made] if isinstance(made, Value) else list(made)
    for index, value in enumerate(values):
        value.setType(g.result(index))
    return values


def _symbolic_of(domain_versions: dict[str, int]) -> Callable[..., Any]:
    """The symbolic function of ``symbolic`` and of ``symbolic_multi_out``."""

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
        return _typed(g, g.op(name, *inputs, outputs=count, **attributes))

    return symbolic
