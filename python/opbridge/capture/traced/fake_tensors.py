"""capture="trace" with dynamic sizes: the model runs on fake tensors, whose sizes are symbols."""

from __future__ import annotations

import contextlib
from typing import Any

import torch

from opbridge import _core
from opbridge.capture.failures import check_that_it_runs, first_lines, refusal_of
from opbridge.capture.inputs import Inputs
from opbridge.capture.known_tensors import give_values, tensors_to_know
from opbridge.capture.patching import patch
from opbridge.capture.program import Sizes
from opbridge.capture.run_warnings import TraceWarning
from opbridge.capture.suppressed_errors import Caught
from opbridge.capture.symbolic_sizes.asking import NeedsNumberOfData
from opbridge.capture.symbolic_sizes.dynamic_axes import DynamicSizes, Fixing
from opbridge.capture.symbolic_sizes.empty_examples import let_sizes_be_zero
from opbridge.capture.symbolic_sizes.guards import watch_sizes
from opbridge.capture.torch_logs import silence_torch_logs
from opbridge.capture.traced.numbers_read import NumbersRead
from opbridge.capture.traced.tracer import follow
from opbridge.errors import Error, UnsupportedError
from opbridge.torch_compat import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
    UnsupportedOperatorException,
)
from opbridge.torch_compat.exporting import (
    CHECK_OF_FAKE_TENSORS,
    ConstantSource,
    ExportFunctionHandler,
    propagate_data,
)
from opbridge.torch_compat.fake_tensors import COPY_OF_DATA
from opbridge.torch_compat.messages import is_branch_on_data, is_of_values_in_numpy
from opbridge.torch_compat.symbols import (
    DimDynamic,
    ShapeEnv,
    StatelessSymbolicContext,
    set_size_oblivious,
)


def capture_fake(
    model: torch.nn.Module, inputs: Inputs, sizes: DynamicSizes, changed: list[str], numbers: NumbersRead | None
) -> _core.Graph:
    """Captures on fake tensors. If the model branches on data, captures again with tensors that keep their values, then
    with fake tensors that carry data, and fills ``numbers``; without ``numbers``, refuses it. If it needs a number of
    data as a Python number, or an array, captures again with tensors that keep their values only."""
    try:
        try:
            return _capture(model, inputs, sizes, changed, None)
        except RuntimeError as error:
            needs_number = isinstance(error, NeedsNumberOfData) or is_of_values_in_numpy(error)
            if not needs_number and not is_branch_on_data(error):
                raise
            if next(tensors_to_know(model), None) is not None:
                with contextlib.suppress(Exception):  # the branch may be on data that they do not tell
                    return _capture(model, inputs, sizes, changed, None, knows_tensors=True)
            if numbers is None or needs_number:
                raise
            return _capture(model, inputs, sizes, changed, numbers)
    except (DataDependentOutputException, DynamicOutputShapeException, UnsupportedOperatorException) as error:
        raise UnsupportedError(
            f"torch cannot determine what {error.func} returns for dynamic sizes without running it; make them constant"
        ) from error
    except (Error, TraceWarning):
        raise
    except Exception as error:
        check_that_it_runs(model, inputs, error)
        if sizes.any_is_zero:
            raise UnsupportedError(
                "torch cannot capture the model because a dynamic size is 0 in the example: pass an example that has "
                f"elements ({sizes.text_of(first_lines(error))})"
            ) from error
        raise refusal_of(error, "the model does not run with symbolic sizes:", sizes) from error


def _capture(
    model: torch.nn.Module,
    inputs: Inputs,
    sizes: DynamicSizes,
    changed: list[str],
    numbers: NumbersRead | None,
    knows_tensors: bool = False,
) -> _core.Graph:
    with (
        # A dynamic axis of size 1 in the example stays dynamic only if torch does not reason from sizes.
        set_size_oblivious(True),
        let_sizes_be_zero(sizes),
        propagate_data(numbers is not None),
        _copy_data_by_memory(),
        _leave_offsets_symbolic(),
        silence_torch_logs(),
        # With ``export``, the number of an input without axes is no symbol with a hint, whose guards would be lost.
        FakeTensorMode(shape_env=ShapeEnv(duck_shape=False), allow_non_fake_inputs=True, export=True) as mode,
    ):
        leaves = [
            _fake(mode, name, leaf, axes)
            for name, leaf, axes in zip(inputs.names, inputs.leaves, sizes.leaves, strict=True)
        ]
        _held = give_values(mode, model) if knows_tensors else []  # until the end of the capture
        sizes.equate(leaves)
        shapes = _shapes(leaves)  # now: the model may transpose an input in place
        names = sizes.name_symbols(shapes)
        fixings: dict[str, Fixing] = {}
        caught = Caught()
        note = numbers.restart() if numbers is not None else None
        with ExportFunctionHandler(), watch_sizes(sizes, fixings, caught, of_data=True):
            graph = follow(model, inputs, leaves, Sizes(names, sizes), changed, caught, for_real=False, note=note)
        names = sizes.name_symbols(shapes, fixings)
        remaining = sizes.without_fixed(shapes) or sizes.with_equal(names, shapes)
    return graph if remaining is None else _capture(model, inputs, remaining, changed, numbers, knows_tensors)


def _copy_data_by_memory() -> contextlib.AbstractContextManager[None]:
    """torch copies data element by element, and refuses elements that share memory, as those of ``x.expand(3, -1)``.
    torch 2.13 leaves what stands for a parameter uninitialized."""
    original = COPY_OF_DATA.original

    def copy(made: torch.Tensor, data: torch.Tensor | None) -> None:
        if type(data) is torch.nn.Parameter:
            data = data.detach()
        if type(data) is torch.Tensor and data.layout == torch.strided and data.stride() == made.stride():
            made, data = _memory(made), _memory(data)
        original(made, data)

    return patch(COPY_OF_DATA, copy)


def _memory(tensor: torch.Tensor) -> torch.Tensor:
    """What the elements of a tensor lie in, as a vector."""
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.as_strided((last + 1 if tensor.numel() else 0,), (1,))


def _leave_offsets_symbolic() -> contextlib.AbstractContextManager[None]:
    """Keeps torch from comparing the storage offsets of fake and real tensors. The comparison would fix the sizes that
    an offset depends on, for example in the second tensor that nonzero() returns."""
    original = CHECK_OF_FAKE_TENSORS.original

    def check(real: torch.Tensor, fake: torch.Tensor, *args: Any, **kwargs: Any) -> None:
        if not isinstance(fake.storage_offset(), torch.SymInt):
            original(real, fake, *args, **kwargs)

    return patch(CHECK_OF_FAKE_TENSORS, check)


def _fake(mode: FakeTensorMode, name: str, leaf: Any, axes: dict[int, Any]) -> Any:
    if not isinstance(leaf, torch.Tensor):
        return leaf
    dynamic = [DimDynamic.DYNAMIC if axis in axes else DimDynamic.STATIC for axis in range(leaf.dim())]
    context: Any = StatelessSymbolicContext(dynamic_sizes=dynamic)
    fake = mode.from_tensor(leaf, source=ConstantSource(name), symbolic_context=context)
    int(fake.storage_offset())  # makes the offset constant, which torch takes for a dynamic size
    return fake


def _shapes(leaves: list[Any]) -> list[Any]:
    return [leaf.shape if isinstance(leaf, torch.Tensor) else None for leaf in leaves]
