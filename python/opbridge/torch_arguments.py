"""The keywords of torch.onnx.export, from the TorchScript exporter's first to the newest, as opbridge's options.

A keyword is honoured if it means something to opbridge, accepted if it cannot change the model, and refused by name if
opbridge cannot do what it asks for.
"""

from __future__ import annotations

import dataclasses
import difflib
import inspect
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from opbridge.errors import InvalidArgumentError, UnsupportedError
from opbridge.paths import checked_path

if TYPE_CHECKING:
    from opbridge.capture import Capture
    from opbridge.capture.environment import Mode

ParametersAs = Literal["constants", "defaults", "inputs"]
ExternalData = bool | Literal["reference"] | None


class TorchArguments(TypedDict, total=False):
    """The keywords that opbridge.export takes only because torch.onnx.export does or did."""

    dynamo: bool | None
    """False is ``capture="trace"``. True is torch.export, except for TorchScript."""
    fallback: bool | None
    """Traces a model that torch.export cannot capture."""

    optimize: bool | None
    """Another name of ``simplify``."""
    do_constant_folding: bool | None
    """False is ``simplify=False``."""
    strip_doc_string: bool | None
    """True is ``source_lines=False``."""
    use_external_data_format: bool | None
    """True is ``external_data=True``."""

    report: bool | str | os.PathLike[str] | None
    """A path: the HTML page of the model, with the time of each step and, after ``verify``, the error of each node.
    True: a report of the export, or of its failure, as Markdown in ``artifacts_dir``, as torch.onnx writes it."""
    profile: bool | None
    """Profiles the export. The result is printed, or part of the report."""
    dump_exported_program: bool | None
    """Writes torch.export's program as a ``.pt2`` file into ``artifacts_dir``."""
    artifacts_dir: str | os.PathLike[str] | None
    """The folder of these files; the working directory by default."""

    operator_export_type: Any
    """Operators become ONNX; one without a mapping is an error. ONNX_ATEN is refused."""
    aten: bool | None
    """True is refused."""
    export_raw_ir: bool | None
    """True is refused."""
    export_modules_as_functions: Any
    """Refused unless it is False or empty."""

    autograd_inlining: bool | None
    """Without effect: a Function with ``symbolic`` becomes a node, any other its operators."""
    enable_onnx_checker: bool | None
    """Without effect: every node is checked when it is made."""
    example_outputs: Any
    """Without effect: the capture determines the outputs."""
    _retain_param_name: bool | None
    """Without effect: parameters keep their names."""


def with_torch_arguments(function: Callable[..., Any]) -> inspect.Signature:
    """The signature of a function that takes TorchArguments, with each of them as a keyword.

    Scripts look there for the keywords that an exporter knows.
    """
    signature = inspect.signature(function)
    *own, others = signature.parameters.values()
    kind = inspect.Parameter.KEYWORD_ONLY
    taken = [
        inspect.Parameter(name, kind, default=None, annotation=getattr(each, "__forward_arg__", each))
        for name, each in TorchArguments.__annotations__.items()
    ]
    assert others.kind is inspect.Parameter.VAR_KEYWORD
    return signature.replace(parameters=[*own, *taken])


@dataclasses.dataclass(frozen=True)
class ArtifactOptions:
    """The output of an export besides the model."""

    verbose: bool
    quiet: bool  # whether the terminal shows no progress line
    report: bool
    page: str | None  # the path of the HTML page
    profile: bool
    dump_exported_program: bool
    folder: str


@dataclasses.dataclass(frozen=True)
class Options:
    """The options that follow from torch's keywords and opbridge's own."""

    capture: Capture | None  # None: as the model requires
    traces_otherwise: bool  # if torch.export cannot capture the model
    mode: Mode
    simplify: bool
    source_lines: bool
    external_data: ExternalData
    parameters_as: ParametersAs
    artifacts: ArtifactOptions


def options_of(
    arguments: TorchArguments,
    *,
    capture: Capture | None,
    simplify: bool,
    source_lines: bool,
    external_data: ExternalData,
    export_params: bool | None,
    keep_initializers_as_inputs: bool | None,
    training: Any,
    verbose: bool | None,
) -> Options:
    _check_names(arguments)
    _refuse(arguments)
    dynamo = arguments.get("dynamo")
    if capture is not None and dynamo is not None and (capture == "export") != dynamo:
        raise InvalidArgumentError(f"capture={capture!r} contradicts dynamo={dynamo}: pass only one of them")
    if capture is None and dynamo is False:
        capture = "trace"
    if export_params is False:
        parameters_as: ParametersAs = "inputs"
    else:
        parameters_as = "defaults" if keep_initializers_as_inputs else "constants"
    dump = bool(arguments.get("dump_exported_program"))
    if dump and capture == "trace":
        raise UnsupportedError("dump_exported_program needs torch.export, but this export traces: leave it out")
    if external_data is None and arguments.get("use_external_data_format"):
        external_data = True
    return Options(
        capture=capture,
        traces_otherwise=bool(arguments.get("fallback")) and capture is None,
        mode=_mode_of(training),
        simplify=simplify
        and arguments.get("optimize") is not False
        and arguments.get("do_constant_folding") is not False,
        source_lines=source_lines and not arguments.get("strip_doc_string"),
        external_data=external_data,
        parameters_as=parameters_as,
        artifacts=ArtifactOptions(
            verbose=bool(verbose),
            quiet=verbose is False,
            report=arguments.get("report") is True,
            page=_page_of(arguments.get("report")),
            profile=bool(arguments.get("profile")),
            dump_exported_program=dump,
            folder=os.fspath(arguments.get("artifacts_dir") or "."),
        ),
    )


def _page_of(report: Any) -> str | None:
    if isinstance(report, bool) or report is None:
        return None
    if not isinstance(report, (str, os.PathLike)) or not checked_path(report).endswith((".html", ".htm")):
        raise InvalidArgumentError(f"report must be True or the path of an HTML page to write, not {report!r}")
    return checked_path(report)


def _check_names(arguments: Mapping[str, Any]) -> None:
    for name in arguments:
        if name not in TorchArguments.__annotations__:
            like = difflib.get_close_matches(name, TorchArguments.__annotations__, 1)
            advice = f"; did you mean '{like[0]}'?" if like else ""
            raise TypeError(f"export() got an unexpected keyword argument '{name}'{advice}")


def _refuse(arguments: TorchArguments) -> None:
    if arguments.get("aten") or _name_of(arguments.get("operator_export_type")) == "ONNX_ATEN":
        raise UnsupportedError(
            "operator_export_type=ONNX_ATEN and aten=True ask for ATen's operators in the model, which ONNX Runtime "
            "cannot run; leave it out: operators become ONNX, and those that have no mapping are reported"
        )
    if arguments.get("export_raw_ir"):
        raise UnsupportedError(
            "export_raw_ir=True asks for TorchScript's graph instead of a model; leave it out, or print what "
            "torch.export.export returns"
        )
    if arguments.get("export_modules_as_functions"):
        raise UnsupportedError(
            "export_modules_as_functions is not supported: modules become nodes, which have the module's path in their "
            "names; leave it out"
        )


def _mode_of(training: Any) -> Mode:
    modes: dict[Any, Mode] = {
        **dict.fromkeys((None, False, "EVAL"), "evaluation"),
        **dict.fromkeys((True, "TRAINING"), "training"),
        "PRESERVE": "own",
    }
    mode = modes.get(_name_of(training))
    if mode is None:
        raise InvalidArgumentError(f"training must be a torch.onnx.TrainingMode or a bool, not {training!r}")
    return mode


def check_mode(mode: Mode, model: Any) -> None:
    import torch

    if mode == "training" and isinstance(model, torch.export.ExportedProgram):
        raise UnsupportedError(
            "training cannot change an ExportedProgram, which has the mode of the captured model; leave it out, or "
            "capture the model in training mode"
        )


def _name_of(member: Any) -> Any:
    """The name of a member of one of torch's enumerations; any other value itself."""
    name = getattr(member, "name", None)
    return name if isinstance(name, str) else member


@dataclasses.dataclass(frozen=True)
class Example:
    """The example inputs of a model and what belongs to them."""

    args: Any
    kwargs: Mapping[str, Any] | None
    input_names: Sequence[str] | None
    output_names: Sequence[str] | None
    dynamic_shapes: Any


def example_of(model: Any, given: Example) -> Example:
    """Completes ``given`` with what an ExportableModule or an ExportedProgram knows about itself."""
    import torch

    if isinstance(model, torch.export.ExportedProgram):
        args = () if given.args is None else given.args
        if not isinstance(args, torch.Tensor) and not args and not given.kwargs and model.example_inputs is not None:
            args, kwargs = model.example_inputs
            return dataclasses.replace(given, args=args, kwargs=kwargs)
        return dataclasses.replace(given, args=args)
    exportable = getattr(sys.modules.get("torch.onnx"), "ExportableModule", ())
    if not isinstance(model, exportable) or not isinstance(given.args, tuple) or given.args or given.kwargs:
        return given
    described: Any = model
    args, kwargs = described.example_arguments()
    return Example(
        args=args,
        kwargs=kwargs,
        input_names=described.input_names() if given.input_names is None else given.input_names,
        output_names=described.output_names() if given.output_names is None else given.output_names,
        dynamic_shapes=described.dynamic_shapes() if given.dynamic_shapes is None else given.dynamic_shapes,
    )


def named_in_order(model: Any, example: Example) -> Example:
    """``example`` with the names of its inputs in the order of the model's parameters."""
    import torch

    from opbridge.capture.inputs import as_module, names_in_order

    if not example.input_names or isinstance(model, torch.export.ExportedProgram):
        return example
    names = names_in_order(as_module(model), example.args, example.kwargs, example.input_names)
    return dataclasses.replace(example, input_names=names)
