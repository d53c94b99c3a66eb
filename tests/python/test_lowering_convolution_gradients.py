"""The gradients of convolutions, and those of the gradients."""

import itertools

import pytest
import torch
from lowering_check import check

import opbridge

aten = torch.ops.aten

CONVOLUTIONS = {  # weight, input, and stride, padding, dilation, transposed, output_padding, groups
    "plain": ((4, 3, 3, 2), (2, 3, 7, 6), ([1, 1], [0, 0], [1, 1], False, [0, 0], 1)),
    "stride": ((4, 3, 3, 2), (2, 3, 8, 7), ([2, 3], [1, 0], [1, 1], False, [0, 0], 1)),
    "dilation": ((4, 3, 3, 2), (2, 3, 9, 9), ([2, 2], [2, 1], [2, 3], False, [0, 0], 1)),
    "groups": ((4, 3, 3, 2), (2, 6, 8, 7), ([2, 1], [1, 1], [1, 2], False, [0, 0], 2)),
    "depthwise": ((6, 1, 3), (2, 6, 9), ([2], [1], [1], False, [0], 6)),
    "line": ((4, 3, 5), (2, 3, 11), ([3], [2], [1], False, [0], 1)),
    "volume": ((2, 3, 2, 2, 2), (1, 3, 4, 5, 4), ([2, 1, 2], [0, 1, 0], [1, 1, 1], False, [0, 0, 0], 1)),
    "transposed": ((3, 4, 3, 2), (2, 3, 5, 4), ([2, 3], [1, 0], [1, 1], True, [1, 2], 1)),
    "transposed groups": ((6, 2, 3), (2, 6, 5), ([2], [1], [2], True, [0], 3)),
}


def drawn(name, dtype):
    """The gradient of the result, the input, the weight, and the parameters."""
    weight_shape, input_shape, parameters = CONVOLUTIONS[name]
    weight, x = torch.randn(weight_shape, dtype=dtype), torch.randn(input_shape, dtype=dtype)
    return torch.randn_like(aten.convolution(x, weight, None, *parameters)), x, weight, parameters


@pytest.mark.parametrize("name", CONVOLUTIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_of_convolutions(name, dtype):
    gradient, x, weight, parameters = drawn(name, dtype)
    channels = [gradient.shape[1]]

    def backward(mask):
        return lambda g, x, w: [
            each for each in aten.convolution_backward(g, x, w, channels, *parameters, mask) if each is not None
        ]

    functions = {"all": backward([True, True, True]), "weight": backward([False, True, False])}
    check(functions, gradient, x, weight, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["plain", "stride", "dilation", "groups", "line", "transposed"])
def test_of_convolutions_of_dynamic_sizes(name):
    weight_shape, input_shape, parameters = CONVOLUTIONS[name]
    weight = torch.randn(weight_shape)

    def backward(x):
        y = aten.convolution(x, weight, None, *parameters)
        return aten.convolution_backward(y, x, weight, [y.shape[1]], *parameters, [True, True, True])

    dynamic = [{0: "n", **{axis: f"size{axis}" for axis in range(2, len(input_shape))}}]
    also = [(torch.randn(3, input_shape[1], *(size + 1 for size in input_shape[2:])),)]
    check(backward, torch.randn(input_shape), dynamic=dynamic, also=also, rtol=1e-4, atol=1e-4)


def doubled(parameters, mask=(True, True, True)):
    """The second gradients, for each choice of the gradients that are given."""

    def backward(is_given):
        def function(of_input, of_weight, of_bias, g, x, w):
            given = [t if kept else None for t, kept in zip((of_input, of_weight, of_bias), is_given, strict=True)]
            results = aten._convolution_double_backward(*given, g, w, x, *parameters, mask)
            return [each for each in results if each is not None]

        return function

    choices = [choice for choice in itertools.product([True, False], repeat=3) if any(choice)]
    return {str(choice): backward(choice) for choice in choices}


@pytest.mark.parametrize("name", CONVOLUTIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_of_gradients_of_convolutions(name, dtype):
    gradient, x, weight, parameters = drawn(name, dtype)
    of_bias = torch.randn(gradient.shape[1], dtype=dtype)
    inputs = torch.randn_like(x), torch.randn_like(weight), of_bias, gradient, x, weight
    check(doubled(parameters), *inputs, rtol=1e-4, atol=1e-4)
    check(doubled(parameters, [False, False, False]), *inputs, rtol=1e-4, atol=1e-4)  # PyTorch ignores the mask


@pytest.mark.parametrize("name", ["plain", "stride", "dilation", "line", "transposed"])
def test_of_gradients_of_convolutions_of_dynamic_sizes(name):
    weight_shape, input_shape, parameters = CONVOLUTIONS[name]
    weight = torch.randn(weight_shape)

    def backward(of_input, weight, x):  # torch's rule for the sizes takes dynamic ones for no other gradients
        y = aten.convolution(x, weight, None, *parameters)
        return aten._convolution_double_backward(of_input, None, None, y, weight, x, *parameters, [True, True, True])[
            ::2
        ]

    sizes = {0: "n", **{axis: f"size{axis}" for axis in range(2, len(input_shape))}}
    larger = (3, input_shape[1], *(size + 1 for size in input_shape[2:]))
    inputs, other = ((torch.randn(shape), weight, torch.randn(shape)) for shape in (input_shape, larger))
    check(backward, *inputs, dynamic=(sizes, {}, sizes), also=[other], rtol=1e-4, atol=1e-4)


def test_gradients_of_convolutions_without_elements_are_refused():
    parameters = CONVOLUTIONS["line"][2]
    x, weight = torch.randn(0, 3, 11), torch.randn(4, 3, 5)
    gradient = aten.convolution(x, weight, None, *parameters)
    with pytest.raises(opbridge.UnsupportedError, match="the input has no elements"):
        check(doubled(parameters)["(True, True, True)"], x, weight, torch.randn(4), gradient, x, weight)


def test_of_transposed_convolution_with_much_output_padding():
    def backward(g, x, w):
        return aten.convolution_backward(g, x, w, [4], [3, 2], [1, 2], [4, 4], True, [2, 3], 2, [True, True, True])

    g, x, w = torch.randn(1, 4, 22, 22), torch.randn(1, 2, 4, 4), torch.randn(2, 2, 4, 5)
    check(backward, g, x, w, rtol=1e-4, atol=1e-4)
