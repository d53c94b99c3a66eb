"""The dynamic sizes of the inputs, and their names."""

from __future__ import annotations

import copy
import dataclasses
import functools
import math
import operator
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import sympy
import torch

from opbridge.capture.inputs import Inputs
from opbridge.capture.memory_layout import repeat_ones, with_sizes
from opbridge.capture.run_warnings import warn_of_model
from opbridge.capture.symbolic_sizes.model_branches import Branches
from opbridge.capture.symbolic_sizes.padding_branches import PaddingBranches
from opbridge.errors import InvalidArgumentError, UnsupportedError
from opbridge.torch_compat import pytree
from opbridge.torch_compat.symbols import limit_size

_HINTS = type(torch.export.Dim.DYNAMIC)
AS_IN_EXAMPLE = (
    "it is not so in the example, where a dynamic size is 1, and a model cannot do both: make that size constant, or "
    "give an example of another size"
)


class DynamicSizes:
    """The dynamic axes of each input leaf.

    ``leaves`` holds for each leaf a dict from axis to the caller's specification: a name, a torch.export.Dim,
    Dim.DYNAMIC or Dim.AUTO; ``shapes`` is the same in torch.export's form, None if no size is dynamic.
    """

    def __init__(
        self,
        inputs: Inputs,
        dynamic_shapes: Any = None,
        dynamic_axes: Mapping[str, Mapping[int, str] | Sequence[int]] | None = None,
        input_names: Sequence[str] | None = None,
        output_names: Sequence[str] | None = None,
    ) -> None:
        self._inputs = inputs
        self._ones: set[Any] = set()  # the symbols of sizes that are 1 in the example
        self._names: dict[str, str] = {}  # of the symbols of the latest capture
        self.branches = Branches()
        self.padding = PaddingBranches(self.branches)
        # A file and a line → the ranks of what is squeezed there, along axes of sizes by data, and of the results.
        self.squeezes: dict[tuple[str, int], set[tuple[int, int]]] = {}
        self._ranges_hold = True
        if dynamic_shapes is not None and dynamic_axes:
            raise InvalidArgumentError("dynamic_shapes and dynamic_axes are both given: pass only one of them")
        self._shown_names = list(inputs.names)
        tensors = [i for i, leaf in enumerate(inputs.leaves) if isinstance(leaf, torch.Tensor)]
        for i, name in zip(tensors, input_names or (), strict=False):
            self._shown_names[i] = name
        if dynamic_axes:
            self.leaves = self._from_axes(dynamic_axes, output_names or ())
        else:
            self.leaves = list(self._from_shapes(dynamic_shapes))
        self.shapes = self._for_torch() if any(self.leaves) else None

    def _from_axes(
        self,
        axes: Mapping[str, Mapping[int, str] | Sequence[int]],
        output_names: Sequence[str],
    ) -> list[dict[int, Any]]:
        positions: dict[str, int] = {}
        for i, leaf in enumerate(self._inputs.leaves):
            if isinstance(leaf, torch.Tensor):
                positions[self._inputs.names[i]] = positions[self._shown_names[i]] = i
        leaves: list[dict[int, Any]] = [{} for _ in self._inputs.leaves]
        for name, of_input in axes.items():
            if name in positions:
                rank = self._inputs.leaves[positions[name]].dim()
                leaves[positions[name]] = {
                    _axis(axis, rank, name): dim or torch.export.Dim.DYNAMIC
                    for axis, dim in _names_by_axis(of_input, name).items()
                }
            elif name not in output_names:
                raise InvalidArgumentError(
                    f"dynamic_axes names '{name}', which is neither an input ({', '.join(positions)}) "
                    "nor in output_names"
                )
        return leaves

    def _from_shapes(self, shapes: Any) -> Iterator[dict[int, Any]]:
        parameters = self._inputs.parameters
        if shapes is None or isinstance(shapes, Mapping):
            by_name = dict(shapes or {})
        else:
            by_name = dict(zip(parameters, _parts(shapes, "dynamic_shapes"), strict=False))
            if len(shapes) > len(parameters):
                raise InvalidArgumentError(
                    f"dynamic_shapes has {len(shapes)} entries; the inputs are {', '.join(parameters)}"
                )
        unknown = [name for name in by_name if name not in parameters]
        if unknown:
            raise InvalidArgumentError(f"dynamic_shapes names '{unknown[0]}'; the inputs are {', '.join(parameters)}")
        for name, value in parameters.items():
            yield from _leaf_specs(value, by_name.get(name), name)

    def _for_torch(self) -> dict[str, Any]:
        """The specification for torch.export. A name becomes Dim.DYNAMIC, whose range follows from the model; so does a
        torch.export.Dim if its range does not hold, unless another one is derived from it, as in 2 * dim."""
        roots = {name_of(dim.root) for dim in self._dims() if hasattr(dim, "root")}

        def for_torch(dim: Any) -> Any:
            is_free = isinstance(dim, str) or not (self._ranges_hold or hasattr(dim, "root") or name_of(dim) in roots)
            return torch.export.Dim.DYNAMIC if is_free else dim

        specs = iter([{axis: for_torch(dim) for axis, dim in leaf.items()} or None for leaf in self.leaves])
        return {name: _specs_like(value, specs) for name, value in self._inputs.parameters.items()}

    def equate(self, leaves: Sequence[Any]) -> None:
        """Tells torch that sizes with the same name are equal, and their bounds. ``leaves`` are the model's inputs in
        the capture, whose symbols have their names in the texts of messages from here on."""
        self._names = self._names_in([leaf.shape if isinstance(leaf, torch.Tensor) else None for leaf in leaves])
        for leaf, given, axes in zip(leaves, self._inputs.leaves, self.leaves, strict=True):
            sizes = [leaf.shape[axis] for axis in _ones_among(axes, given)]
            self._ones.update(size.node.expr for size in sizes if isinstance(size, torch.SymInt))
        known: dict[str, Any] = {}
        for leaf, axes in zip(leaves, self.leaves, strict=True):
            for axis, dim in axes.items():
                name = name_of(dim)
                if name is not None and leaf.shape[axis] != known.setdefault(name, leaf.shape[axis]):
                    raise InvalidArgumentError(f"the sizes called '{name}' differ in the example inputs")
                if isinstance(leaf.shape[axis], torch.SymInt):
                    limit_size(leaf.shape[axis], getattr(dim, "min", None), getattr(dim, "max", None))
        self.branches.begin_with(self, self._names, leaves)

    def bounds_of(self, name: str) -> tuple[Any, Any]:
        """The bounds of the torch.export.Dim with this name; None for what it leaves open, or if there is none."""
        dims = (dim for leaf in self.leaves for dim in leaf.values() if not isinstance(dim, str))
        for dim in dims:
            if name_of(dim) == name:
                return getattr(dim, "min", None), getattr(dim, "max", None)
        return None, None

    @functools.cached_property
    def any_is_zero(self) -> bool:
        """Whether a dynamic size is 0 in the example."""
        pairs = zip(self._inputs.leaves, self.leaves, strict=True)
        return any(leaf.shape[axis] == 0 for leaf, axes in pairs for axis in axes)

    def in_example(self, expr: Any, env: Any) -> int | bool | None:
        """The value of an expression for the sizes of the example; these may be 1 where a capture uses 2, and 0, of
        which torch does not think.

        None if there are no such sizes, or if the value depends on data."""
        if not self._ones and not self.any_is_zero:
            return None
        value = expr.xreplace({**env.backed_var_to_val, **dict.fromkeys(self._ones, sympy.Integer(1))})
        if value.is_Boolean:
            return bool(value) if value in (sympy.true, sympy.false) else None
        return int(value) if value.is_Integer else None

    def without_ones(self) -> Inputs:
        """The inputs, with each dynamic axis of size 1 repeated to 2.

        torch treats a size of 1 as a constant in many situations, sometimes silently. The example's size of a dynamic
        axis is arbitrary, so the capture uses one that torch does not treat so.
        """
        replaced: dict[int, torch.Tensor] = {}
        for leaf, dims in zip(self._inputs.leaves, self.leaves, strict=True):
            if ones := _ones_among(dims, leaf):
                replaced[id(leaf)] = repeat_ones(leaf, ones)
        if not replaced:
            return self._inputs
        others = self._inputs.map_leaves(lambda leaf: replaced.get(id(leaf), leaf))
        return dataclasses.replace(others, example=self._inputs)

    def check_that_they_are_dynamic(self, shapes: Sequence[Sequence[int | torch.SymInt] | None]) -> None:
        """Raises an error if an axis is constant in the shapes that a finished program has."""
        for name, leaf, shape in zip(self._inputs.names, self.leaves, shapes, strict=True):
            for axis, dim in leaf.items():
                if shape is not None and isinstance(shape[axis], int) and dim is not torch.export.Dim.AUTO:
                    raise InvalidArgumentError(
                        f"axis {axis} of the input '{name}' is {shape[axis]} in the ExportedProgram; to make it "
                        "dynamic, pass dynamic_shapes to torch.export.export"
                    )

    def name_symbols(
        self, shapes: Sequence[Sequence[int | torch.SymInt] | None], fixings: Mapping[str, Fixing] | None = None
    ) -> dict[str, str]:
        """The user's names for the symbols in the captured shapes of the leaves.

        Raises an error if a size that the caller declared dynamic has become a constant. ``fixings`` maps constants to
        the causes that fix sizes to them.
        """
        names = self._names_in(shapes)
        self.branches.sizes, self.branches.shapes, self.branches.names = self, shapes, names
        for leaf_name, leaf, shape in zip(self._inputs.names, self.leaves, shapes, strict=True):
            for axis, dim in leaf.items():
                if shape is None:
                    raise InvalidArgumentError(f"the input '{leaf_name}' is not a tensor, so it has no dynamic axes")
                symbol, name = _symbol(shape[axis]), name_of(dim)
                if symbol.isdigit() and dim is not torch.export.Dim.AUTO:
                    raise specialized(f"axis {axis} of the input '{leaf_name}'", symbol, fixings or {})
                if name is not None and (known := names.get(symbol, name)) != name:
                    warn_of_model(f"'{known}' and '{name}' must be equal in this model; both are called '{known}'")
        return names

    def _names_in(self, shapes: Sequence[Sequence[int | torch.SymInt] | None]) -> dict[str, str]:
        """The user's names for the symbols in the shapes, or names made of the input and the axis."""
        names: dict[str, str] = {}
        unnamed: dict[str, str] = {}
        for index, (leaf, shape) in enumerate(zip(self.leaves, shapes, strict=True)):
            if shape is None:
                continue
            for axis, dim in leaf.items():
                size, root = shape[axis], getattr(dim, "root", None)  # the n of 2 * Dim("n")
                symbol, name = _symbol(size), name_of(dim)
                if not symbol.isidentifier():
                    if isinstance(size, torch.SymInt) and isinstance(root, torch.export.Dim):
                        names.update(dict.fromkeys(map(str, size.node.expr.free_symbols), root.__name__))
                elif name is None:
                    unnamed.setdefault(symbol, f"{self._shown_names[index]}_dim_{axis}")
                else:
                    names.setdefault(symbol, name)
        given = {name_of(dim) for leaf in self.leaves for dim in leaf.values()}
        for symbol, name in unnamed.items():
            while name in given:
                name += "_"
            names.setdefault(symbol, name)
        return names

    def text_of(self, expr: Any) -> str:
        """The text of an expression of sizes, or of a message of torch, with the user's names."""
        return with_names(expr, self._names)

    def without_fixed(self, shapes: Sequence[Sequence[int | torch.SymInt] | None]) -> DynamicSizes | None:
        """The dynamic sizes without the axes that have become constants in the captured shapes of the leaves, which
        Dim.AUTO allows; None if there are no such axes."""
        leaves = [
            {axis: dim for axis, dim in leaf.items() if shape is None or not _symbol(shape[axis]).isdigit()}
            for leaf, shape in zip(self.leaves, shapes, strict=True)
        ]
        return self._with_leaves(leaves)

    def _dims(self) -> list[Any]:
        """The specifications that are torch.export.Dims."""
        return [dim for leaf in self.leaves for dim in leaf.values() if not isinstance(dim, (str, _HINTS))]

    def inputs_without(self, size: int) -> Inputs:
        """The inputs with another size of each dynamic axis whose size is this one."""

        def other_sizes(leaf: Any, axes: Mapping[int, Any]) -> dict[int, int]:
            return {
                axis: size + 1 if size < (getattr(dim, "max", None) or math.inf) else size - 1
                for axis, dim in axes.items()
                if leaf.shape[axis] == size
            }

        pairs = zip(self._inputs.leaves, self.leaves, strict=True)
        made = {id(leaf): with_sizes(leaf, sizes) for leaf, axes in pairs if (sizes := other_sizes(leaf, axes))}
        return self._inputs.map_leaves(lambda leaf: made.get(id(leaf), leaf))

    def have_ranges(self) -> bool:
        """Whether torch.export keeps ranges that the caller has declared."""
        return bool(self._dims())

    def in_way(
        self, constant: Sequence[Collection[int]], equal: Mapping[tuple[int, int], str], ranges_hold: bool
    ) -> DynamicSizes:
        """The dynamic sizes in a program for some sizes only: without the ``constant`` axes of the leaves, with names
        for ``equal`` axes, and perhaps for a part of the ranges that the caller has declared."""
        self._ranges_hold = ranges_hold
        self.leaves = [
            {axis: equal.get((i, axis), dim) for axis, dim in leaf.items() if axis not in axes}
            for i, (leaf, axes) in enumerate(zip(self.leaves, constant, strict=True))
        ]
        self.shapes = self._for_torch() if any(self.leaves) else None
        return self

    def with_equal(
        self, names: Mapping[str, str], shapes: Sequence[Sequence[int | torch.SymInt] | None]
    ) -> DynamicSizes | None:
        """The dynamic sizes with the same name, from ``names``, for axes whose captured sizes are the same symbol; None
        if their names are the same already."""
        axes_of: dict[str, list[tuple[int, int]]] = {}
        for i, (leaf, shape) in enumerate(zip(self.leaves, shapes, strict=True)):
            for axis in leaf:
                if shape is not None:
                    axes_of.setdefault(_symbol(shape[axis]), []).append((i, axis))
        leaves = [dict(leaf) for leaf in self.leaves]
        for symbol, axes in axes_of.items():
            given = {name_of(self.leaves[i][axis]) for i, axis in axes}
            if symbol in names and len(axes) > 1 and (len(given) > 1 or None in given):
                for i, axis in axes:
                    leaves[i][axis] = names[symbol]
        return self._with_leaves(leaves)

    def _with_leaves(self, leaves: list[dict[int, Any]]) -> DynamicSizes | None:
        """The same arguments with these dynamic axes; None if the axes are the same as before."""
        if leaves == self.leaves:
            return None
        result = copy.copy(self)
        result.leaves = leaves
        result.shapes = result._for_torch() if any(leaves) else None
        return result


def _ones_among(axes: Mapping[int, Any], leaf: Any) -> list[int]:
    """The dynamic axes of size 1."""
    return [axis for axis, dim in axes.items() if dim is not torch.export.Dim.AUTO and leaf.shape[axis] == 1]


def with_names(expr: Any, names: Mapping[str, str]) -> str:
    """The text of an expression or of a message, in which ``names`` replace torch's symbols, such as ``s77``."""
    return re.sub(r"\b[a-z]\d+\b", lambda symbol: names.get(symbol[0], symbol[0]), str(expr))


def _symbol(size: int | torch.SymInt) -> str:
    return str(size if isinstance(size, int) else size.node.expr)


@dataclasses.dataclass(frozen=True)
class Fixing:
    """The cause that makes a dynamic size constant: the line of the model, and the operator if one runs. ``compared``
    is whether a branch asks if the size is that constant."""

    line: str = ""
    operator: str = ""
    compared: bool = False


class FixedByComparison(UnsupportedError):
    """A branch asks whether a dynamic size is the one that it is in the example, ``size``."""

    size: int = 0


class RangesDoNotHold(UnsupportedError):
    """The run of the model meets conditions that not all sizes of the declared ranges do. ``has_equation`` is whether
    one of them is an equation, which not all sizes above 1 meet either."""

    has_equation: bool = False


def specialized(what: str, size: str, fixings: Mapping[str, Fixing]) -> UnsupportedError:
    """The error for a size that the caller declared dynamic. ``fixings`` maps constants to the causes that fix sizes to
    them."""
    fixing = fixings.get(size, Fixing())
    if fixing.operator == "aten::unbind.int":
        why = (
            ": its Python code goes through the axis, as unbind(), list() and a loop over a tensor do, so each row has "
            "nodes of its own; compute with all rows at once, or by torch.vmap or torch._higher_order_ops.map"
        )
    elif fixing.operator:
        why = (
            f" in a call of {fixing.operator}: its arguments fit this size alone, as in a reshape to a constant, or "
            "torch's rule for it reads the size; make the arguments from x.shape, call another operator"
        )
    elif fixing.compared:
        why = (
            ": a branch asks whether it is this size, as it is in the example; give an example of another size, which "
            "takes the other way, compute with tensors"
        )
    else:
        why = (
            ": its Python code depends on this very size (a branch, range(), an index of a list, a function that takes "
            "a number, as NumPy's do); compute with tensors"
        )
    text = f"{what} was to be dynamic, but the model fixes it to {size}{why}, or make the size constant"
    if not fixing.compared:
        return UnsupportedError(text, fixing.line)
    error = FixedByComparison(text, fixing.line)
    error.size = int(size)
    return error


def sizes_of_outputs(axes: Mapping[str, Any] | None, output_names: Sequence[str] | None) -> dict[str, dict[int, str]]:
    """The names of axes of outputs in ``dynamic_axes``."""
    named: dict[str, dict[int, str]] = {}
    for output in output_names or ():
        for axis, dim in _names_by_axis((axes or {}).get(output), output).items():
            if dim is not None and (name := name_of(dim)) is not None:
                named.setdefault(output, {})[operator.index(axis)] = name
    return named


def name_of(dim: Any) -> str | None:
    if isinstance(dim, str):
        return dim
    return None if isinstance(dim, _HINTS) else str(dim.__name__)


def _parts(spec: Any, what: str) -> Sequence[Any]:
    if isinstance(spec, str) or not isinstance(spec, Sequence):
        raise InvalidArgumentError(
            f"{what} is {spec!r}; it must be a dict, a list or a tuple, or None where nothing is dynamic"
        )
    return spec


def _check_dim(dim: Any, size: int, what: str) -> None:
    if isinstance(dim, int):
        if dim != size:
            raise InvalidArgumentError(f"{what} is declared as {dim}, but is {size} in the example inputs")
    elif not (dim is None or isinstance(dim, (str, _HINTS)) or hasattr(dim, "__name__")):
        raise InvalidArgumentError(f"{what} is declared as {dim!r}; give a name, a torch.export.Dim, an int or None")
    elif not (getattr(dim, "min", None) or 0) <= size <= (getattr(dim, "max", None) or math.inf):
        raise InvalidArgumentError(f"{what} is {size} in the example inputs, which {dim} excludes")


def _names_by_axis(axes: Any, name: str) -> Mapping[Any, Any]:
    """The dynamic_axes of one input as a dict; axes without a name map to None."""
    if axes is None or (isinstance(axes, Sequence) and not isinstance(axes, str)):
        return dict.fromkeys(axes or (), None)
    if not isinstance(axes, Mapping):
        raise InvalidArgumentError(
            f"dynamic_axes of '{name}' is {axes!r}; it must be a list of axes, or a dict with names"
        )
    for axis, dim in axes.items():
        if not (dim is None or isinstance(dim, (str, _HINTS)) or hasattr(dim, "__name__")):
            raise InvalidArgumentError(f"dynamic_axes calls axis {axis} of '{name}' {dim!r}, which is not a name")
    return axes


def _axis(axis: Any, rank: int, name: str) -> int:
    if not hasattr(axis, "__index__"):
        raise InvalidArgumentError(f"an axis of the input '{name}' is called {axis!r}; axes are numbers")
    axis = operator.index(axis)
    if not -rank <= axis < rank:
        raise InvalidArgumentError(f"the input '{name}' has {rank} axes; axis {axis} cannot be dynamic")
    return int(axis % rank)


def _leaf_specs(value: Any, spec: Any, name: str) -> Iterator[dict[int, Any]]:
    """The dynamic axes of each leaf of ``value`` in a torch.export specification."""
    if isinstance(value, torch.Tensor):
        if spec is None:
            spec = {}
        elif not isinstance(spec, Mapping):
            spec = dict(enumerate(_parts(spec, f"dynamic_shapes of '{name}'")))
            if len(spec) != value.dim():
                raise InvalidArgumentError(
                    f"dynamic_shapes of '{name}' has {len(spec)} axes, but the input has {value.dim()}"
                )
        axes = {_axis(axis, value.dim(), name): dim for axis, dim in spec.items()}
        for axis, dim in axes.items():
            _check_dim(dim, value.shape[axis], f"axis {axis} of the input '{name}'")
        yield {axis: dim for axis, dim in axes.items() if _is_dynamic(dim)}
        return
    children, _ = pytree.tree_flatten(value, is_leaf=lambda node: node is not value)
    if len(children) == 1 and children[0] is value:
        if _is_dynamic(spec):
            raise UnsupportedError(f"the input '{name}' is a dynamic {type(value).__name__}; pass a tensor")
        yield {}
        return
    if isinstance(spec, Mapping) and isinstance(value, Mapping):
        specs: list[Any] = [spec.get(key) for key in value]
    elif spec is None:
        specs = [None] * len(children)
    else:
        specs = list(spec.values() if isinstance(spec, Mapping) else _parts(spec, f"dynamic_shapes of '{name}'"))
        if isinstance(value, (list, tuple)) and isinstance(spec, Mapping) and all(isinstance(key, int) for key in spec):
            specs = []  # axes of one tensor
    if len(specs) != len(children):
        raise InvalidArgumentError(
            f"dynamic_shapes of '{name}' must have one entry for each of its {len(children)} values, as ({{0: 'n'}}, …)"
        )
    for child, child_spec in zip(children, specs, strict=True):
        yield from _leaf_specs(child, child_spec, name)


def _specs_like(value: Any, specs: Iterator[Any]) -> Any:
    """The specs of the leaves of ``value`` in the structure that torch.export expects: that of ``value``, with a list
    of the parts of each object that is neither a dict, a list nor a tuple."""
    parts, structure = pytree.tree_flatten(value, is_leaf=lambda node: node is not value)
    if len(parts) == 1 and parts[0] is value:
        return next(specs)
    made = [_specs_like(part, specs) for part in parts]
    return pytree.tree_unflatten(made, structure) if isinstance(value, (dict, list, tuple)) else made


def _is_dynamic(dim: Any) -> bool:
    return dim is not None and not isinstance(dim, int) and dim is not torch.export.Dim.STATIC
