"""The result of an export: the model's file, its numbers, and what a program can do with it."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import io
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from opbridge import _core
from opbridge.capture.inputs import Inputs, read_inputs_of
from opbridge.errors import Error, InvalidArgumentError, UnsupportedError
from opbridge.paths import checked_path
from opbridge.progress import ProgressLine
from opbridge.torch_arguments import ExternalData, ParametersAs
from opbridge.verification import feeds_for

if TYPE_CHECKING:
    from typing import BinaryIO

    import onnx
    import onnx_ir
    import onnxruntime

    from opbridge.exporter import Report
    from opbridge.verification import Verification

_LARGEST_FILE = 2**31 - 1
_ROOM_FOR_NODES = 2**28

# Names that only torch's ONNXProgram has, and what to do instead.
_ELSEWHERE = {
    "exported_program": "it is not kept; call torch.export.export, and export what it returns",
    "call_reference": "run onnx.reference.ReferenceEvaluator(program.model_proto), with an export for target='onnx'",
    "compute_values": "opbridge.verify finds the first value that differs from PyTorch's",
    "apply_weights": "export the model again when it has its weights",
}


@dataclasses.dataclass(frozen=True)
class Origin:
    """Facts about its export that a program needs."""

    target: str
    parameters_as: ParametersAs
    is_simplified: bool
    model: str
    signature: inspect.Signature
    example: Mapping[str, Any] | None  # the example inputs by name, with torch.Tensor for each tensor
    parameters: Sequence[torch.Tensor]  # the values of the last inputs
    libraries: Sequence[str]  # of other operators

    def feeds(self, names: Sequence[str], args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, torch.Tensor]:
        """The inputs of the ONNX model for a call of the PyTorch model; ``names`` are theirs."""
        inputs = read_inputs_of(self.signature, self.model, args, kwargs)
        if self.example is not None:
            self._check_against(self.example, example_leaves(inputs))
        count = len(names) - len(self.parameters)
        feeds = feeds_for(names[:count], inputs)
        return feeds | dict(zip(names[count:], self.parameters, strict=True))

    @staticmethod
    def _check_against(example: Mapping[str, Any], given: Mapping[str, Any]) -> None:
        for name in [*example, *given]:
            exported, value = example.get(name), given.get(name)
            if (exported is torch.Tensor) != (value is torch.Tensor):
                how = "with" if exported is torch.Tensor else "without"
                raise InvalidArgumentError(f"the model was exported {how} a tensor '{name}'; call it in the same way")
            if name in given and not _is_same(value, exported):
                raise InvalidArgumentError(
                    f"'{name}' is the constant {exported!r} in the exported model, and cannot be {value!r}"
                )


def _is_same(value: Any, other: Any) -> bool:
    """Whether two constants are equal; NaN equals NaN."""
    return bool(value == other or (value != value and other != other))


def example_leaves(inputs: Inputs) -> dict[str, Any]:
    """The inputs by name, with torch.Tensor for each tensor."""
    leaves = (torch.Tensor if isinstance(leaf, torch.Tensor) else leaf for leaf in inputs.leaves)
    return dict(zip(inputs.names, leaves, strict=True))


class TemporaryFolder:
    """A folder for a model, which is removed with this object."""

    def __init__(self) -> None:
        folder = tempfile.mkdtemp(prefix="opbridge-")
        self.model = os.path.join(folder, "model.onnx")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)

    def check_for_stream(self) -> None:
        """Refuses a model whose weights are in a file of their own."""
        if os.path.exists(f"{self.model}.data"):
            raise UnsupportedError(
                "the model exceeds 2 GB, the limit of one ONNX file; give a path instead of a stream, so that its "
                "weights are stored beside it"
            )


def external_data_option(external_data: ExternalData) -> str:
    """The core's word for the argument ``external_data``."""
    if external_data == "reference":
        return external_data
    return {None: "automatic", True: "always", False: "never"}[external_data]


@dataclasses.dataclass(eq=False)
class ONNXProgram:
    """An exported model.

    The model lies in a file, and is loaded only by the methods that need it. Called with the arguments of the PyTorch
    model, it runs in ONNX Runtime with opbridge's operators.
    """

    path: str
    """The model's file. If the export was given none, it is temporary and lives as long as this object."""
    node_count: int
    """The number of nodes, without those in bodies and functions."""
    model_bytes: int
    """The size of the model's file."""
    external_bytes: int
    """The size of the file of weights beside the model; 0 if there is none."""
    external_file: str | None
    """The path of that file."""
    referenced_bytes: int
    """The size of the weights that the model points to in the files of ``weights``."""
    referenced_files: list[str]
    """The paths of these files."""
    write_seconds: float
    """The part of the export's time that was spent on writing."""
    verification: Verification | None
    """The comparison with PyTorch, if the export was called with ``verify``."""
    _origin: Origin = dataclasses.field(repr=False)
    _folder: TemporaryFolder | None = dataclasses.field(default=None, repr=False)
    _model: Any = dataclasses.field(default=None, repr=False)  # the onnx_ir model; if set, it takes the file's place
    _session: Any = dataclasses.field(default=None, repr=False)
    _file: str = dataclasses.field(init=False, repr=False)  # the absolute path: the working directory may change

    def __post_init__(self) -> None:
        self._file = os.path.abspath(self.path)

    def __call__(self, *args: Any, **kwargs: Any) -> tuple[torch.Tensor, ...]:
        """Runs the model in ONNX Runtime.

        Args:
            *args: The arguments of the PyTorch model. Tensors may have other values than those of the example, and
                other sizes where these are dynamic; arguments that are not tensors must be those of the example.
            **kwargs: Its keyword arguments.

        Returns:
            The outputs as tensors on the CPU, with lists and dicts of the model flattened.

        Raises:
            InvalidArgumentError: An argument is missing, or is not what the model was exported with.
            Error: ONNX Runtime cannot load or run the model. The cause is its own error.
        """
        from opbridge.runtime import run
        from opbridge.runtime_errors import explain_failures

        if self._session is None:
            self.initialize_inference_session()
        names = [value.name for value in self._session.get_inputs()]
        feeds = self._origin.feeds(names, args, kwargs)
        with explain_failures(self._file):
            return tuple(run(self._session, feeds))

    def save(
        self,
        destination: str | os.PathLike[str] | BinaryIO,
        *,
        include_initializers: bool | None = None,
        keep_initializers_as_inputs: bool | None = None,
        external_data: bool | None = None,
    ) -> None:
        """Writes the model.

        Args:
            destination: A path, or a binary stream, which gets the model with its weights inside.
            include_initializers: torch.onnx's keyword. It must be ``export_params`` of the export, which otherwise may
                have combined parameters with one another.
            keep_initializers_as_inputs: torch.onnx's keyword. It must be that of the export.
            external_data: Whether the weights are stored in a file beside the model: always (True), never (False), or
                only if the model would exceed 2 GB (None).

        Raises:
            InvalidArgumentError: The destination cannot be written to, or is a stream with ``external_data=True``.
            UnsupportedError: The keywords differ from those of the export, or the model exceeds the 2 GB of one file.
            FileError: The file cannot be written.
        """
        if external_data not in (None, True, False):
            raise InvalidArgumentError(f"external_data must be True, False or None, not {external_data!r}")
        self._check_parameters(include_initializers, keep_initializers_as_inputs)
        if isinstance(destination, (str, os.PathLike)):
            self._write(checked_path(destination), external_data)
            return
        check_stream(destination, external_data)
        if self._model is None and self.external_file is None:
            copy_to_stream(self._file, destination)
            return
        folder = TemporaryFolder()
        self._write(folder.model, None)
        folder.check_for_stream()
        copy_to_stream(folder.model, destination)

    def optimize(self) -> None:
        """Simplifies the model, unless the export did. A file that the export was given stays as it is."""
        if self._origin.is_simplified and self._model is None:
            return
        with self._write_current() as source:
            folder = TemporaryFolder()
            path = folder.model
            external = True if self.external_file is not None else None
            report = self._rewrite(source, path, external, simplify=True)
        self.release()
        self._model, self._folder, self.path, self._file = None, folder, path, path
        self.node_count, self.model_bytes, self.external_bytes, self.external_file = report[:4]
        self.referenced_bytes, self.referenced_files, self.write_seconds = report[4:]
        self._origin = dataclasses.replace(self._origin, is_simplified=True)

    def initialize_inference_session(
        self, initializer: Callable[[str], onnxruntime.InferenceSession] | None = None
    ) -> None:
        """Makes the session that runs the model. Otherwise the first call does.

        Args:
            initializer: Makes the session from the path of the model; by default ``opbridge.session``, with the
                ``libraries`` of the export.
        """
        from opbridge.runtime import session

        with self._write_current() as path:
            self._session = initializer(path) if initializer else session(path, libraries=self._origin.libraries)

    def release(self) -> None:
        """Releases the session. The next call makes a new one, of the present model."""
        self._session = None

    @property
    def model_proto(self) -> onnx.ModelProto:
        """The model as an ``onnx.ModelProto``, with its weights: a new object each time. Needs the package onnx."""
        if self._model is not None:
            proto: onnx.ModelProto = _onnx_ir().to_proto(self._loaded_model())
            return proto
        try:
            import onnx
        except ImportError as error:
            raise _not_installed("model_proto", "onnx") from error
        return onnx.load(self._file)

    @property
    def model(self) -> onnx_ir.Model:
        """The model as an ``onnx_ir.Model``. From its first use on, ``save`` writes this object, with all changes.

        Needs the package onnx-ir.
        """
        if self._model is None:
            self._model = _onnx_ir().load(self._file)
            self._model.meta["opbridge.program"] = self  # keeps the temporary folder, which may hold the weights
        model: onnx_ir.Model = self._model
        return model

    @model.setter
    def model(self, model: onnx_ir.Model) -> None:
        self._model = model
        self.release()

    def _check_parameters(self, included: bool | None, as_inputs: bool | None) -> None:
        had = self._origin.parameters_as
        if included is not None and included == (had == "inputs"):
            raise UnsupportedError(
                f"include_initializers={included} must be decided by export(…, export_params={included})"
            )
        if as_inputs is not None and as_inputs == (had == "constants"):
            raise UnsupportedError(
                f"keep_initializers_as_inputs={as_inputs} must be decided by export(…, "
                f"keep_initializers_as_inputs={as_inputs})"
            )

    def _rewrite(self, source: str, path: str, external_data: bool | None, *, simplify: bool) -> Report:
        with ProgressLine() as progress:
            progress.begin("reading")
            return _core.rewrite_model(
                source,
                path,
                target=self._origin.target,
                external_data=external_data_option(external_data),
                simplify=simplify,
                progress=progress,
            )

    def _write(self, path: str, external_data: bool | None) -> None:
        if self._model is None:
            self._rewrite(self._file, path, external_data, simplify=False)
            return
        initializers = self._model.graph.initializers.values()
        size = sum(value.const_value.nbytes for value in initializers if value.const_value is not None)
        in_own_file = external_data or (external_data is None and size > _LARGEST_FILE - _ROOM_FOR_NODES)
        is_own = self.external_file is not None and os.path.abspath(path) == self._file
        if not in_own_file or is_own:  # onnx_ir cannot write to the file from which it reads the weights
            self._model = self._loaded_model()
        if in_own_file:
            _onnx_ir().save(self._model, path, external_data=f"{os.path.basename(path)}.data")
            return
        _onnx_ir().save(self._model, path)
        if is_own:
            os.remove(f"{self._file}.data")
            self.external_file, self.external_bytes = None, 0

    def _loaded_model(self) -> onnx_ir.Model:
        """The onnx_ir model with its weights in memory."""
        loaded: onnx_ir.Model = _onnx_ir().external_data.load_to_model(self._model)
        return loaded

    @contextlib.contextmanager
    def _write_current(self) -> Iterator[str]:
        """Yields the path of a file that holds the model as it is now."""
        if self._model is None:
            yield self._file
            return
        folder = TemporaryFolder()
        self._write(folder.model, None)
        yield folder.model

    def __getattr__(self, name: str) -> Any:
        if name in _ELSEWHERE:
            raise AttributeError(f"opbridge's ONNXProgram has no '{name}': {_ELSEWHERE[name]}")
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")


def check_stream(stream: Any, external_data: ExternalData) -> None:
    if isinstance(stream, io.TextIOBase) or not hasattr(stream, "write"):
        raise InvalidArgumentError(f"the output must be a path or a binary stream, not a {type(stream).__name__}")
    if external_data:
        raise InvalidArgumentError(f"external_data={external_data!r} needs a path: a stream has no file beside it")


def copy_to_stream(path: str, stream: Any) -> None:
    with open(path, "rb") as file:
        shutil.copyfileobj(file, stream)


def _onnx_ir() -> Any:
    try:
        import onnx_ir
    except ImportError as error:
        raise _not_installed("model", "onnx-ir") from error
    return onnx_ir


def _not_installed(attribute: str, package: str) -> Error:
    return Error(f"'{attribute}' needs the package {package}, which is not installed: pip install {package}")
