"""capture="export": the model as torch.export.export sees it."""

from __future__ import annotations

import contextlib
import copy
import functools
import re
import types
from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch._dynamo.convert_frame  # whose lock a capture takes
import torch.export._trace
from torch._export.non_strict_utils import _NonStrictTorchFunctionHandler
from torch.utils import _pytree as pytree

from opbridge import _core
from opbridge.capture.exported.bridge import bridge, casts
from opbridge.capture.exported.overhead import skip_overhead
from opbridge.capture.exported.thread_confinement import confine_export
from opbridge.capture.failures import check_that_it_runs, first_lines, otherwise
from opbridge.capture.inputs import Inputs
from opbridge.capture.operators import is_assignment_of_data
from opbridge.capture.patching import patch_attributes
from opbridge.capture.program import Sizes
from opbridge.capture.rewrites.torch_functions import retry_with_substitutes
from opbridge.capture.state.attributes import restore_attributes, restore_contents
from opbridge.capture.state.reassigned_buffers import Registered
from opbridge.capture.suppressed_errors import Caught
from opbridge.capture.symbolic_sizes.dynamic_axes import DynamicSizes, specialized
from opbridge.capture.symbolic_sizes.guards import retry_with_builtins, watch_sizes
from opbridge.capture.traced.function_mode import DATA
from opbridge.errors import Error, UnsupportedError

# torch.export's words for a dynamic axis, or a Dim, that the model makes a constant.
_FIXED = re.compile(
    r"You marked (?:L\['(\w+)'\]\S*\.size\(\)\[(\d+)\]|(\S+)) as dynamic but your code specialized it to be a "
    r"constant \((\d+)\)"
)


def capture_exported(model: torch.nn.Module, inputs: Inputs, sizes: DynamicSizes, changed: list[str]) -> _core.Graph:
    return bridged(export_program(model, inputs, sizes, changed), sizes)


def bridged(exported: torch.export.ExportedProgram, sizes: DynamicSizes) -> _core.Graph:
    names = Sizes(sizes.name_symbols(_shapes_of_inputs(exported)), sizes)
    return bridge(exported, names, parameters_are_kept=False)


def export_program(
    model: torch.nn.Module, inputs: Inputs, sizes: DynamicSizes, changed: list[str]
) -> torch.export.ExportedProgram:
    """``changed`` becomes the paths of the attributes that the model changes."""

    # An example of size 1 in a dynamic axis stays dynamic only where torch does not reason from sizes. Some models
    # need it, for a guard such as `size != 1`; torch's own rule then serves, by which an example of size 1 is refused.
    def oblivious() -> torch.export.ExportedProgram:
        return retry_with_substitutes(lambda: _exported(model, inputs, sizes, changed, size_oblivious=True))

    def by_sizes() -> torch.export.ExportedProgram:
        return _exported(model, inputs, sizes, changed, size_oblivious=False)

    exported = oblivious() if sizes.shapes is None else otherwise(oblivious, by_sizes)
    if any(_is_unresolved(node) for node in exported.graph.nodes):
        if any(is_assignment_of_data(node) for node in exported.graph.nodes):
            raise UnsupportedError(
                "the model assigns to the data of a tensor (.data =), which torch loses where there is torch.vmap or "
                "torch.autocast; make a new tensor instead"
            )
        with confine_export():
            exported = exported.run_decompositions({})
    return exported


def _is_unresolved(node: torch.fx.Node) -> bool:
    """Whether what the node does to those that follow it is written down by torch only in a second pass."""
    if getattr(node.target, "__module__", "").startswith("torch._functorch.predispatch"):
        return True  # torch.vmap
    return getattr(node.target, "_name", "") == "wrap_with_autocast" and casts(node)


def _exported(
    model: torch.nn.Module, inputs: Inputs, sizes: DynamicSizes, changed: list[str], size_oblivious: bool
) -> torch.export.ExportedProgram:
    return retry_with_builtins(lambda: _exported_once(model, inputs, sizes, changed, size_oblivious))


def _exported_once(
    model: torch.nn.Module, inputs: Inputs, sizes: DynamicSizes, changed: list[str], size_oblivious: bool
) -> torch.export.ExportedProgram:
    config: Any = torch.fx.experimental._config
    lines: dict[str, str] = {}
    caught = Caught()
    assigned: list[torch.Tensor] = []  # that are given other data
    try:
        with (
            config.patch(backed_size_oblivious=size_oblivious),
            skip_overhead(),
            confine_export(),
            watch_sizes(sizes, lines, caught),
            _watch_functions(caught, assigned),
            _restore_marks(inputs.tensors),
            _equate_sizes(sizes),
            _follow_changes(model, inputs, assigned, changed),
        ):
            program = torch.export.export(model, inputs.args, inputs.kwargs, dynamic_shapes=sizes.shapes, strict=False)
            caught.tell()
            return program
    except Error:
        raise
    except Exception as error:
        check_that_it_runs(model, inputs)
        fixed = _FIXED.search(str(error))
        if fixed:
            name, axis, dim, size = fixed.groups()
            raise specialized(dim or f"axis {axis} of the input '{name}'", size, lines) from error
        raise UnsupportedError(
            f'torch.export cannot capture the model; capture="trace" follows one run of it instead. '
            f"torch.export says: {first_lines(error)}"
        ) from error


@contextlib.contextmanager
def _equate_sizes(sizes: DynamicSizes) -> Iterator[None]:
    """Among the fake inputs that torch.export makes."""
    trace: Any = torch.export._trace
    make = trace.make_fake_inputs

    def make_fake_inputs(*args: Any, **options: Any) -> Any:
        made = make(*args, **options)
        _, fake_args, fake_kwargs, *_ = made
        sizes.equate(pytree.tree_leaves((fake_args, fake_kwargs)))
        return made

    with patch_attributes(trace, make_fake_inputs=make_fake_inputs):
        yield


@contextlib.contextmanager
def _watch_functions(caught: Caught, assigned: list[torch.Tensor]) -> Iterator[None]:
    """Notes errors, and tensors that are given other data; makes an operator of ``tensor.data``, which torch does not
    see."""

    class Seeing(_NonStrictTorchFunctionHandler):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func == DATA.__set__:
                assigned.append(args[0])
            called = torch.Tensor.detach if func == DATA.__get__ else func
            try:
                return super().__torch_function__(called, types, args, kwargs)
            except Exception as error:
                caught.note(error)
                raise

    with patch_attributes(torch.export._trace, _NonStrictTorchFunctionHandler=Seeing):
        yield


@contextlib.contextmanager
def _follow_changes(
    model: torch.nn.Module, inputs: Inputs, assigned: list[torch.Tensor], changed: list[str]
) -> Iterator[None]:
    """Has the model write back the buffers that it assigns anew, and takes back its other changes of attributes, which
    ``changed`` names then. torch itself sees assigned buffers of the outermost module alone."""
    call: Any = model._call_impl

    @functools.wraps(call)
    def followed(*args: Any, **kwargs: Any) -> Any:
        registered = Registered(model)
        returned, others = registered.write_back(call(*args, **kwargs))
        given = {id(tensor) for tensor in assigned}
        others += [f"{name}.data" for name, parameter in model.named_parameters() if id(parameter) in given]
        # Recurrent modules write the list of their own weights anew.
        changes = (path for path in attributes.changes() if "_flat_weight" not in path)
        changed[:] = dict.fromkeys([*others, *changes])
        return returned

    nothing = types.SimpleNamespace(remove=lambda: None)
    fakes = {id(tensor) for tensor in (*model.parameters(), *model.buffers())}  # in place of these torch gives it fakes
    with (
        patch_attributes(torch.export._trace, register_buffer_assignment_hook=lambda *_: nothing),
        patch_attributes(model, _call_impl=followed),  # hooks would be those of all threads
        restore_attributes(model, *inputs.others) as attributes,
        restore_contents([tensor for tensor in attributes.tensors if id(tensor) not in fakes]),
    ):
        yield


@contextlib.contextmanager
def _restore_marks(tensors: Sequence[torch.Tensor]) -> Iterator[None]:
    """torch.export marks dynamic axes in attributes of the example inputs, and leaves them there where it fails."""
    before = [{name: copy.copy(value) for name, value in vars(tensor).items()} for tensor in tensors]
    try:
        yield
    finally:
        for tensor, attributes in zip(tensors, before, strict=True):
            vars(tensor).clear()
            vars(tensor).update(attributes)


def _shapes_of_inputs(exported: torch.export.ExportedProgram) -> list[torch.Size | None]:
    shapes: list[torch.Size | None] = []
    for node, spec in zip(exported.graph.nodes, exported.graph_signature.input_specs, strict=False):
        if spec.kind is torch.export.graph_signature.InputKind.USER_INPUT:
            value: Any = node.meta.get("val")
            shapes.append(value.shape if isinstance(value, torch.Tensor) else None)
    return shapes
