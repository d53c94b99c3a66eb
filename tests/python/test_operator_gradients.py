"""The gradients of all operators that ship, called directly with arguments that they cannot take. Each raises an error
that names the operator, as the operator itself does, and never crashes."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import opbridge
from opbridge import operators


def images(*shape: int) -> torch.Tensor:
    return torch.linspace(-1, 1, torch.Size(shape).numel()).reshape(shape)


def indices(*shape: int) -> torch.Tensor:
    return (torch.arange(torch.Size(shape).numel()) % 4).int().reshape(shape)


# Arguments of each operator.
CALLS: dict[str, Callable[[], list[Any]]] = {
    "custom::my_add": lambda: [images(3, 4), images(3, 4)],
    "opbridge::ctc_loss": lambda: [
        *(images(6, 2, 4).log_softmax(-1), torch.tensor([[1, 2], [3, 3]])),
        *(torch.tensor([6, 4]), torch.tensor([2, 2]), 0),
    ],
    "opbridge::deform_conv2d": lambda: [
        *(images(2, 4, 5, 6), images(6, 2, 3, 3), images(2, 18, 5, 6), images(2, 9, 5, 6), images(6)),
        *(1, 1, 1, 1, 1, 1, 2, 1, True),
    ],
    "opbridge::gather_points": lambda: [images(2, 3, 4), indices(2, 5)],
    "opbridge::group_points": lambda: [images(2, 3, 4), indices(2, 5, 3)],
    "opbridge::three_interpolate": lambda: [images(2, 3, 4), indices(2, 5, 3), images(2, 5, 3)],
    "opbridge::carafe": lambda: [images(2, 4, 3, 3), images(2, 18, 6, 6), 3, 2, 2],
    "opbridge::roi_align": lambda: [images(2, 3, 6, 6), torch.tensor([[0.0, 1, 1, 4, 4]] * 2), 1.0, 2, 3, -1, False],
    "opbridge::ps_roi_align": lambda: [images(2, 6, 6, 6), torch.tensor([[0.0, 1, 1, 4, 4]] * 2), 1.0, 2, 3, -1],
    "opbridge::ps_roi_pool": lambda: [images(2, 6, 6, 6), torch.tensor([[0.0, 1, 1, 4, 4]] * 2), 1.0, 2, 3],
    "opbridge::roi_align_rotated": lambda: [
        *(images(2, 3, 6, 6), torch.tensor([[1.0, 3, 3, 4, 4, 0.5]] * 2)),
        *([2, 3], 1.0, 2, True, False),
    ],
    "opbridge::multi_scale_deformable_attention": lambda: [
        *(images(2, 20, 2, 3), torch.tensor([[4, 4], [2, 2]]), torch.tensor([0, 16])),
        *(images(2, 5, 2, 2, 3, 2), images(2, 5, 2, 2, 3), 64),
    ],
}


@pytest.fixture(scope="module", autouse=True)
def _loaded() -> None:
    operators.load_operators()
    operators.load_operators(operators.COMPAT)


def overload(name: str) -> Any:
    namespace, _, short = name.partition("::")
    return getattr(getattr(torch.ops, namespace), short).default


def ones_like(outputs: Any) -> list[torch.Tensor]:
    return [torch.ones_like(output) for output in torch.utils._pytree.tree_leaves(outputs)]


def gradient_call(name: str) -> tuple[Any, list[torch.Tensor], list[Any], list[bool]]:
    """The gradient operator and its arguments: the outputs' gradients, the operator's arguments, the wanted flags."""
    arguments = CALLS[name]()
    backward = overload(name + "_backward")
    return backward, ones_like(overload(name)(*arguments)), arguments, [True] * len(backward._schema.returns)


def other_shapes(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """Shapes of every rank up to one more, with each size 0, 1, another or huge."""
    yield tensor[None]
    yield tensor.new_zeros(())
    if tensor.dim() != 1:
        yield tensor.new_zeros(tensor.numel())
    yield tensor.new_zeros(10**7)
    for dim in range(tensor.dim()):
        yield tensor.select(dim, 0)
        for size in (0, 1, tensor.size(dim) + 1, 10**5):
            shape = [*tensor.shape[:dim], size, *tensor.shape[dim + 1 :]]
            if size != tensor.size(dim):
                yield tensor.new_zeros(shape)


def other_types(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    for dtype in (torch.float64, torch.float16, torch.int64, torch.int32, torch.bool, torch.complex64):
        if dtype != tensor.dtype:
            yield tensor.to(dtype)


def error_of(operator: Any, *arguments: Any) -> str:
    """The message of the error; empty if there is none."""
    try:
        operator(*arguments)
    except RuntimeError as error:
        return str(error).splitlines()[0]
    return ""


def test_no_operator_is_left_out() -> None:
    every = [*operators.read_operators(), *operators.read_operators(operators.COMPAT)]
    assert set(CALLS) == {operator.backward_of for operator in every} - {None, "custom::deform_conv2d"}


@pytest.mark.parametrize("name", CALLS)
def test_incoming_gradients_of_another_shape_or_type(name: str) -> None:
    backward, grads, arguments, wanted = gradient_call(name)
    backward(*grads, *arguments, wanted)
    for i, grad in enumerate(grads):
        for wrong in other_shapes(grad):
            message = error_of(backward, *grads[:i], wrong, *grads[i + 1 :], *arguments, wanted)
            assert f"{name}_backward: grad_output{i} must have the shape" in message, wrong.shape
        for wrong in other_types(grad):
            message = error_of(backward, *grads[:i], wrong, *grads[i + 1 :], *arguments, wanted)
            assert f"{name}_backward: no kernel takes tensors of" in message, wrong.dtype


def altered_calls(arguments: list[Any]) -> Iterator[list[Any]]:
    for i, argument in enumerate(arguments):
        if isinstance(argument, torch.Tensor):
            others: list[Any] = [*other_shapes(argument), *other_types(argument)]
        elif isinstance(argument, bool | float):
            others = []
        else:
            others = [[0, 0], [-1, 2**62]] if isinstance(argument, list) else [0, -1, 7, 2**62]
        yield from ([*arguments[:i], other, *arguments[i + 1 :]] for other in others)


@pytest.mark.parametrize("name", CALLS)
def test_a_gradient_refuses_what_its_operator_refuses(name: str) -> None:
    backward, grads, arguments, wanted = gradient_call(name)
    forward, refused = overload(name), 0
    of = [argument.name for argument in forward._schema.arguments]
    for altered in altered_calls(arguments):
        why = error_of(forward, *altered)
        if not why:
            made = backward(*ones_like(forward(*altered)), *altered, wanted)
            made = [made] if isinstance(made, torch.Tensor) else made
            for gradient, returned in zip(made, backward._schema.returns, strict=True):
                assert gradient.shape == altered[of.index(returned.name.removeprefix("grad_"))].shape
            continue
        refused += 1
        message = error_of(backward, *grads, *altered, wanted)
        assert f"{name}_backward: " in message
        if "no kernel takes" not in why:
            assert message == why.replace(name, name + "_backward")
    assert refused > 5


@pytest.mark.parametrize("name", CALLS)
def test_too_few_and_too_many(name: str) -> None:
    backward, grads, arguments, wanted = gradient_call(name)
    for flags in (wanted[1:], [*wanted, True]):
        with pytest.raises(RuntimeError, match=f"{name}_backward: wanted must have one flag for each gradient"):
            backward(*grads, *arguments, flags)
    with pytest.raises(RuntimeError, match=f"{name}_backward"):
        backward(grads[0], *grads, *arguments, wanted)
    with pytest.raises(RuntimeError, match=f"{name}_backward"):
        backward(*arguments, wanted)


@pytest.mark.parametrize("name", CALLS)
def test_gradients_that_do_not_lie_side_by_side_are_read_in_order(name: str) -> None:
    backward, grads, arguments, wanted = gradient_call(name)
    grad, *others = [images(*grads[0].shape), *grads[1:]]
    expected = backward(grad, *others, *arguments, wanted)
    apart = [torch.stack([grad, -grad], -1)[..., 0]]
    if grad.dim() > 1:
        apart.append(grad.mT.contiguous().mT)
    for other in apart:
        assert not other.is_contiguous()
        torch.testing.assert_close(backward(other, *others, *arguments, wanted), expected, rtol=0, atol=0)


@pytest.mark.parametrize("name", CALLS)
def test_in_onnx_runtime(name: str, tmp_path: pathlib.Path) -> None:
    """A model that differentiates the operator has a node of its gradient."""
    libraries = [operators.ort_library(operators.COMPAT)] if name.startswith("custom") else []
    backward, _, arguments, _ = gradient_call(name)
    of = [argument.name for argument in overload(name)._schema.arguments]
    places = [of.index(returned.name.removeprefix("grad_")) for returned in backward._schema.returns]

    def model(*tensors: torch.Tensor) -> Any:
        given = list(arguments)
        for place, tensor in zip(places, tensors, strict=True):
            given[place] = tensor.detach().requires_grad_()
        with torch.enable_grad():
            outputs = [torch.utils._pytree.tree_leaves(overload(name)(*given))[0] for _ in range(2)]
            of_one, of_all = outputs[0].sin().sum(), outputs[1].cos().sum()
        wanted = [given[place] for place in places]
        return torch.autograd.grad(of_one, wanted[:1]), torch.autograd.grad(of_all, wanted)

    inputs = tuple(arguments[place] for place in places)
    opbridge.export(model, inputs, tmp_path / "model.onnx")
    running = opbridge.session(tmp_path / "model.onnx", libraries=libraries)
    names = [value.name for value in running.get_inputs()]
    made = running.run(None, {name: tensor.numpy() for name, tensor in zip(names, inputs, strict=True)})
    expected = torch.utils._pytree.tree_leaves(model(*inputs))
    torch.testing.assert_close([torch.from_numpy(each) for each in made], expected)


def test_the_gradient_of_what_is_not_given() -> None:
    backward, grads, arguments, wanted = gradient_call("opbridge::deform_conv2d")
    arguments[3] = None
    with pytest.raises(
        RuntimeError, match="opbridge::deform_conv2d_backward: the gradient of mask is wanted, but the argument is"
    ):
        backward(*grads, *arguments, wanted)
    backward(*grads, *arguments, [True, True, True, False, True])


def test_what_crashed() -> None:
    with pytest.raises(
        RuntimeError, match=r"grad_output0 must have the shape of the result of custom::my_add, \(1\), not"
    ):
        torch.ops.custom.my_add_backward(torch.ones(10**7), torch.ones(1), torch.ones(1), [True, True])
