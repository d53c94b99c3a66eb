"""Captures a PyTorch model as a graph of PyTorch's operators."""

from __future__ import annotations

import contextlib
import contextvars
import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import torch

    from opbridge import _core
    from opbridge.capture.environment import Mode
    from opbridge.capture.inputs import Inputs
    from opbridge.capture.program import Program
    from opbridge.capture.symbolic_sizes.dynamic_axes import DynamicSizes

Capture = Literal["export", "trace"]


def capture(
    model: Any,
    args: Any = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    how: Capture | None = None,
    mode: Mode = "evaluation",
    on_exported: Callable[[torch.export.ExportedProgram], None] | None = None,
    dynamic_shapes: Any = None,
    dynamic_axes: Mapping[str, Mapping[int, str] | Sequence[int]] | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
) -> Program:
    """Captures ``model``, called with ``args`` and ``kwargs``.

    ``how="export"`` uses torch.export.export; ``model`` may also be an ExportedProgram.
    ``how="trace"`` records one run of the model, with the Python branches that this run takes. By default, a model that
    contains TorchScript is traced, and any other model is exported. ``mode`` is the mode of its modules.
    ``on_exported`` is called with the program that torch.export captured.

    ``dynamic_shapes`` has torch.export's form, in which a dim may also be a name; ``dynamic_axes`` has the older
    form of torch.onnx, with names from ``input_names``. A size that is declared dynamic never becomes a constant
    without an error. An ExportedProgram already has its dynamic sizes; these arguments only name them.
    """
    import torch

    from opbridge.capture.autograd_function.calls import capture_with_functions
    from opbridge.capture.environment import with_gradients_if_needed
    from opbridge.capture.inputs import as_module, read_inputs, torchscript_in
    from opbridge.capture.program import Program
    from opbridge.capture.run_warnings import forget_shown
    from opbridge.capture.symbolic_sizes.dynamic_axes import DynamicSizes
    from opbridge.capture.ways import Captured, Way, capture_ways
    from opbridge.errors import InvalidArgumentError, UnsupportedError

    forget_shown()
    if how not in ("export", "trace", None):
        raise InvalidArgumentError(f"capture must be 'export' or 'trace', not {how!r}")
    if isinstance(model, torch.export.ExportedProgram):
        from opbridge.capture.exported.bridge import bridge
        from opbridge.capture.exported.size_names import names_of_symbols
        from opbridge.capture.program import Sizes

        names: dict[str, str] = {}
        if dynamic_shapes is not None or dynamic_axes:
            names = names_of_symbols(
                model,
                dynamic_shapes=dynamic_shapes,
                dynamic_axes=dynamic_axes,
                input_names=input_names,
                output_names=output_names,
            )
        if on_exported is not None:
            on_exported(model)
        return Program(bridge(model, Sizes(names)))

    module = as_module(model)
    path = torchscript_in(module)
    if how is None:
        how = "export" if path is None else "trace"
    elif how == "export" and path is not None:
        part = f"the submodule '{path}'" if path else "the model"
        raise UnsupportedError(
            f'{part} is TorchScript, which torch.export cannot capture; capture="trace" follows one run of it instead'
        )
    if how == "export":
        # The parts of torch that the module uses must be imported before patch_torch takes the lock of torch.compile.
        importlib.import_module("opbridge.capture.exported.torch_export")

    def sizes_of(inputs: Inputs) -> DynamicSizes:
        return DynamicSizes(inputs, dynamic_shapes, dynamic_axes, input_names, output_names)

    def capture_way(way: Way) -> Captured:
        sizes = sizes_of(way.inputs).in_way(way.constant, way.equal, way.ranges_hold)
        inputs = sizes.without_ones()
        dump = on_exported if way.is_first else None

        def run(with_gradients: bool) -> Program:
            with patch_torch(module, mode, with_gradients):
                return capture_with_functions(module, lambda: _graph_of(module, how, inputs, sizes, dump), way.calls)

        return Captured(with_gradients_if_needed(run), sizes.branches, way)

    inputs = read_inputs(module, args, kwargs).copied()
    sizes = sizes_of(inputs)
    own_variables = contextvars.copy_context()  # what the run sets there is lost with it
    return own_variables.run(capture_ways, capture_way, inputs, sizes, how == "export" and sizes.have_ranges())


def _graph_of(
    model: torch.nn.Module,
    how: Capture,
    inputs: Inputs,
    sizes: DynamicSizes,
    on_exported: Callable[[torch.export.ExportedProgram], None] | None,
) -> _core.Graph:
    from opbridge.capture.autograd_function.calls import use_calls
    from opbridge.capture.rewrites.detection import attributes_made_once
    from opbridge.capture.state.random_numbers import check_drawn_numbers, restore_generators
    from opbridge.capture.state.second_call import refuse_kept_changes
    from opbridge.capture.symbolic_sizes.squeeze import check_squeezes_in_example
    from opbridge.capture.symbolic_sizes.tracing_flag import capture_without_shortcuts

    changed: list[str] = []
    if how == "trace":
        from opbridge.capture.traced.tracer import capture_trace

        def graph_of() -> _core.Graph:
            return capture_trace(model, inputs, sizes, changed)
    else:
        from opbridge.capture.exported.torch_export import bridged, export_program
        from opbridge.capture.exported.transforms import export_or_trace
        from opbridge.capture.traced.tracer import capture_symbolically

        def export() -> _core.Graph:
            exported = export_program(model, inputs, sizes, changed)
            if on_exported is not None:
                on_exported(exported)
            return bridged(exported, sizes)

        def graph_of() -> _core.Graph:
            return export_or_trace(export, lambda: capture_symbolically(model, inputs, sizes, changed))

    with restore_generators() as used:
        graph = capture_without_shortcuts(lambda: sizes.padding.capture(graph_of))
    with use_calls([]), restore_generators():
        check_squeezes_in_example(model, inputs, sizes)
        if used:
            check_drawn_numbers(model, inputs, used)
        if set(changed) - attributes_made_once(model):
            refuse_kept_changes(model, inputs, changed)
    return graph


@contextlib.contextmanager
def patch_torch(model: Any, mode: Mode = "evaluation", with_gradients: bool = False) -> Iterator[None]:
    """Applies the replacements that both captures need while they run ``model``."""
    from opbridge.capture.environment import enter_capture
    from opbridge.capture.rewrites.detection import patch_detection
    from opbridge.capture.rewrites.fake_kernels import return_new_tensors
    from opbridge.capture.rewrites.flex_attention import patch_flex_attention
    from opbridge.capture.rewrites.packed_sequences import patch_packing
    from opbridge.capture.rewrites.pooling import patch_pooling
    from opbridge.capture.rewrites.quantized import patch_quantized
    from opbridge.capture.rewrites.recurrent import patch_recurrent
    from opbridge.capture.rewrites.resized_images import patch_resizing
    from opbridge.capture.rewrites.scaled_images import patch_interpolation
    from opbridge.capture.rewrites.sparse import patch_sparse
    from opbridge.capture.rewrites.transformers import patch_fast_paths

    with (
        enter_capture(model, mode, with_gradients),
        patch_recurrent(),
        patch_pooling(),
        patch_packing(),
        patch_flex_attention(),
        patch_fast_paths(),
        patch_detection(),
        patch_resizing(),
        patch_interpolation(),
        patch_sparse(model),
        patch_quantized(model),
        return_new_tensors(),
    ):
        yield
