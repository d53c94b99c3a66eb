"""The example inputs of a model: their binding to its parameters, and their tensors as leaves."""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from opbridge.capture.caches import check_caches, register_caches
from opbridge.capture.memory_layout import copy_of
from opbridge.errors import InvalidArgumentError, UnsupportedError
from opbridge.torch_compat import pytree


@dataclasses.dataclass
class Inputs:
    """``args`` and ``kwargs`` of the call of the model, keyword arguments in the order of its parameters.

    ``parameters`` holds the same values by the names of the parameters; ``leaves`` are the tensors and
    constants in them, in order, and ``names`` are torch.export's names for the leaves. ``are_ordered`` says for each
    leaf whether its position follows from the parameters; the position of an item of a dict or of ``**kwargs`` depends
    on the call.
    """

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    parameters: dict[str, Any]
    leaves: list[Any]
    names: list[str]
    are_ordered: list[bool]
    example: Inputs | None = None  # the caller's inputs, if these have other sizes

    def with_leaves(self, leaves: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """``args`` and ``kwargs`` with other leaves."""
        _, structure = pytree.tree_flatten((self.args, self.kwargs))
        args, kwargs = pytree.tree_unflatten(leaves, structure)
        return args, kwargs

    def map_leaves(self, change: Callable[[Any], Any]) -> Inputs:
        """The same structure with ``change`` applied to each leaf. Takes the tensors from ``leaves``: a container
        that is rebuilt, such as a cache of transformers, may not keep the tensor objects it is made of."""
        leaves = [change(leaf) for leaf in self.leaves]
        args, kwargs = self.with_leaves(leaves)
        _, structure = pytree.tree_flatten(self.parameters)
        return Inputs(args, kwargs, pytree.tree_unflatten(leaves, structure), leaves, self.names, self.are_ordered)

    def copied(self) -> Inputs:
        """The same inputs in tensors and memory of their own. A model may write to its inputs; one tensor may be given
        for two inputs, or may also be a weight of the model; and torch distinguishes tensors by their identity."""
        return self.map_leaves(copy_of)

    @property
    def others(self) -> list[Any]:
        """The leaves that are not tensors."""
        return [leaf for leaf in self.leaves if not isinstance(leaf, torch.Tensor)]

    @property
    def tensors(self) -> list[torch.Tensor]:
        return [leaf for leaf in self.leaves if isinstance(leaf, torch.Tensor)]


def read_inputs(model: torch.nn.Module, args: Any, kwargs: Mapping[str, Any] | None = None) -> Inputs:
    """``args`` as in torch.onnx.export: a tuple, or one value; its last element may be the ``kwargs``."""
    return read_inputs_of(signature_of(model.forward), type(model).__name__, args, kwargs)


def read_inputs_of(
    signature: inspect.Signature, model: str, args: Any, kwargs: Mapping[str, Any] | None = None
) -> Inputs:
    """Like read_inputs, with the model's name and the signature of ``forward`` instead of the model."""
    register_caches()
    args, kwargs = _as_called(signature, args, kwargs)
    try:
        parameters: dict[str, Any] = dict(signature.bind(*args, **kwargs).arguments)
    except TypeError as error:
        raise InvalidArgumentError(f"the inputs do not fit {model}.forward{signature}: {error}") from error
    for parameter in signature.parameters.values():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            parameters.update(parameters.pop(parameter.name, {}))
    kwargs = {name: value for name, value in parameters.items() if name in kwargs}
    check_caches(parameters)
    leaves: list[Any] = []
    names: list[str] = []
    are_ordered: list[bool] = []
    for name, value in parameters.items():
        paths, _ = pytree.tree_flatten_with_path(value)
        for path, leaf in paths:
            leaves.append(leaf)
            are_ordered.append(
                name in signature.parameters and not any(isinstance(key, pytree.MappingKey) for key in path)
            )
            names.append(_distinct("_".join([name, *(_text_of_key(key) for key in path)]), names))
            _check_leaf(names[-1], leaf)
    return Inputs(args, kwargs, parameters, leaves, names, are_ordered)


def names_in_order(
    model: torch.nn.Module, args: Any, kwargs: Mapping[str, Any] | None, names: Sequence[str]
) -> Sequence[str]:
    """The names of inputs in the order of the parameters of ``forward``; keyword arguments may have another order."""
    _, keywords = _as_called(signature_of(model.forward), args, kwargs)
    inputs = read_inputs(model, args, kwargs)
    own = inputs.names[: len(names)]
    positional = len(pytree.tree_leaves(inputs.args))
    if list(inputs.kwargs) == list(keywords) or len(names) <= positional:
        return names
    if set(names[positional:]) == set(own[positional:]):
        return [*names[:positional], *own[positional:]]
    raise InvalidArgumentError(
        f"the keyword arguments ({', '.join(keywords)}) are not in the order of the parameters of forward "
        f"({', '.join(inputs.kwargs)}), so it is not clear which order input_names has; pass them in that order"
    )


def _as_called(
    signature: inspect.Signature, args: Any, kwargs: Mapping[str, Any] | None
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The positional and the keyword arguments, in the order of the call."""
    args = tuple(args) if isinstance(args, (tuple, list)) else (args,)
    if kwargs is None and args and _is_keywords(args[-1], args[:-1], signature):
        args, kwargs = args[:-1], args[-1]
    return args, dict(kwargs or {})


def _distinct(name: str, others: Sequence[str]) -> str:
    """The name of an input, with a number if another one has it: ``x[0]`` and a parameter ``x_0`` are both ``x_0``."""
    numbered = (f"{name}_{number}" for number in itertools.count(1))
    return next(each for each in itertools.chain([name], numbered) if each not in others)


def _check_leaf(name: str, leaf: Any) -> None:
    """Refuses leaves that hold tensors, which would become constants instead of inputs."""
    if type(leaf).__module__ == "numpy" and hasattr(leaf, "__array__"):
        raise InvalidArgumentError(f"the input '{name}' is a NumPy array, which would be a constant; pass a tensor")
    if isinstance(leaf, torch.Tensor) and leaf.is_quantized:
        raise UnsupportedError(
            f"the input '{name}' is a quantized tensor, which ONNX does not have; pass its dequantize(), and "
            "quantize it in the model"
        )
    if isinstance(leaf, (torch.Tensor, torch.nn.Module, type)):
        return
    if _holds_tensors(leaf, set()):
        raise InvalidArgumentError(
            f"the input '{name}' is a {type(leaf).__name__} that holds tensors, which would be constants; register "
            "the type with torch (torch.export.register_dataclass, or register_pytree_node of torch.utils._pytree), "
            "or pass its tensors"
        )


def _holds_tensors(value: Any, seen: set[int]) -> bool:
    """Whether an object, or one that it refers to, has a tensor as an attribute or element."""
    if isinstance(value, torch.Tensor):
        return True
    if id(value) in seen or isinstance(value, (torch.nn.Module, type, types.ModuleType)):
        return False
    seen.add(id(value))
    held = value if isinstance(value, (set, frozenset)) else getattr(value, "__dict__", {}).values()
    return any(_holds_tensors(each, seen) for each in pytree.tree_leaves([*held]))


def signature_of(forward: Any) -> inspect.Signature:
    if not isinstance(forward, torch.jit.ScriptFunction | torch.ScriptMethod):
        return inspect.signature(forward)
    schema: Any = forward.schema
    parameters = []
    for argument in schema.arguments[isinstance(forward, torch.ScriptMethod) :]:  # a method's first one is the module
        default = argument.default_value if argument.has_default_value() else inspect.Parameter.empty
        parameters.append(inspect.Parameter(argument.name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default))
    return inspect.Signature(parameters)


def _is_keywords(last: Any, others: tuple[Any, ...], signature: inspect.Signature) -> bool:
    """Whether the last argument is a dict of keyword arguments. It may be empty, after an input that is a dict."""
    if not isinstance(last, dict) or not all(isinstance(name, str) for name in last):
        return False
    try:
        signature.bind(*others, **last)
    except TypeError:
        return False
    return True


def _text_of_key(key: Any) -> str:
    for attribute in ("key", "idx", "name"):
        if hasattr(key, attribute):
            return str(getattr(key, attribute))
    return str(key)


def as_module(model: Any) -> torch.nn.Module:
    """The model as a module: wraps a function, and unwraps an ExportedProgram."""
    if isinstance(model, torch.export.ExportedProgram):
        return model.module()
    if isinstance(model, torch.nn.Module):
        _check_materialized(model)
        return model
    if isinstance(model, type) and issubclass(model, torch.nn.Module):
        raise InvalidArgumentError(f"{model.__name__} is a class of models: pass an instance, {model.__name__}(…)")
    if callable(model):
        if isinstance(model, torch.jit.ScriptFunction) or hasattr(model, "__code__"):
            return _FunctionModule(model)
        return _FunctionModule(_as_function(model))
    raise InvalidArgumentError(f"a {type(model).__name__} is not a model: pass an nn.Module or an ExportedProgram")


def _as_function(model: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a callable without Python code, which torch.export requires: a callable object, a C function."""

    def function(*args: Any, **kwargs: Any) -> Any:
        return model(*args, **kwargs)

    try:
        function.__signature__ = inspect.signature(model)  # type: ignore[attr-defined]
    except ValueError:  # a C function may not declare its parameters
        return lambda *args: model(*args)
    return function


def _check_materialized(model: torch.nn.Module) -> None:
    for path, module in model.named_modules():
        lacks_sizes = getattr(module, "has_uninitialized_params", None)  # of LazyModuleMixin
        if lacks_sizes is not None and lacks_sizes():
            raise InvalidArgumentError(
                f"the sizes of '{path}' ({type(module).__name__}) are not known before the model has run: "
                "call it once on an example"
            )


def torchscript_in(model: torch.nn.Module) -> str | None:
    """The path of the first module that is TorchScript; empty for the model itself, None if there is none."""
    path: str
    for path, module in model.named_modules():
        if isinstance(module, torch.jit.ScriptModule) or isinstance(module.forward, torch.jit.ScriptFunction):
            return path
    return None


class _FunctionModule(torch.nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.forward = function
