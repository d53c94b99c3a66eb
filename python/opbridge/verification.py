"""Verifies that both ends of the bridge compute the same: PyTorch in eager mode and ONNX Runtime."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from opbridge import _core
from opbridge.capture.environment import Mode, enter_inference, with_gradients_if_needed
from opbridge.capture.failures import failure_of
from opbridge.capture.inputs import Inputs, as_module, read_inputs
from opbridge.capture.state.attributes import named_tensors, restore_attributes, restore_contents
from opbridge.capture.structures import leaves_of
from opbridge.drawn_inputs import DrawnInputs
from opbridge.errors import Error, InvalidArgumentError
from opbridge.operators import libraries_at
from opbridge.progress import ProgressLine
from opbridge.runtime import run, session
from opbridge.runtime_errors import explain_failures


@dataclasses.dataclass(frozen=True)
class OutputDifference:
    """The difference of one output of ONNX Runtime from PyTorch's."""

    name: str
    """The name of the output in the file."""
    max_absolute: float
    """The largest difference between two elements; NaN if shapes or element types differ."""
    max_relative: float
    """The largest difference between two elements, divided by the magnitude of PyTorch's element."""
    cosine: float = math.nan
    """The cosine of the angle between both tensors, as vectors of their finite elements."""
    mismatches: int = 0
    """The number of elements that differ by more than the tolerance."""
    mismatch: str = ""
    """Describes the difference; empty if the output agrees."""
    inputs: str = ""
    """Describes the inputs; empty for those that were given."""


@dataclasses.dataclass(frozen=True)
class Verification:
    """The comparison of all outputs, for all inputs."""

    outputs: tuple[OutputDifference, ...]
    """One for each output and each of the inputs that were compared."""

    @property
    def ok(self) -> bool:
        """Whether all outputs agree."""
        return not any(output.mismatch for output in self.outputs)

    @property
    def max_absolute(self) -> float:
        """The largest absolute difference of an output."""
        return max((output.max_absolute for output in self.outputs), default=0.0)

    @property
    def max_relative(self) -> float:
        """The largest relative difference of an output."""
        return max((output.max_relative for output in self.outputs), default=0.0)

    def text(self) -> str:
        """The differences, one line per output."""
        lines = [
            f"{output.name}{f' ({output.inputs})' if output.inputs else ''}: {output.mismatch}"
            for output in self.outputs
            if output.mismatch
        ]
        return "\n  ".join(["ONNX Runtime and PyTorch differ:", *lines]) if lines else "all outputs agree"

    def table(self) -> str:
        """A line for each output and each input, with its difference from PyTorch's."""
        rows = cells_of(self.outputs)
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
        return "\n".join(line.rstrip() for line in lines)


def cells_of(outputs: Sequence[OutputDifference]) -> list[tuple[str, ...]]:
    """The cells of a table: its titles, and a row for each output."""
    head = ("inputs", "output", "largest difference", "relative", "cosine", "mismatches")
    rows = [
        (
            output.inputs or "given",
            output.name,
            f"{output.max_absolute:.3g}",
            f"{output.max_relative:.3g}",
            f"{output.cosine:.6f}",
            str(output.mismatches),
        )
        for output in outputs
    ]
    return [head, *rows]


class VerificationError(Error):
    """The model's results differ from PyTorch's, or ONNX Runtime cannot run the model.

    ``verification`` has the differences; it is None if there are no outputs to compare, or not as many as PyTorch's.
    """

    def __init__(self, message: str, verification: Verification | None = None, where: str = "") -> None:
        super().__init__(message, where)
        self.verification = verification


def verify(
    path: str | os.PathLike[str],
    model: Callable[..., Any],
    args: Any = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    random_inputs: int = 0,
    edge_values: bool = False,
    seed: int = 0,
    reproduction: str | os.PathLike[str] | None = None,
    libraries: Sequence[str | os.PathLike[str]] = (),
) -> Verification:
    """Runs a file in ONNX Runtime and a model in PyTorch on the same inputs, and compares values, shapes and types.

    PyTorch runs in evaluation mode without gradients. NaN equals NaN.

    Args:
        path: The ONNX model.
        model: The PyTorch model that it was made from.
        args: The inputs, as for ``export``. They are matched by order, whatever their names in the file; items of
            dicts and of ``**kwargs`` are matched by name.
        kwargs: The keyword arguments of the call.
        rtol: The relative tolerance. By default it depends on the element type: 1e-4 for float32, 1e-6 for float64,
            1e-2 for float16, 5e-2 for bfloat16, 0 for integers.
        atol: The absolute tolerance, with the same defaults.
        random_inputs: The number of inputs to compare besides those given. Their values are drawn between the least
            and the greatest value of each given tensor: a mask that is all true stays so. Where all floating-point
            numbers of a tensor are equal, as those of ``torch.ones``, they are drawn from the normal distribution with
            mean 0 and deviation 1. Dynamic sizes are drawn from the ranges of the export, or from 1 on, up to about
            twice the given sizes: first all least sizes, then all greatest ones, then random ones. Inputs that the
            PyTorch model refuses are drawn again.
        edge_values: Also compares the given inputs with zeros, infinities, and NaN in place of floating-point numbers.
        seed: The seed of the random inputs.
        reproduction: A folder to be written on a mismatch: the ONNX model, the inputs, PyTorch's outputs, and a script
            that compares them without the PyTorch model.
        libraries: Libraries of other operators for ONNX Runtime, as in ``opbridge.session``.

    Returns:
        The differences of all outputs.

    Raises:
        VerificationError: An output differs. The message names the first node of the program whose value differs, and
            its source line. Or ONNX Runtime cannot load or run the model; the message says what would help, and the
            cause is ONNX Runtime's own error.
        InvalidArgumentError: The PyTorch model refuses the inputs.
        FileError: There is no such file, or no such library.
    """
    if random_inputs < 0:
        raise InvalidArgumentError(f"random_inputs is a number of inputs, not {random_inputs}")
    with ProgressLine() as progress:
        progress.begin("verification")
        comparison = Comparison(path, model, args, kwargs, rtol, atol, libraries=libraries)
        return proven(comparison, random_inputs, edge_values, seed, reproduction)


def proven(
    comparison: Comparison,
    random_inputs: int = 0,
    edge_values: bool = False,
    seed: int = 0,
    reproduction: str | os.PathLike[str] | None = None,
) -> Verification:
    """The differences; raises VerificationError on a mismatch."""
    outputs: list[OutputDifference] = []
    faulty: Comparison | None = None
    for each in _comparisons(comparison, random_inputs, edge_values, seed):
        found = each.result()
        outputs += found.outputs
        if not found.ok and faulty is None:
            faulty = each
    result = Verification(tuple(outputs))
    if faulty is None:
        return result
    lines = [result.text(), _origin(faulty)]
    if reproduction is not None:
        from opbridge.reproduction import write_reproduction

        try:
            folder = write_reproduction(reproduction, faulty, result.text())
            lines.append(f"reproduced by {folder / 'reproduce.py'}")
        except OSError as error:  # the mismatch must be reported all the same
            lines.append(f"its reproduction cannot be written: {error}")
    raise VerificationError("\n".join(lines), result)


_MOST_DRAWS = 50


def _comparisons(given: Comparison, random_inputs: int, edge_values: bool, seed: int) -> Iterator[Comparison]:
    """The comparison of the given inputs, and those of other inputs."""
    yield given
    if not random_inputs and not edge_values:
        return
    drawn = DrawnInputs(given.inputs, given.shapes, given.feeds, given.metadata, seed)
    for i in range(random_inputs):
        sizes = drawn.sizes(i)
        for attempt in range(_MOST_DRAWS):
            try:
                inputs = drawn.like_example(sizes)
                label = ", ".join([f"random {i + 1}", *(f"{name}={size}" for name, size in sizes.items())])
                comparison = given.with_inputs(inputs, label)
            except InvalidArgumentError as error:
                if attempt + 1 == _MOST_DRAWS:
                    raise InvalidArgumentError(
                        f"the model refuses all {_MOST_DRAWS} inputs that were drawn like the given ones; verify it "
                        f"with other inputs of your own. The last: {error.message}"
                    ) from error
                sizes = drawn.sizes(max(i, 2))
            else:
                yield comparison
                break
    if edge_values:
        for label, inputs in drawn.edges():
            with contextlib.suppress(InvalidArgumentError):  # the PyTorch model refuses them
                yield given.with_inputs(inputs, label)


def compare(
    path: str | os.PathLike[str],
    model: Callable[..., Any],
    args: Any = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    libraries: Sequence[str | os.PathLike[str]] = (),
) -> Verification:
    """Like verify, but always returns the differences."""
    return Comparison(path, model, args, kwargs, rtol, atol, libraries=libraries).result()


def _origin(comparison: Comparison) -> str:
    from opbridge.first_difference import first_difference

    try:
        return first_difference(comparison)
    except Exception as error:  # the mismatch must be reported even if its origin is not found
        return f"its origin was not found: {next(iter(str(error).splitlines()), type(error).__name__)}"


class Comparison:
    """One run of both ends on the same inputs. ``expected`` are PyTorch's outputs, ``feeds`` are the inputs of the ONNX
    model except those for its ``parameters``."""

    def __init__(
        self,
        path: Any,
        model: Any,
        args: Any,
        kwargs: Any,
        rtol: float | None = None,
        atol: float | None = None,
        mode: Mode = "evaluation",
        libraries: Sequence[str | os.PathLike[str]] = (),
    ) -> None:
        self.path = path
        self.libraries = libraries_at(libraries)
        self.mode = mode
        self.module = as_module(model)
        self.inputs = read_inputs(self.module, args, kwargs).copied()
        self.label = ""
        self.tolerances = (rtol, atol)
        with explain_failures(path, VerificationError):
            self._running = session(path, libraries=self.libraries)
        self.names = [value.name for value in self._running.get_outputs()]
        self._input_names, self.parameters = self._separated([value.name for value in self._running.get_inputs()])
        self.feeds = feeds_for(self._input_names, self.inputs)
        with explain_failures(path, VerificationError):
            self.actual: Sequence[torch.Tensor] = run(self._running, self.feeds | self.parameters)
        self.with_gradients = False
        self.expected = with_gradients_if_needed(self._run_module)
        self.failure = ""  # ONNX Runtime's error; empty if it ran

    def with_inputs(self, inputs: Inputs, label: str) -> Comparison:
        """The same run on other inputs. Raises InvalidArgumentError if PyTorch refuses them. If ONNX Runtime does, no
        output agrees."""
        other = copy.copy(self)
        other.inputs, other.label = inputs, label
        other.feeds = feeds_for(self._input_names, inputs)
        other.expected = with_gradients_if_needed(other._run_module)
        try:
            other.actual = run(self._running, other.feeds | self.parameters)
        except Exception as error:
            other.failure = f"ONNX Runtime fails: {next(iter(str(error).splitlines()), type(error).__name__)}"
        return other

    @property
    def shapes(self) -> dict[str, Sequence[int | str | None]]:
        """The shapes of the file's inputs."""
        return {value.name: value.shape for value in self._running.get_inputs()}

    @property
    def metadata(self) -> Mapping[str, str]:
        properties: Mapping[str, str] = self._running.get_modelmeta().custom_metadata_map
        return properties

    def result(self) -> Verification:
        if self.failure:
            unknown = (math.nan, math.nan, math.nan)
            expected = zip(self.names, self.expected, strict=False)
            return Verification(
                tuple(
                    OutputDifference(name, *unknown, in_pairs(value).numel(), self.failure, self.label)
                    for name, value in expected
                )
            )
        return self.against(self.actual)

    def against(self, actual: Sequence[torch.Tensor]) -> Verification:
        """The differences of other outputs from PyTorch's."""
        if len(actual) != len(self.expected):
            raise VerificationError(f"the ONNX model has {len(actual)} outputs, PyTorch returns {len(self.expected)}")
        triples = zip(self.names, actual, self.expected, strict=True)
        found = (difference(name, a, e, *self.tolerances) for name, a, e in triples)
        return Verification(tuple(dataclasses.replace(each, inputs=self.label) for each in found))

    def _separated(self, names: list[str]) -> tuple[list[str], dict[str, torch.Tensor]]:
        """The names of inputs without those of parameters, which come last, and the parameters."""
        state = self.module.state_dict()
        given = len(self.inputs.tensors)
        if len(names) <= given or not all(name in state for name in names[given:]):
            return names, {}
        return names[:given], {name: state[name] for name in names[given:]}

    def _run_module(self, with_gradients: bool) -> list[Any]:
        self.with_gradients = with_gradients
        inputs = self.inputs.copied()  # keeps writes of the model from the caller's tensors
        module = self.module
        with (
            enter_inference(module, self.mode, with_gradients),
            restore_attributes(module),
            restore_contents(t for _, t in named_tensors(module) if not isinstance(t, torch.nn.Parameter)),
        ):
            try:
                returned = module(*inputs.args, **inputs.kwargs)
            except Exception as error:
                raise failure_of(module, inputs, error) from error
            outputs = [leaf for leaf in leaves_of(returned) if leaf is not None]
            outputs = [leaf.clone() if isinstance(leaf, torch.Tensor) else leaf for leaf in outputs]
            return outputs + self._written(self.names[len(outputs) :], inputs)

    def _written(self, names: Sequence[str], inputs: Inputs) -> list[torch.Tensor]:
        """The inputs, buffers and attributes that the model has just written, for the outputs ``NAME_out``."""
        tensors = dict(named_tensors(self.module))
        tensors |= feeds_for(list(self.feeds), inputs)
        written = (tensors.get(name.removesuffix("_out")) for name in names if name.endswith("_out"))
        return [tensor.clone() for tensor in written if isinstance(tensor, torch.Tensor)]


def feeds_for(names: Sequence[str], inputs: Inputs) -> dict[str, torch.Tensor]:
    """The inputs of an ONNX model by their names in the file: in order, except for items of dicts.

    A model that opbridge did not write may have numbers as inputs, and may lack unused inputs.
    """
    leaves = list(zip(inputs.names, inputs.leaves, inputs.are_ordered, strict=True))
    given = [item for item in leaves if isinstance(item[1], torch.Tensor)]
    if len(given) != len(names):
        given = [item for item in leaves if isinstance(item[1], (torch.Tensor, bool, int, float))]
    by_name = {name: leaf for name, leaf, _ in given}
    if len(given) != len(names):
        if not set(names) <= set(by_name):
            count = len(inputs.tensors)
            raise VerificationError(f"the ONNX model has the inputs {list(names)}, but {count} tensors are given")
        paired = {name: by_name[name] for name in names}
    else:
        unordered = {name for name, _, is_ordered in given if not is_ordered}
        by_keyword = unordered == {name for name, item in zip(names, given, strict=True) if not item[2]}
        paired = {
            name: by_name[name] if by_keyword and name in unordered else leaf
            for name, (_, leaf, _) in zip(names, given, strict=True)
        }
    return {name: leaf if isinstance(leaf, torch.Tensor) else torch.tensor(leaf) for name, leaf in paired.items()}


def difference(
    name: str, actual: torch.Tensor, expected: Any, rtol: float | None, atol: float | None
) -> OutputDifference:
    expected = in_pairs(expected)
    unknown = (math.nan, math.nan, math.nan)
    if actual.dtype != expected.dtype:
        return OutputDifference(
            name, *unknown, expected.numel(), f"element type {actual.dtype}, PyTorch returns {expected.dtype}"
        )
    if actual.shape != expected.shape:
        return OutputDifference(
            name, *unknown, expected.numel(), f"shape {tuple(actual.shape)}, PyTorch returns {tuple(expected.shape)}"
        )
    actual, expected = actual.contiguous(), expected.contiguous()
    return OutputDifference(
        name,
        *_core.compare_tensors(expected.dtype, expected.shape, actual.data_ptr(), expected.data_ptr(), rtol, atol),
    )


def in_pairs(value: Any) -> torch.Tensor:
    """Converts an output of PyTorch to its ONNX form: numbers become tensors, complex numbers become pairs."""
    tensor = value if isinstance(value, torch.Tensor) else torch.tensor(value)
    tensor = tensor.detach().cpu()
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor
