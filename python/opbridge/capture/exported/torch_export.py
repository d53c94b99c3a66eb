"""capture="export": captures the model with torch.export.export."""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import keyword
import sys
import types
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from opbridge import _core
from opbridge.capture.eager_types import show_eager_types
from opbridge.capture.exported.autocast import casts, keep_element_types
from opbridge.capture.exported.bodies import nodes_of
from opbridge.capture.exported.bridge import bridge, check_squeezes, is_access_to_inner
from opbridge.capture.exported.converted_modules import leave_converted_modules
from opbridge.capture.exported.overhead import skip_overhead
from opbridge.capture.exported.overlapping_writes import refuse_overlapping_writes, refuse_writes_beside_possible_copies
from opbridge.capture.exported.size_names import shapes_of_inputs
from opbridge.capture.exported.thread_confinement import confine_export
from opbridge.capture.failures import check_that_it_runs, first_lines, otherwise, refusal_of
from opbridge.capture.inputs import Inputs, signature_of
from opbridge.capture.known_tensors import retry_with_tensors
from opbridge.capture.operators import is_assignment_of_data
from opbridge.capture.patching import patch, patch_attributes
from opbridge.capture.program import Sizes
from opbridge.capture.rewrites.assignments import assign
from opbridge.capture.rewrites.copies import COPIES
from opbridge.capture.rewrites.eager_only import EAGER_ONLY, index_of_masks
from opbridge.capture.rewrites.scalar_masks import has_scalar_mask
from opbridge.capture.rewrites.torch_functions import retry_with_substitutes
from opbridge.capture.run_warnings import TraceWarning, warn_of_run
from opbridge.capture.source import line_of_frame
from opbridge.capture.state.attributes import restore_attributes, restore_contents
from opbridge.capture.state.real_tensors import READS
from opbridge.capture.state.reassigned_buffers import Registered
from opbridge.capture.suppressed_errors import Caught
from opbridge.capture.symbolic_sizes.builtin_calls import retry_with_builtins
from opbridge.capture.symbolic_sizes.dynamic_axes import DynamicSizes, Fixing, RangesDoNotHold, specialized
from opbridge.capture.symbolic_sizes.empty_examples import let_sizes_be_zero
from opbridge.capture.symbolic_sizes.guards import watch_sizes
from opbridge.capture.symbolic_sizes.size_checks import passing_truth
from opbridge.capture.traced.function_mode import DATA, TRUTH
from opbridge.errors import Error, UnsupportedError
from opbridge.torch_compat import (
    CALL_OF_MODULE,
    FLAT_WEIGHTS,
    exporting,
    is_fake,
    is_traceable_wrapper_subclass,
    keep_function_modes,
    pytree,
)
from opbridge.torch_compat.messages import fixed_size, guards_beyond_ranges
from opbridge.torch_compat.symbols import set_size_oblivious


def _is_set_to(tensor: torch.Tensor, other: torch.Tensor) -> bool:
    """``tensor.is_set_to(other)``; torch would compare two copies, which never have the same memory."""
    if tensor is not other:
        raise UnsupportedError("is_set_to compares the memory of two tensors, which an exported model does not have")
    return True


_CALLED_INSTEAD: dict[Any, Any] = {
    DATA.__get__: torch.Tensor.detach,
    torch.Tensor.__setitem__: assign,
    torch.Tensor.is_set_to: _is_set_to,
    **COPIES,
    **EAGER_ONLY,
    **READS,
}


def bridged(exported: torch.export.ExportedProgram, sizes: DynamicSizes) -> _core.Graph:
    names = Sizes(sizes.name_symbols(shapes_of_inputs(exported)), sizes)
    return bridge(exported, names, parameters_are_kept=False)


def export_program(
    model: torch.nn.Module, inputs: Inputs, sizes: DynamicSizes, changed: list[str]
) -> torch.export.ExportedProgram:
    """``changed`` is filled with the paths of the attributes that the model changes."""

    # A dynamic axis of size 1 in the example stays dynamic only if torch does not reason from the example's sizes. Some
    # models need this reasoning, for a guard such as `size != 1`. torch's default serves them; it refuses an example of
    # size 1.
    def oblivious() -> torch.export.ExportedProgram:
        return retry_with_substitutes(lambda: _exported(model, inputs, sizes, changed, size_oblivious=True))

    def by_sizes() -> torch.export.ExportedProgram:
        made = _exported(model, inputs, sizes, changed, size_oblivious=False)
        warn_of_run("whether a dynamic size is 1, which torch.export takes as False")
        return made

    exported = oblivious() if sizes.shapes is None else otherwise(oblivious, by_sizes, unless=_is_lasting)
    if any(map(_is_unresolved, nodes_of(exported.graph_module))) or _computes_with_wrapper(exported):
        if any(is_assignment_of_data(node) for node in exported.graph.nodes):
            raise UnsupportedError(
                "the model assigns to the data of a tensor (.data =) and uses torch.vmap or torch.autocast, with which "
                "torch loses the assignment; make a new tensor instead"
            )
        refuse_overlapping_writes(exported)
        refuse_writes_beside_possible_copies(exported)  # the tracer may know which they are
        keep_element_types(exported.graph_module)
        check_squeezes(exported, sizes)  # now, because the second pass removes each squeeze that keeps all axes
        first = exported
        exported = otherwise(
            lambda: _decomposed(first, sizes, size_oblivious=True),
            lambda: _decomposed(first, sizes, size_oblivious=False),
        )
    return exported


def _is_lasting(refusal: UnsupportedError) -> bool:
    """Whether torch asks the same of the sizes if it takes them to be above 1."""
    return isinstance(refusal, RangesDoNotHold) and refusal.has_equation


def _decomposed(
    exported: torch.export.ExportedProgram, sizes: DynamicSizes, size_oblivious: bool
) -> torch.export.ExportedProgram:
    """The program without torch.vmap and torch.autocast, and with the tensors in tensor subclasses as weights."""
    try:
        with set_size_oblivious(size_oblivious), confine_export():
            decomposed: torch.export.ExportedProgram = exported.run_decompositions(exporting.DECOMPOSITIONS_OF_ALIASES)
    except Exception as error:
        raise UnsupportedError(
            "torch.export cannot decompose the torch.vmap, torch.autocast or tensor subclass of the model; write it "
            f"without. torch.export says: {sizes.text_of(first_lines(error))}"
        ) from error
    return decomposed


def _computes_with_wrapper(exported: torch.export.ExportedProgram) -> bool:
    """Whether a weight that is a tensor subclass around other tensors is an argument of an operator, which the class
    replaces by operators on these tensors below the level of the program."""
    tensors = exported.state_dict | exported.constants
    return any(
        is_traceable_wrapper_subclass(tensors.get(spec.target)) and not all(map(is_access_to_inner, node.users))
        for node, spec in zip(exported.graph.nodes, exported.graph_signature.input_specs, strict=False)
    )


def _is_unresolved(node: torch.fx.Node) -> bool:
    """Whether torch resolves the node only in a second pass."""
    return exporting.is_of_vmap(node.target) or casts(node)


def _exported(
    model: torch.nn.Module, inputs: Inputs, sizes: DynamicSizes, changed: list[str], size_oblivious: bool
) -> torch.export.ExportedProgram:
    def once() -> torch.export.ExportedProgram:
        return _exported_once(model, inputs, sizes, changed, size_oblivious)

    return retry_with_builtins(lambda: retry_with_tensors(model, once))


def _exported_once(
    model: torch.nn.Module, inputs: Inputs, sizes: DynamicSizes, changed: list[str], size_oblivious: bool
) -> torch.export.ExportedProgram:
    fixings: dict[str, Fixing] = {}
    caught = Caught()
    assigned: list[torch.Tensor] = []  # tensors whose data the model assigns
    try:
        with (
            keep_function_modes(),
            set_size_oblivious(size_oblivious),
            let_sizes_be_zero(sizes),
            skip_overhead(),
            confine_export(),
            watch_sizes(sizes, fixings, caught),
            _watch_functions(caught, assigned),
            _leave_failed_modules(),
            leave_converted_modules(caught),
            _restore_marks(inputs.tensors),
            _equate_sizes(sizes),
            _declare_keywords(model, inputs, sizes),
            _follow_changes(model, inputs, assigned, changed),
        ):
            program = torch.export.export(model, inputs.args, inputs.kwargs, dynamic_shapes=sizes.shapes, strict=False)
            caught.report(inputs.example is not None)
            return program
    except (Error, TraceWarning):
        raise
    except Exception as error:
        check_that_it_runs(model, inputs, error)
        if fixed := fixed_size(error):
            name, axis, dim, size = fixed
            raise specialized(dim or f"axis {axis} of the input '{name}'", size, fixings) from error
        refusal = refusal_of(
            error,
            'torch.export cannot capture the model; capture="trace" follows one run of it instead. torch.export says:',
            sizes,
        )
        if guards := guards_beyond_ranges(error):
            refusal = RangesDoNotHold(refusal.message, refusal.where)
            refusal.has_equation = any(" == " in guard for guard in guards)
        raise refusal from error


@contextlib.contextmanager
def _declare_keywords(model: torch.nn.Module, inputs: Inputs, sizes: DynamicSizes) -> Iterator[None]:
    """Turns the arguments that ``**kwargs`` takes into parameters of ``forward``. torch 2.13 does not support dynamic
    sizes for them otherwise; later versions reject those of an argument named like ``**kwargs`` itself."""
    forward: Any = model.forward
    signature = signature_of(forward)
    declared = [each for each in signature.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
    others = inputs.kwargs.keys() - {each.name for each in declared}
    if sizes.shapes is None or not others or not all(map(_may_be_parameter, others)):
        yield
        return

    @functools.wraps(forward)
    def called(*args: Any, **kwargs: Any) -> Any:
        return forward(*args, **kwargs)

    declared += [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in inputs.kwargs if name in others]
    called.__signature__ = signature.replace(parameters=declared)  # type: ignore[attr-defined]
    with patch_attributes(model, forward=called):
        yield


def _may_be_parameter(name: str) -> bool:
    return name.isidentifier() and not keyword.iskeyword(name)


@contextlib.contextmanager
def _equate_sizes(sizes: DynamicSizes) -> Iterator[None]:
    """Makes sizes with the same name equal in the fake inputs of torch.export."""
    make = exporting.FAKE_INPUTS.original

    def make_fake_inputs(*args: Any, **options: Any) -> Any:
        made = make(*args, **options)
        _, fake_args, fake_kwargs, *_ = made
        sizes.equate(pytree.tree_leaves((fake_args, fake_kwargs)))
        return made

    with patch(exporting.FAKE_INPUTS, make_fake_inputs):
        yield


@contextlib.contextmanager
def _watch_functions(caught: Caught, assigned: list[torch.Tensor]) -> Iterator[None]:
    """Records errors, and tensors whose data is assigned. Replaces ``tensor.data``, which torch does not record, by an
    operator, and passes conditions whose only effect is an error. Refuses to assign fake data to a real tensor, such as
    one of a closure: the tensor would lose its memory."""

    class Seeing(exporting.ExportFunctionHandler):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func == DATA.__set__:
                assigned.append(args[0])
                if is_fake(args[1]) and not is_fake(args[0]):
                    refusal = UnsupportedError(
                        "the model assigns the data of a tensor that is neither a parameter nor a buffer: register it; "
                        'capture="trace" follows one run instead',
                        line_of_frame(sys._getframe(1)),
                    )
                    caught.note(refusal)
                    raise refusal
            if func == TRUTH and is_fake(args[0]) and (truth := passing_truth(sys._getframe(1))) is not None:
                return truth
            called = _CALLED_INSTEAD.get(func, func)
            if func == torch.Tensor.__getitem__:
                args = args[0], index_of_masks(args[1])
            try:
                if func == torch.Tensor.__getitem__ and has_scalar_mask(args[1]):
                    return func(*args)  # torch's rules for indices do not know them
                return super().__torch_function__(called, types, args, kwargs)
            except Exception as error:
                caught.note(error)
                raise

    with patch(exporting.FUNCTION_HANDLER, Seeing):
        yield


@contextlib.contextmanager
def _leave_failed_modules() -> Iterator[None]:
    """Lets a model catch an error of one of its modules, as of ``layer(x, lengths=lengths)`` where the layer takes no
    lengths: torch would go on as if it were still in that module, and fail."""
    call = exporting.MODULE_CALL_OF_FX.original

    def call_module(self: Any, *args: Any, **options: Any) -> Any:
        depth = len(self.module_stack)
        try:
            return call(self, *args, **options)
        except Exception:
            while len(self.module_stack) > depth:
                self.module_stack.popitem()
            raise

    with patch(exporting.MODULE_CALL_OF_FX, call_module):
        yield


@contextlib.contextmanager
def _follow_changes(
    model: torch.nn.Module, inputs: Inputs, assigned: list[torch.Tensor], changed: list[str]
) -> Iterator[None]:
    """Makes the model write back the buffers that it reassigns, and undoes its other changes of attributes, whose paths
    it adds to ``changed``. torch itself handles reassigned buffers only in the outermost module."""
    call: Any = getattr(model, CALL_OF_MODULE)

    @functools.wraps(call)
    def followed(*args: Any, **kwargs: Any) -> Any:
        registered = Registered(model)
        returned, others = registered.write_back(call(*args, **kwargs))
        given = {id(tensor) for tensor in assigned}
        others += [f"{name}.data" for name, parameter in model.named_parameters() if id(parameter) in given]
        # Recurrent modules rebuild the list of their weights.
        changes = (path for path in attributes.changes() if FLAT_WEIGHTS not in path)
        changed[:] = dict.fromkeys([*others, *changes])
        return returned

    nothing = types.SimpleNamespace(remove=lambda: None)
    fakes = {id(tensor) for tensor in (*model.parameters(), *model.buffers())}  # torch replaces these by fake tensors
    with (
        patch(exporting.BUFFER_ASSIGNMENT_HOOK, lambda *_: nothing),
        patch_attributes(model, **{CALL_OF_MODULE: followed}),  # not by hooks, which act in all threads
        restore_attributes(model, *inputs.others) as attributes,
        restore_contents([tensor for tensor in attributes.tensors if id(tensor) not in fakes]),
        show_eager_types(attributes),
    ):
        yield


@contextlib.contextmanager
def _restore_marks(tensors: Sequence[torch.Tensor]) -> Iterator[None]:
    """Restores attributes of the example inputs, in which torch.export marks dynamic axes. On an error it would leave
    the marks there."""
    before = [{name: copy.copy(value) for name, value in vars(tensor).items()} for tensor in tensors]
    try:
        yield
    finally:
        for tensor, attributes in zip(tensors, before, strict=True):
            vars(tensor).clear()
            vars(tensor).update(attributes)
