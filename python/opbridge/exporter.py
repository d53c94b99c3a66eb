"""The whole path of a model: capture, conversion, file, verification."""

from __future__ import annotations

import inspect
import numbers
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, get_args

from opbridge.capture import Capture
from opbridge.capture import capture as capture_program
from opbridge.paths import checked_path
from opbridge.torch_arguments import (
    Example,
    ExternalData,
    Options,
    TorchArguments,
    check_mode,
    example_of,
    named_in_order,
    options_of,
    with_torch_arguments,
)

if TYPE_CHECKING:
    from typing import BinaryIO

    import torch
    from typing_extensions import Unpack

    from opbridge.artifacts import Artifacts, CallError
    from opbridge.capture.program import Program
    from opbridge.onnx_program import ONNXProgram, Origin, TemporaryFolder
    from opbridge.verification import Verification

DEFAULT_OPSET = 21

Target = Literal["onnxruntime", "onnx"]
Report = tuple[int, int, int, "str | None", int, "list[str]", float]  # what _core.export_graph returns


def export(
    model: Any,
    args: Any = (),
    f: str | os.PathLike[str] | BinaryIO | None = None,
    *,
    path: str | os.PathLike[str] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    target: Target = "onnxruntime",
    opset_version: int | None = None,
    dynamic_shapes: Any = None,
    dynamic_axes: Mapping[str, Mapping[int, str] | Sequence[int]] | None = None,
    custom_opsets: Mapping[str, int] | None = None,
    custom_translation_table: Mapping[Any, Callable[..., Any]] | None = None,
    external_data: ExternalData = None,
    weights: str | os.PathLike[str] | None = None,
    export_params: bool | None = True,
    keep_initializers_as_inputs: bool | None = False,
    training: Any = None,
    verify: bool = False,
    libraries: Sequence[str | os.PathLike[str]] = (),
    verbose: bool | None = None,
    capture: Capture | None = None,
    source_lines: bool = True,
    simplify: bool = True,
    mutations_as_outputs: bool = False,
    random: bool = False,
    **torch_arguments: Unpack[TorchArguments],
) -> ONNXProgram:
    """Exports ``model``, called with ``args`` and ``kwargs``, to ONNX.

    Takes all keywords of torch.onnx.export, with their names and meanings. Exports in several threads wait for one
    another. Other threads may train other models meanwhile, but must not run this one.

    Args:
        model: A torch.nn.Module, any callable, a torch.export.ExportedProgram, TorchScript, or a
            torch.onnx.ExportableModule.
        args: The example inputs: a tensor, or a tuple, whose last element may be a dict of keyword arguments. Sizes
            that are not declared dynamic become constants. It may be missing for an ExportedProgram and an
            ExportableModule, which know their examples.
        f: The file to write, or a binary stream, which gets the model with its weights inside. Without it, the model
            lies in a temporary file, which lives as long as the program that is returned.
        path: Another name of ``f``, for a path.
        kwargs: The keyword arguments of the example.
        input_names: Names of the inputs, in order.
        output_names: Names of the outputs, in order.
        target: What the model relies on. "onnxruntime" is ONNX Runtime with opbridge's operators
            (``opbridge.session``). "onnx" is the ONNX standard alone, for other runtimes: an operator of opbridge
            becomes standard nodes, or an ONNX function of its name; one that has no such form raises
            UnsupportedError. Such a model has no rewrites for faults and missing kernels of ONNX Runtime, which may
            refuse it.
        opset_version: The version of ONNX's operators, from 9 on; 21 by default.
        dynamic_shapes: Dynamic sizes in the form of torch.export, where a size may also be a name, shared by all sizes
            that are equal. The model may narrow the range of a name, but not that of a torch.export.Dim. For an
            ExportedProgram, whose dynamic sizes are fixed, the names are used.
        dynamic_axes: Dynamic sizes in the older form: a dict from the name of an input to its dynamic axes, or to a
            dict from axes to names. The name of an output's axis is used if the size depends on data; other sizes of
            outputs follow from the inputs.
        custom_opsets: Versions of other domains, ``{"custom": 2}``; 1 by default.
        custom_translation_table: Mappings for this export alone: by an operator (``torch.ops.aten.add.Tensor``), an
            onnxscript function, or a Python function that calls operators of onnxscript.
        external_data: Whether the weights are stored in a separate file: always (True), never (False), or only if the
            model would exceed 2 GB (None). "reference" leaves them in the files of ``weights``, into which the model
            then points. These must be in the model's folder or below, since runtimes refuse other places. Weights
            that the files lack, or that a simplification has changed, are stored as with None.
        weights: A ``.safetensors`` file, the index of several, or a folder with either. Parameters and buffers, which
            may be on the meta device, get the values of the tensors with their names.
        export_params: False makes the parameters inputs of the model, which then does not contain their values.
        keep_initializers_as_inputs: True makes the parameters inputs with their values as defaults.
        training: A torch.onnx.TrainingMode. Models are exported in evaluation mode unless it says otherwise; the
            model's own mode is restored afterwards.
        verify: Runs the file in ONNX Runtime on the same inputs, and raises VerificationError unless it agrees with
            PyTorch. The file is kept then.
        libraries: Libraries of other operators for ONNX Runtime, as in ``opbridge.session``: for ``verify``, and for
            calls of the program that is returned.
        verbose: True prints the captured program and the time of each step. False hides the line that a terminal
            shows from one second on. The logger "opbridge" gets the steps (INFO) and the program (DEBUG).
        capture: "export" for torch.export, or "trace" to record one run of the model, as by default for TorchScript.
        source_lines: Stores the source line of each node.
        simplify: Whether the optional simplifications run.
        mutations_as_outputs: Returns the new content of inputs and buffers that the model writes, and of buffers that
            it reassigns, as extra outputs ``NAME_out``. Without it, such a model is refused, unless the buffers are not
            stored and its next call does not depend on them. A model that keeps any other state for its next call is
            always refused.
        random: Dropout in training mode drops elements at random in each run of the exported model. Without it, such
            a model is refused.

    Returns:
        The program. It can be called, saved and inspected.

    Raises:
        InvalidArgumentError: Arguments are unsuitable or contradict one another.
        UnsupportedError: Something cannot be converted. The message lists all of it, with the lines of the model.
        InvalidNodeError: A symbolic function makes a node that ONNX does not allow.
        VerificationError: With ``verify``, an output differs from PyTorch's, or ONNX Runtime cannot run the model.
        FileError: The file cannot be written. An existing file is left untouched by this error, and by those above
            except VerificationError.
    """
    options = options_of(
        torch_arguments,
        capture=capture,
        simplify=simplify,
        source_lines=source_lines,
        external_data=external_data,
        export_params=export_params,
        keep_initializers_as_inputs=keep_initializers_as_inputs,
        training=training,
        verbose=verbose,
    )
    opset = DEFAULT_OPSET if opset_version is None else opset_version
    _check(f, path, target, opset, options.external_data)
    check_mode(options.mode, model)
    _check_weights(weights, options.external_data)
    example = example_of(model, Example(args, kwargs, input_names, output_names, dynamic_shapes))
    _check_names_and_mappings(example, custom_opsets=custom_opsets, dynamic_axes=dynamic_axes)
    example = named_in_order(model, example)

    from opbridge import _core
    from opbridge.artifacts import Artifacts
    from opbridge.capture.run_warnings import TraceWarning
    from opbridge.capture.state.reassigned_buffers import buffers_as_outputs
    from opbridge.capture.symbolic_sizes.dynamic_axes import sizes_of_outputs
    from opbridge.onnx_program import ONNXProgram, copy_to_stream, external_data_option
    from opbridge.operators import libraries_at
    from opbridge.symbolics.registry import registry_for
    from opbridge.symbolics.translation_table import TranslationTable
    from opbridge.weights import WeightFiles, place_weights

    translations = TranslationTable(custom_translation_table or {})
    refers = options.external_data == "reference"
    files = None if weights is None else WeightFiles(weights, refers=refers)
    operators = libraries_at(libraries)
    folder, file = _file_for(f, path)
    if files is not None and refers:
        _core.check_references(files.files, file)  # the writer checks this too, but only after the capture
    artifacts = Artifacts(options.artifacts, model)

    def converted() -> tuple[Program, Report, Origin]:
        with artifacts.time_step("capture"):
            program = _captured(model, example, dynamic_axes, options, artifacts)
        artifacts.captured(program.graph)
        parameters: dict[str, torch.Tensor] = {}
        if options.parameters_as != "constants" or example.input_names:  # state_dict() may run hooks of the user
            parameters = _parameters_in(program, model)
        origin = _origin(model, example, target, options, parameters, operators)
        with artifacts.time_step("conversion"):
            report = _core.export_graph(
                program.graph,
                file,
                registry_for(program, opset, translations.symbolics),
                target=target,
                opset=opset,
                custom_opsets=dict(custom_opsets or {}),
                domain_versions=program.domain_versions,
                external_data=external_data_option(options.external_data),
                weight_files=[] if files is None else files.files,
                source_lines=options.source_lines,
                simplify=options.simplify,
                mutations_as_outputs=mutations_as_outputs,
                random=random,
                parameters=list(parameters),
                parameters_as=options.parameters_as,
                input_names=list(example.input_names or ()),
                output_names=list(example.output_names or ()),
                output_sizes=sizes_of_outputs(dynamic_axes, example.output_names),
                progress=artifacts.progress,
                warn=lambda what: warnings.warn(what, TraceWarning, stacklevel=4),
            )
        return program, report, origin

    with artifacts.record(), place_weights(model, files), buffers_as_outputs(mutations_as_outputs):
        program, report, origin = converted()
        if any(call.made_up for call in program.calls):
            report, origin = _with_sizes_found(program, converted) or (report, origin)
        translations.warn_of_unused()
        if f is not None and folder is not None:
            folder.check_for_stream()
            copy_to_stream(file, f)
        verification = None
        if verify:
            verification = _verified(file, model, example, options, artifacts, operators)
        else:
            artifacts.write_page(file)
        result = ONNXProgram(file, *report, verification, origin, folder)
        artifacts.finished(result)
    return result


def _with_sizes_found(
    program: Program, converted: Callable[[], tuple[Program, Report, Origin]]
) -> tuple[Report, Origin] | None:
    """Captures and converts again with symbols for the sizes that functions of ``program`` make up; warns if the model
    computes with them as constants."""
    from opbridge.capture.autograd_function.calls import make_sizes_symbolic
    from opbridge.capture.run_warnings import TraceWarning
    from opbridge.errors import UnsupportedError

    try:
        with make_sizes_symbolic(program):
            return converted()[1:]
    except UnsupportedError as error:
        names = ", ".join(sorted({call.function.__qualname__ for call in program.calls if call.made_up}))
        warnings.warn(
            f"the nodes of {names}.symbolic have a size that depends on data, where forward returns a constant one; "
            f"what the model computes from that size is constant, since: {error.message}",
            TraceWarning,
            stacklevel=4,
        )
        return None


def _verified(
    file: str,
    model: Any,
    example: Example,
    options: Options,
    artifacts: Artifacts,
    libraries: Sequence[str],
) -> Verification:
    from opbridge.first_difference import errors_of_calls
    from opbridge.verification import Comparison, VerificationError, proven

    errors: list[CallError] = []
    try:
        with artifacts.time_step("verification"):
            comparison = Comparison(file, model, example.args, example.kwargs, mode=options.mode, libraries=libraries)
            errors = errors_of_calls(comparison) if artifacts.has_page else []
        verification = proven(comparison)
    except VerificationError as error:
        artifacts.write_page(file, error.message, errors)
        raise
    artifacts.write_page(file, verification.text(), errors)
    return verification


export.__signature__ = with_torch_arguments(export)  # type: ignore[attr-defined]


def _check(f: Any, path: Any, target: Any, opset: Any, external_data: Any) -> None:
    from opbridge.errors import InvalidArgumentError
    from opbridge.onnx_program import check_stream

    if f is not None and path is not None:
        raise InvalidArgumentError("f and path are both given: pass only one of them")
    if path is not None and not isinstance(path, (str, os.PathLike)):
        raise InvalidArgumentError(f"path must be a path, not a {type(path).__name__}")
    if target not in get_args(Target):
        raise InvalidArgumentError(f"target must be one of {', '.join(get_args(Target))}, not {target!r}")
    if not isinstance(opset, numbers.Integral):
        raise InvalidArgumentError(f"opset_version must be an integer, not {opset!r}")
    if external_data not in (None, True, False, "reference"):
        raise InvalidArgumentError(f'external_data must be True, False, None or "reference", not {external_data!r}')
    if f is not None and not isinstance(f, (str, os.PathLike)):
        check_stream(f, external_data)
    elif f is None and path is None and external_data == "reference":
        raise InvalidArgumentError('external_data="reference" needs a path in the folder of the weights')


def _check_weights(weights: Any, external_data: ExternalData) -> None:
    from opbridge.errors import InvalidArgumentError

    if external_data == "reference" and weights is None:
        raise InvalidArgumentError(
            'external_data="reference" needs weights=…, the .safetensors files that the model is to point into; '
            "for those of a .pt2 file, use the command: opbridge convert model.pt2 model.onnx --external-data reference"
        )


def _check_names_and_mappings(example: Example, **mappings: Any) -> None:
    from opbridge.errors import InvalidArgumentError

    for what, given in (("input_names", example.input_names), ("output_names", example.output_names)):
        if isinstance(given, str) or not all(isinstance(name, str) for name in given or ()):
            raise InvalidArgumentError(f"{what} must be a list of names, not {given!r}")
    for what, mapping in (("kwargs", example.kwargs), *mappings.items()):
        if mapping is not None and not isinstance(mapping, Mapping):
            raise InvalidArgumentError(f"{what} must be a dict, not {mapping!r}")


def _file_for(f: Any, path: Any) -> tuple[TemporaryFolder | None, str]:
    """The file to write, and its folder if both are temporary: without a path, or for a stream."""
    from opbridge.onnx_program import TemporaryFolder

    given = f if path is None else path
    if isinstance(given, (str, os.PathLike)):
        return None, checked_path(given)
    folder = TemporaryFolder()
    return folder, folder.model


def _captured(model: Any, example: Example, dynamic_axes: Any, options: Options, artifacts: Artifacts) -> Program:
    from opbridge.errors import UnsupportedError

    def capture(how: Capture | None) -> Program:
        return capture_program(
            model,
            example.args,
            example.kwargs,
            how=how,
            mode=options.mode,
            on_exported=artifacts.dump,
            dynamic_shapes=example.dynamic_shapes,
            dynamic_axes=dynamic_axes,
            input_names=example.input_names,
            output_names=example.output_names,
        )

    if not options.traces_otherwise:
        return capture(options.capture)
    try:
        return capture(None)
    except UnsupportedError as error:
        warnings.warn(f"the model is traced, since fallback=True and: {error.message}", stacklevel=3)
        return capture("trace")


def _parameters_in(program: Program, model: Any) -> dict[str, torch.Tensor]:
    """The parameters and persistent buffers that the program uses, in the order of the model's state_dict."""
    stored: Mapping[str, torch.Tensor] = {}
    if hasattr(model, "state_dict"):
        state = model.state_dict
        stored = state() if callable(state) else state  # that of an ExportedProgram is a property
    used = set(program.graph.weight_names)
    return {name: tensor for name, tensor in stored.items() if name in used}


def _origin(
    model: Any,
    example: Example,
    target: str,
    options: Options,
    parameters: Mapping[str, torch.Tensor],
    libraries: Sequence[str],
) -> Origin:
    import torch

    from opbridge.capture.inputs import as_module, read_inputs_of, signature_of
    from opbridge.onnx_program import Origin, example_leaves

    if isinstance(model, torch.export.ExportedProgram):
        kinds = inspect.Parameter
        signature = inspect.Signature([kinds("args", kinds.VAR_POSITIONAL), kinds("kwargs", kinds.VAR_KEYWORD)])
        args, kwargs = model.example_inputs or (None, None)
    else:
        signature = signature_of(as_module(model).forward)
        args, kwargs = example.args, example.kwargs
    known = args is not None
    return Origin(
        target=target,
        parameters_as=options.parameters_as,
        is_simplified=options.simplify,
        model=type(model).__name__,
        signature=signature,
        example=example_leaves(read_inputs_of(signature, type(model).__name__, args, kwargs)) if known else None,
        parameters=list(parameters.values()) if options.parameters_as == "inputs" else (),
        libraries=libraries,
    )
