"""The caches of transformers as inputs and outputs of a model: their tensors are leaves, like those of a dict.

Transformers itself registers DynamicCache with torch, which this module asks for, so that ``dynamic_shapes`` has the
same form as for torch.export: the keys of all layers, and the values of all layers.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any

from opbridge.errors import UnsupportedError
from opbridge.torch_compat import pytree


def register_caches() -> None:
    """Makes the cache classes known to torch, if a program has loaded them. Classes that are known stay as they are."""
    caches: Any = sys.modules.get("transformers.cache_utils")
    if caches is None:
        return
    if caches.DynamicCache not in pytree.SUPPORTED_NODES:
        importlib.import_module("transformers.integrations.executorch").register_dynamic_cache_export_support()
    _register(caches.StaticCache, _StaticCaches(caches))
    _register(caches.EncoderDecoderCache, _EncoderDecoderCaches(caches))


class _StaticCaches:
    """Caches of constant size. A model writes to their tensors, of which one counts the tokens."""

    def __init__(self, module: Any) -> None:
        self._module = module

    def parts(self, cache: Any) -> tuple[dict[str, Any], Any]:
        for layer in cache.layers:
            if type(layer) is not self._module.StaticLayer:
                raise UnsupportedError(
                    f"a StaticCache with a {type(layer).__name__} counts tokens in Python, which would be a constant; "
                    "use a DynamicCache"
                )
            if not layer.is_initialized:
                raise UnsupportedError(
                    "the StaticCache has no tensors yet; call its method early_initialization before the export"
                )
        attributes = {"key_cache": "keys", "value_cache": "values", "length": "cumulative_length"}
        parts = {name: [getattr(layer, of) for layer in cache.layers] for name, of in attributes.items()}
        return parts, [layer.max_cache_len for layer in cache.layers]

    def cache(self, parts: list[Any], sizes: Any) -> Any:
        layers = [self._layer(*layer) for layer in zip(*parts, sizes, strict=True)]
        cache = self._module.StaticCache.__new__(self._module.StaticCache)
        self._module.Cache.__init__(cache, layers=layers)
        return cache

    def _layer(self, keys: Any, values: Any, length: Any, size: int) -> Any:
        layer = self._module.StaticLayer(max_cache_len=size)
        layer.keys, layer.values, layer.cumulative_length = keys, values, length
        layer.is_initialized = True
        if hasattr(keys, "shape"):  # otherwise these are torch's marks for leaves
            layer.dtype, layer.device = keys.dtype, keys.device
            layer.batch_size, layer.num_heads, _, layer.k_head_dim = keys.shape
            layer.v_head_dim = values.shape[-1]
        return layer


class _EncoderDecoderCaches:
    """Two caches, and whether each layer has used the encoder's states."""

    def __init__(self, module: Any) -> None:
        self._module = module

    def parts(self, cache: Any) -> tuple[dict[str, Any], Any]:
        names = ("self_attention_cache", "cross_attention_cache")
        return {name: getattr(cache, name) for name in names}, sorted(cache.is_updated.items())

    def cache(self, parts: list[Any], is_updated: Any) -> Any:
        cache = self._module.EncoderDecoderCache.__new__(self._module.EncoderDecoderCache)
        cache.self_attention_cache, cache.cross_attention_cache = parts
        cache.is_updated = dict(is_updated)
        return cache


def _register(kind: type, caches: Any) -> None:
    if kind in pytree.SUPPORTED_NODES:
        return
    parts: Callable[[Any], tuple[dict[str, Any], Any]] = caches.parts

    def flatten(cache: Any) -> tuple[list[Any], Any]:
        children, context = parts(cache)
        return list(children.values()), context

    def flatten_with_keys(cache: Any) -> tuple[list[tuple[Any, Any]], Any]:
        children, context = parts(cache)
        return [(pytree.MappingKey(name), child) for name, child in children.items()], context

    pytree.register_pytree_node(
        kind,
        flatten,
        caches.cache,
        serialized_type_name=f"{kind.__module__}.{kind.__name__}",
        flatten_with_keys_fn=flatten_with_keys,
    )
