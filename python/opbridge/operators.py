"""Finds, loads and describes libraries of operators written against ``opbridge/operator.h``.

A set of operators consists of two libraries, ``libNAME_torch.so`` and ``libNAME_ort.so``. The first registers its
kernels with PyTorch when it is loaded. This module registers what PyTorch's stable ABI cannot express, symbolic shapes
and autograd, from the tables that the library exports (``opbridge/operator_abi.h``).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opbridge import _core
from opbridge._operator_abi import Library
from opbridge.errors import InvalidArgumentError
from opbridge.operator_names import name_in, namespace, stem
from opbridge.paths import checked_path

__all__ = [
    "COMPAT",
    "Operator",
    "load_operators",
    "loaded_operators",
    "loaded_ort_libraries",
    "loaded_torch_libraries",
    "ort_library",
    "read_operators",
    "torch_library",
]

_SHIPPED = Path(__file__).parent / "lib" / "libopbridge_ops"

COMPAT = _SHIPPED.with_name("libopbridge_compat_ops")
"""The set of operators under names that are not opbridge's: ``mmdeploy::`` and ``mmcv::``, as those projects write them
in ONNX, and ``custom::``, as the tutorial does. It is for the functions below, and for ``libraries`` of
:func:`opbridge.session`."""


@dataclass(frozen=True)
class Operator:
    """An operator of a library.

    ``schema`` determines the mapping to ONNX: the node has the operator's name, in a domain named by its namespace;
    tensors are inputs, the other arguments are attributes (details in ``opbridge/operator_abi.h``). If the operator has
    a lowering to standard ONNX, that is used instead.
    """

    schema: str
    """``opbridge::nms(Tensor boxes, Tensor scores, float iou_threshold) -> Tensor``"""
    version: int
    """Opset version of the domain."""
    backward_of: str | None = None
    """The operator whose gradient this one computes."""
    lowered_since: int | None = None
    """The first opset at which it is lowered to standard ONNX, from its ``.onnx(…)``."""

    @property
    def name(self) -> str:
        """With its namespace: ``opbridge::nms``."""
        return name_in(self.schema)

    @property
    def domain(self) -> str:
        """The namespace, which is the domain in ONNX."""
        return namespace(self.schema)


def torch_library(path: str | Path | None = None) -> str:
    """The path of a set's library for PyTorch.

    Args:
        path: The set, as in ``load_operators``; by default the operators that ship with opbridge.

    Returns:
        The absolute path of ``libNAME_torch.so``.

    Raises:
        FileNotFoundError: There is no such library.
    """
    return _existing(_sides(path or _SHIPPED)[0])


def ort_library(path: str | Path | None = None) -> str:
    """The path of a set's library for ONNX Runtime, for ``SessionOptions.register_custom_ops_library``.

    Args:
        path: The set, as in ``load_operators``; by default the operators that ship with opbridge.

    Returns:
        The absolute path of ``libNAME_ort.so``.

    Raises:
        FileNotFoundError: There is no such library.
    """
    return _existing(_sides(path or _SHIPPED)[1])


def read_operators(path: str | Path | None = None) -> list[Operator]:
    """The operators of a set of libraries, without loading them into PyTorch.

    Args:
        path: The set, as in ``load_operators``; by default the operators that ship with opbridge.

    Returns:
        The operators, those that compute gradients included.

    Raises:
        FileNotFoundError: There is no such library.
    """
    return _described(Library(_existing(_sides(path or _SHIPPED)[1])))


def load_operators(path: str | Path | None = None) -> list[Operator]:
    """Loads operators into PyTorch, with symbolic shapes and gradients.

    They are then ``torch.ops.NAMESPACE.NAME``, exports map their calls, and ``opbridge.session`` has their kernels. A
    set that is loaded is not loaded again.

    Args:
        path: Either library of a set, or their common stem, which ``opbridge.build`` returns: ``build/libmy_ops``, or
            ``opbridge.operators.COMPAT``. By default, the operators of the namespace ``opbridge``, which ship with it.

    Returns:
        The operators of the set.

    Raises:
        FileNotFoundError: There is no such library.
        RuntimeError: Its operators could not be registered; the message says why.
    """
    import torch

    torch_side, ort_side = _sides(path or _SHIPPED)
    key = str(torch_side.resolve())
    if key not in _loaded:
        torch.ops.load_library(_existing(torch_side))  # type: ignore[no-untyped-call]
        library = Library(torch_side)
        library.check_registered()
        operators = _described(library)
        for index, operator in enumerate(operators):
            torch.library.register_fake(operator.name, _fake(library, index, _overload(operator.name)))
        for operator in operators:
            if operator.backward_of:
                _register_backward(operator.backward_of, operator.name)
        _loaded[key] = (operators, str(ort_side.resolve()) if ort_side.exists() else None)
    return list(_loaded[key][0])


def loaded_operators() -> list[Operator]:
    """The operators of all loaded sets, except those that only compute gradients."""
    return [operator for operators, _ in _loaded.values() for operator in operators if operator.backward_of is None]


def lacks_gradient(name: str) -> bool:
    """Whether ``name`` is an operator of a loaded set that has no gradient for it. PyTorch then leaves its part out of
    a derivative, with a warning."""
    every = [operator for operators, _ in _loaded.values() for operator in operators]
    return any(each.name == name for each in every) and not any(each.backward_of == name for each in every)


def loaded_torch_libraries() -> list[str]:
    """The PyTorch libraries of all loaded sets, in the order of loading."""
    return list(_loaded)


def loaded_ort_libraries() -> list[str]:
    """The ONNX Runtime libraries of all loaded sets, in the order of loading."""
    return [ort for _, ort in _loaded.values() if ort is not None]


def libraries_at(paths: Sequence[str | os.PathLike[str]]) -> list[str]:
    """The absolute paths of libraries for ONNX Runtime, which may be named as in ``opbridge.session``.

    Raises:
        FileError: There is no such library.
        InvalidArgumentError: ``paths`` is one path.
    """
    if isinstance(paths, (str, os.PathLike)):
        raise InvalidArgumentError(f"libraries must be a list of paths, not {os.fspath(paths)!r}")
    return [os.path.realpath(_core.operator_library(checked_path(path))) for path in paths]


# Path of the PyTorch library: the operators, and the path of the ONNX Runtime library.
_loaded: dict[str, tuple[list[Operator], str | None]] = {}


def _described(library: Library) -> list[Operator]:
    names = [name_in(schema) for schema, *_ in library.rows]
    return [
        Operator(schema, version, names[backward_of] if backward_of >= 0 else None, lowered_since or None)
        for schema, version, backward_of, lowered_since in library.rows
    ]


def _sides(path: str | Path) -> tuple[Path, Path]:
    torch_side, ort_side = _core.operator_libraries(checked_path(path))
    return Path(torch_side), Path(ort_side)


def _existing(path: Path) -> str:
    if not path.is_file():
        hint = "build opbridge with `make build`" if path.parent == _SHIPPED.parent else "check the path"
        raise FileNotFoundError(f"there is no operator library {path}: {hint}")
    return str(path.resolve())


def _overload(name: str) -> Any:
    import torch

    return getattr(getattr(torch.ops, namespace(name)), stem(name)).default


def _fake(library: Library, index: int, overload: Any) -> Callable[..., Any]:
    """The fake implementation of an operator, computed by its shape rule."""
    import torch

    from opbridge.dtypes import DTYPES
    from opbridge.torch_compat import schema_of

    schema = schema_of(overload)
    types = [str(argument.type) for argument in schema.arguments]
    returns_list = str(schema.returns[0].type).startswith("List[")

    def fake(*args: Any, **kwargs: Any) -> Any:
        values = list(args)
        for argument in schema.arguments[len(args) :]:
            values.append(kwargs.get(argument.name, argument.default_value))
        devices = (
            tensor.device
            for value in values
            for tensor in (value if isinstance(value, Sequence) else [value])
            if isinstance(tensor, torch.Tensor)
        )
        device = next(devices, torch.device("cpu"))
        made = [
            torch.empty(sizes, dtype=DTYPES[number], device=device)
            for number, sizes in library.infer(index, types, values)
        ]
        if returns_list:
            return made
        return made[0] if len(made) == 1 else tuple(made)

    return fake


def _register_backward(name: str, backward_name: str) -> None:
    """Registers ``backward_name`` as the gradient of ``name``. It takes the gradients of all results, the arguments,
    and one flag per gradient. Its results are named ``grad_`` plus the argument."""
    import torch

    from opbridge.torch_compat import schema_of

    schema = schema_of(_overload(name))
    backward_operator = _overload(backward_name)
    names = [argument.name for argument in schema.arguments]
    differentiable = [names.index(r.name.removeprefix("grad_")) for r in schema_of(backward_operator).returns]

    def setup_context(
        ctx: Any, inputs: tuple[Any, ...], output: Any, keyword_only_inputs: dict[str, Any] | None = None
    ) -> None:
        values = [*inputs, *(keyword_only_inputs or {}).values()]
        values += [argument.default_value for argument in schema.arguments[len(values) :]]  # PyTorch drops these
        ctx.save_for_backward(*(v if isinstance(v, torch.Tensor) else None for v in values))
        ctx.others = [None if isinstance(v, torch.Tensor) else v for v in values]

    def backward(ctx: Any, *grads: Any) -> Any:
        values = [other if saved is None else saved for saved, other in zip(ctx.saved_tensors, ctx.others, strict=True)]
        given = len(ctx.needs_input_grad)
        wanted = [i < given and ctx.needs_input_grad[i] for i in differentiable]
        made = backward_operator(*grads, *values, wanted)
        result: list[Any] = [None] * len(names)
        made = (made,) if isinstance(made, torch.Tensor) else made
        for i, want, gradient in zip(differentiable, wanted, made, strict=True):
            if want:
                result[i] = gradient
        return result[0] if given == 1 else tuple(result[:given])

    def backward_of_backward(ctx: Any, *grads: Any) -> Any:
        raise NotImplementedError(f"{name} has a gradient, but no second derivative")

    torch.library.register_autograd(name, backward, setup_context=setup_context)
    torch.library.register_autograd(backward_name, backward_of_backward)
