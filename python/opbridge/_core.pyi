from collections.abc import Callable, Sequence
from typing import Any

import torch

__version__: str

class Dim:
    """A size: an integer expression over named symbols."""

    @staticmethod
    def symbol(name: str, least: int | None = ..., most: int | None = ...) -> Dim: ...
    @staticmethod
    def parse(text: str, symbols: dict[str, Dim] = ...) -> Dim: ...
    @property
    def symbols(self) -> list[str]: ...
    @property
    def least(self) -> int | None: ...
    def evaluate(self, values: dict[str, int]) -> int: ...

class Graph:
    """A captured program. Its text has one node per line."""

    def verify(self) -> None: ...
    @property
    def weights(self) -> dict[str, tuple[int, list[int], bytes]]:
        """Name: (element type, dims, a copy of the bytes)."""
    @property
    def weight_names(self) -> list[str]: ...
    @property
    def source_lines(self) -> list[str]:
        """The line of the user's program of each node."""
    @property
    def node_count(self) -> int: ...

class ProgramValue:
    """A value of the program under construction."""

class ProgramBuilder:
    """Builds a Graph of PyTorch operators, call by call.

    A shape is a sequence of ints and Dims; one Dim alone stands for a Python number.
    """

    @staticmethod
    def like(graph: Graph, symbols: dict[str, Dim]) -> ProgramBuilder:
        """A builder whose graph has the inputs of ``graph``, with other Dims for the symbols of its sizes."""
    def input(self, name: str, dtype: torch.dtype, shape: Sequence[int | Dim] | Dim) -> ProgramValue: ...
    def weight(
        self, name: str, dtype: torch.dtype, dims: Sequence[int], address: int, byte_count: int, owner: object
    ) -> ProgramValue: ...
    def call(
        self,
        op: str,
        names: Sequence[str],
        arguments: Sequence[Any],
        named: dict[str, Any],
        results: Sequence[tuple[str, torch.dtype, Sequence[int | Dim] | Dim]],
        scope: str,
        line: str,
    ) -> list[ProgramValue]: ...
    def output(self, value: ProgramValue, name: str) -> None: ...
    def finish(self) -> Graph: ...

def choose(condition: Graph, if_true: Graph, if_false: Graph) -> Graph:
    """The program that runs as ``if_true`` where ``condition``, which returns one bool, holds, and otherwise as
    ``if_false``. Consumes the graphs, which must have the same inputs, and outputs of the same types and ranks."""

def set_torch_types(dtype: type[torch.dtype], elements: dict[torch.dtype, int], opaque: tuple[type, ...]) -> None: ...
def is_assertion(op: str) -> bool:
    """Whether the operator only checks a condition that the capture already knows, or prints or profiles."""

class Value:
    """A value of the ONNX graph that a symbolic function builds."""

    @property
    def name(self) -> str: ...
    @property
    def element_type(self) -> int:
        """The number in ONNX's TensorProto.DataType; 0 if unknown."""
    @property
    def dims(self) -> list[int | str] | None:
        """Sizes: ints, or the text of symbolic sizes; None if the rank is unknown."""
    @property
    def constant(self) -> bytes | None:
        """The bytes of a constant; None for a computed value."""
    def _set_type(self, element_type: int, dims: Sequence[int | str] | None) -> None: ...

class Subgraph:
    """A graph that will be the attribute of a node."""

# Element type, dims, and the bytes, or a list of strings for a tensor of strings.
Tensor = tuple[int, Sequence[int], bytes | list[str]]

class GraphBuilder:
    """Builds ONNX nodes; opbridge.symbolics wraps it as ``g``."""

    def op(
        self,
        name: str,
        inputs: Sequence[Value | None],
        attributes: Sequence[tuple[str, str, Any]],
        outputs: int,
    ) -> list[Value]: ...
    def constant(self, tensor: Tensor, is_number: bool) -> Value: ...
    def number(self, value: bool | int | float) -> Value: ...
    def subgraph(
        self,
        name: str,
        inputs: Sequence[tuple[int, Sequence[int | str] | None]],
        build: Callable[[GraphBuilder, list[Value]], list[Value]],
    ) -> Subgraph: ...
    def scalar(self, value: bool | int | float, element_type: int) -> Value: ...
    def cast(self, value: Value, element_type: int) -> Value: ...
    def reshape(self, value: Value, dims: Sequence[int | str | Value]) -> Value: ...
    def expand(self, value: Value, dims: Sequence[int | str | Value]) -> Value: ...
    def transpose(self, value: Value, permutation: Sequence[int]) -> Value: ...
    def squeeze(self, value: Value, axes: Sequence[int]) -> Value: ...
    def unsqueeze(self, value: Value, axes: Sequence[int]) -> Value: ...
    def concat(self, values: Sequence[Value], axis: int) -> Value: ...
    def slice(self, value: Value, axis: int, start: int | str | Value, end: int | str | Value, step: int) -> Value: ...
    def split(self, value: Value, axis: int, sizes: Sequence[int | str | Value]) -> list[Value]: ...
    def reduce(self, name: str, value: Value, axes: Sequence[int], keepdims: bool) -> Value: ...
    def sizes(self, dims: Sequence[int | str | Value]) -> Value: ...
    def shape_of(self, value: Value) -> Value: ...
    def dim_of(self, value: Value, axis: int) -> Value: ...
    def result(self, index: int) -> tuple[int, list[int | str] | None]: ...
    def add_function(self, domain: str, name: str, version: int, bytes: bytes) -> None: ...
    def refuse(self, reason: str) -> None: ...
    @property
    def opset(self) -> int: ...
    @property
    def result_count(self) -> int: ...
    @property
    def source(self) -> str: ...

class Registry:
    """Maps operators and opsets to symbolic functions."""

    def __init__(self) -> None: ...
    def __copy__(self) -> Registry: ...
    def add(
        self, key: str, opset: int, exactly: bool, callback: Callable[..., list[Value | None]], label: str
    ) -> None: ...
    def add_operators(self, library: str) -> None:
        """The mappings of a library of operators written once."""
    def remove(self, key: str, opset: int) -> bool: ...
    def entries(self) -> list[tuple[str, int, bool, bool, str | None]]:
        """Tuples (key, opset, exactly, bundled, schema or None)."""

def operator_libraries(path: str) -> tuple[str, str]:
    """The paths of a set's libraries for PyTorch and for ONNX Runtime, which may not exist. ``path`` is either of them,
    or their common stem."""

def operator_library(path: str) -> str:
    """The library for ONNX Runtime that ``path`` names: the file itself, or else that of the set."""

def functionalize(graph: Graph) -> None: ...
def write_page(
    model: str,
    page: str,
    *,
    steps: list[tuple[str, float]],
    errors: list[tuple[str, float, float, str]],
    verdict: str,
) -> None:
    """Draws the model as an HTML page.

    ``steps`` are the steps of its export, with their durations in seconds. ``errors`` has a tuple for each result of a
    PyTorch call: its name and operator, its absolute and relative difference from PyTorch, and a description of the
    difference, empty if there is none. ``verdict`` is the text of the verification.
    """

def diagnose_graph(
    graph: Graph,
    registry: Registry,
    *,
    name: str,
    target: str,
    opset: int,
    json: bool,
    mappings: str,
    projects: str,
    width: int = 0,
    bold: bool = False,
    colours: bool = False,
    random: bool = False,
) -> tuple[bool, str, str]:
    """Reports how each operator of the graph, which is consumed, is converted.

    Returns whether no link is missing, the report, and lines that say what was written into the file ``mappings`` and
    the folder ``projects``, unless these are empty. The report is for a terminal of ``width`` columns, or, if that is
    0, for a file.
    """

def expose_values(graph: Graph) -> list[tuple[str, str, str]]:
    """Functionalizes the graph and makes an output of every computed tensor that is used.

    Returns tuples (name, operator, line of the user's program).
    """

def opset_of(path: str) -> int:
    """The opset of ONNX's default domain in the model at ``path``."""

def standard_bodies() -> list[str]:
    """The schema lines of opbridge's operators for which target="onnx" has bodies of standard operators."""

class Progress:
    """Receives the progress of a conversion, by calls of the methods of a subclass."""

    def __init__(self) -> None: ...
    def begin(self, step: str) -> None: ...
    def advance(self, done: int, total: int) -> None:
        """Within the step, in bytes."""

class WeightFile:
    """A mapped file of weights."""

    def __init__(self, path: str) -> None: ...
    @property
    def path(self) -> str: ...
    @property
    def bytes(self) -> torch.Tensor:
        """All bytes of the file. Writing to them leaves the file as it is."""
    @property
    def tensors(self) -> dict[str, tuple[str, int, list[int], int, int]]:
        """The tensors of a .safetensors file. Name: (dtype as the file calls it, element type, dims, offset, size)."""

def check_references(files: list[WeightFile], path: str) -> None:
    """Raises InvalidArgumentError unless a model at ``path`` can refer to all the files."""

def export_graph(
    graph: Graph,
    path: str,
    registry: Registry,
    *,
    target: str = "onnxruntime",
    opset: int,
    custom_opsets: dict[str, int],
    domain_versions: dict[str, int] = ...,
    external_data: str,
    weight_files: list[WeightFile] = ...,
    source_lines: bool,
    simplify: bool,
    mutations_as_outputs: bool = False,
    random: bool = False,
    parameters: list[str] = ...,
    parameters_as: str = "constants",
    input_names: list[str],
    output_names: list[str],
    output_sizes: dict[str, dict[int, str]] = ...,
    progress: Progress | None = None,
    warn: Callable[[str], None] | None = None,
) -> tuple[int, int, int, str | None, int, list[str], float]:
    """Converts the graph, which is consumed, and writes the model. Calls ``warn`` with texts about what holds only for
    the captured example.

    ``domain_versions`` has the versions of domains that ``custom_opsets`` lacks. Symbolic functions may add to it.

    Returns the number of nodes, the bytes of the model, those of the external data, its file or None, the bytes that
    the model refers to in ``weight_files``, those of the files that it refers to, and the seconds that the writing
    took.
    """

def operators_of(path: str) -> dict[str, int]:
    """The operators of the model at ``path``, and how often each occurs."""

def first_node_of(path: str, op: str) -> tuple[str, str]:
    """The name of the first node with the operator in the model at ``path``, and the line of the PyTorch program that
    made it; empty if there is none."""

def rewrite_model(
    source: str, path: str, *, target: str, external_data: str, simplify: bool, progress: Progress | None = None
) -> tuple[int, int, int, str | None, int, list[str], float]:
    """Reads the model at ``source``, which opbridge wrote, and writes it to ``path``.

    Returns what export_graph returns.
    """

def tolerances_of(dtype: torch.dtype) -> tuple[float, float]:
    """The relative and the absolute tolerance of an element type."""

def compare_tensors(
    dtype: torch.dtype,
    dims: Sequence[int],
    actual: int,
    expected: int,
    rtol: float | None,
    atol: float | None,
) -> tuple[float, float, float, int, str]:
    """Compares two contiguous tensors, given by their addresses.

    Returns the largest absolute and relative difference, the cosine, the number of elements that differ by more than
    the tolerance, and a line that says what is wrong, empty where they agree.
    """
