"""The whole way of a model: capture, conversion, file, proof."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from opbridge.capture import Capture
from opbridge.capture import capture as capture_program
from opbridge.paths import checked_path

if TYPE_CHECKING:
    from opbridge.verification import Verification

DEFAULT_OPSET = 21


@dataclasses.dataclass(frozen=True)
class ExportReport:
    """What export wrote; ``write_seconds`` is what writing the bytes took of its time."""

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

    The model is exported in evaluation mode, and is in its own again afterwards.

    The arguments are named as in torch.onnx.export and mean the same. A dynamic size may be a name, one for all
    sizes that are equal; the model may bound it, which it may not where a torch.export.Dim promises a range.
    ``external_data`` puts the weights into a file beside the model: True always, also where none is large, False never,
    None where one file would pass 2 GB. ``verify`` runs the file in ONNX Runtime on the same inputs and raises
    VerificationError unless it agrees with PyTorch. ``capture`` is "export" for torch.export's view of the model,
    "trace" for what one run of it does. ``source_lines`` stores with each node the line of the model it comes from.
    ``mutations_as_outputs`` returns what the model writes to its inputs and buffers, or assigns to its buffers, as
    further outputs, named ``NAME_out``; without it, such a model is refused. So is one that keeps anything else for its
    next call.

    Raises InvalidArgumentError for arguments that do not fit, UnsupportedError with everything that has no mapping,
    InvalidNodeError for a symbolic function that makes a wrong node, FileError where the file cannot be written; what
    stood at ``path`` is then untouched. A file that is found wrong by ``verify`` stays there. Exports in several
    threads wait for one another. Other threads may train other models meanwhile, but not run this one.
    """
    from opbridge import _core
    from opbridge.errors import InvalidArgumentError
    from opbridge.symbolics.registry import registry_for

    target = f if path is None else path
    if target is None or (f is not None and path is not None):
        raise InvalidArgumentError("give the file to write: export(model, args, path)")
    if not isinstance(target, (str, os.PathLike)):
        raise InvalidArgumentError(f"the file to write is given by its path, not as a {type(target).__name__}")
    target = checked_path(target)
    opset = DEFAULT_OPSET if opset_version is None else opset_version
    if not isinstance(opset, int):
        raise InvalidArgumentError(f"opset_version is a number, not {opset!r}")
    if external_data not in (None, True, False):
        raise InvalidArgumentError(f"external_data is True, False or None, not {external_data!r}")
    for what, given in (("input_names", input_names), ("output_names", output_names)):
        if isinstance(given, str) or not all(isinstance(name, str) for name in given or ()):
            raise InvalidArgumentError(f"{what} is a list of names, not {given!r}")
    for what, mapping in (("kwargs", kwargs), ("custom_opsets", custom_opsets), ("dynamic_axes", dynamic_axes)):
        if mapping is not None and not isinstance(mapping, Mapping):
            raise InvalidArgumentError(f"{what} is a dict, not {mapping!r}")
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
        target,
        registry_for(program, opset),
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

        verification = prove(target, model, args, kwargs)
    return ExportReport(target, *report, verification)
