"""The caches of transformers as inputs and outputs of a model: their tensors are leaves, like those of a dict.

A DynamicCache has the structure that transformers itself registers for torch.export, when it is asked to: the keys of
all layers, and the values of all layers.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch

from opbridge.errors import UnsupportedError
from opbridge.torch_compat import pytree


def register_caches() -> None:
    """Registers the cache classes with torch, if a program has loaded them. A registered class is left as it is."""
    caches = _module()
    if caches is None:
        return
    _register(caches.DynamicCache, _DynamicCaches(caches))
    _register(caches.StaticCache, _StaticCaches(caches))
    _register(caches.EncoderDecoderCache, _EncoderDecoderCaches(caches))


def check_caches(inputs: Any) -> None:
    """Refuses caches that drop tokens: they count the tokens in a Python number, which would become a constant."""
    caches = _module()
    if caches is None:
        return
    for cache in pytree.tree_leaves(inputs, is_leaf=lambda value: isinstance(value, caches.DynamicCache)):
        if isinstance(cache, caches.DynamicCache) and any(cache.is_sliding):
            raise UnsupportedError(
                "a DynamicCache with a sliding window counts the tokens that it drops in Python, which would be a "
                "constant; make it without the configuration, DynamicCache(), and it keeps all tokens"
            )


def _module() -> Any:
    """The module of the cache classes if it is loaded; None in old releases, whose caches have no layers."""
    caches = sys.modules.get("transformers.cache_utils")
    return caches if hasattr(caches, "StaticLayer") else None


class _DynamicCaches:
    """Caches that grow. Those with a sliding window can only be outputs."""

    def __init__(self, module: Any) -> None:
        self._module = module
        layers = ("DynamicLayer", "DynamicSlidingWindowLayer", "DummyLayer")
        self._known = tuple(getattr(module, name) for name in layers if hasattr(module, name))

    def parts(self, cache: Any) -> tuple[dict[str, Any], Any]:
        for layer in cache.layers:
            if type(layer) not in self._known:
                raise UnsupportedError(
                    f"a cache with a {type(layer).__name__} cannot be an input or an output; call the model with "
                    "use_cache=False"
                )
        filled = [layer for layer in cache.layers if layer.keys is not None]
        parts = {"key_cache": [layer.keys for layer in filled], "value_cache": [layer.values for layer in filled]}
        return parts, [(layer.keys is not None, getattr(layer, "sliding_window", None)) for layer in cache.layers]

    def cache(self, parts: list[Any], layout: Any) -> Any:
        states = zip(*parts, strict=True)
        nothing = (None, None)
        windows = [None if window is None else torch.tensor([window]) for _, window in layout]
        pairs = [next(states) if is_filled else nothing for is_filled, _ in layout]
        return self._module.DynamicCache([(*pair, window) for pair, window in zip(pairs, windows, strict=True)])


class _StaticCaches:
    """Caches of constant size. A model writes to their tensors, one of which counts the tokens."""

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
        if hasattr(keys, "shape"):  # otherwise keys and values are torch's placeholders for leaves
            layer.dtype, layer.device = keys.dtype, keys.device
            layer.batch_size, layer.num_heads, _, layer.k_head_dim = keys.shape
            layer.v_head_dim = values.shape[-1]
        return layer


class _EncoderDecoderCaches:
    """The caches of self-attention and cross-attention, and a flag per layer: whether it has read the encoder."""

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
