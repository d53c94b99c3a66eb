"""The whole path of a model: capture, conversion, file, verification."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, get_args

from opbridge.capture import Capture
from opbridge.capture import capture as capture_program
from opbridge.paths import checked_path

if TYPE_CHECKING:
    from opbridge.verification import Verification

DEFAULT_OPSET = 21

Target = Literal["onnxruntime", "onnx"]


@dataclasses.dataclass(frozen=True)
class ExportReport:
    """The result of an export; ``write_seconds`` is the part of its time spent on writing."""

    path: str
    node_count: int
    model_bytes: int
    external_bytes: int
    external_file: str | None
    write_seconds: float
    verification: Verification | None


def export(
    model: Any,
    args: Any = (),
    f: str | os.PathLike[str] | None = None,
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
    external_data: bool | None = None,
    verify: bool = False,
    capture: Capture = "export",
    source_lines: bool = True,
    simplify: bool = True,
    mutations_as_outputs: bool = False,
) -> ExportReport:
    """Exports ``model``, called with ``args`` and ``kwargs``, to the ONNX file ``path`` (or ``f``, as in torch.onnx).

    The model is exported in evaluation mode; its own mode is restored afterwards.

    Arguments have the names and meanings of torch.onnx.export, and these besides. ``target`` is what the model relies
    on. "onnxruntime" is ONNX Runtime with opbridge's operators (``opbridge.session``). "onnx" is the ONNX standard
    alone, for other runtimes: an operator of opbridge becomes standard nodes, or an ONNX function of its name; one that
    has no such form raises UnsupportedError. Such a model has no rewrites for faults and missing kernels of ONNX
    Runtime, which may refuse it.

    A dynamic size may be a name, shared by all sizes that are equal. The model may narrow its range, but not that of a
    torch.export.Dim. ``external_data`` stores the weights in a separate file: always (True), never (False), or only if
    the model would exceed 2 GB (None). ``verify`` runs the file in ONNX Runtime on the same inputs and raises
    VerificationError unless it agrees with PyTorch. ``capture`` is "export" for torch.export, or "trace" to record one
    run of the model. ``source_lines`` stores the source line of each node. ``mutations_as_outputs`` returns the new
    content of mutated inputs and buffers, and of reassigned buffers, as extra outputs ``NAME_out``; without it, such a
    model is refused. A model that keeps any other state for its next call is always refused.

    Raises InvalidArgumentError for unsuitable arguments, UnsupportedError with everything that has no mapping,
    InvalidNodeError if a symbolic function makes an invalid node, and FileError if the file cannot be written. An
    existing file at ``path`` is then untouched. A file that fails ``verify`` is kept. Exports in several threads wait
    for one another. Other threads may train other models meanwhile, but must not run this one.
    """
    from opbridge import _core
    from opbridge.errors import InvalidArgumentError
    from opbridge.symbolics.registry import registry_for

    file = f if path is None else path
    if file is None or (f is not None and path is not None):
        raise InvalidArgumentError("the output path is missing: export(model, args, path)")
    if not isinstance(file, (str, os.PathLike)):
        raise InvalidArgumentError(f"the output must be a path, not a {type(file).__name__}")
    file = checked_path(file)
    if target not in get_args(Target):
        raise InvalidArgumentError(f"target must be one of {', '.join(get_args(Target))}, not {target!r}")
    opset = DEFAULT_OPSET if opset_version is None else opset_version
    if not isinstance(opset, int):
        raise InvalidArgumentError(f"opset_version must be an integer, not {opset!r}")
    if external_data not in (None, True, False):
        raise InvalidArgumentError(f"external_data must be True, False or None, not {external_data!r}")
    for what, given in (("input_names", input_names), ("output_names", output_names)):
        if isinstance(given, str) or not all(isinstance(name, str) for name in given or ()):
            raise InvalidArgumentError(f"{what} must be a list of names, not {given!r}")
    for what, mapping in (("kwargs", kwargs), ("custom_opsets", custom_opsets), ("dynamic_axes", dynamic_axes)):
        if mapping is not None and not isinstance(mapping, Mapping):
            raise InvalidArgumentError(f"{what} must be a dict, not {mapping!r}")
    program = capture_program(
        model,
        args,
        kwargs,
        how=capture,
        dynamic_shapes=dynamic_shapes,
        dynamic_axes=dynamic_axes,
        input_names=input_names,
        output_names=output_names,
    )
    report = _core.export_graph(
        program.graph,
        file,
        registry_for(program, opset),
        target=target,
        opset=opset,
        custom_opsets=dict(custom_opsets or {}),
        external_data={None: "automatic", True: "always", False: "never"}[external_data],
        source_lines=source_lines,
        simplify=simplify,
        mutations_as_outputs=mutations_as_outputs,
        input_names=list(input_names or ()),
        output_names=list(output_names or ()),
    )
    verification = None
    if verify:
        from opbridge.verification import verify as prove

        verification = prove(file, model, args, kwargs)
    return ExportReport(file, *report, verification)
