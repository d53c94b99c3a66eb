"""The rules of convolutions whose weights differ along the batch, and of the gradients by the weights: those of all
samples are a convolution with as many groups, whose number is dynamic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from opbridge.capture.rewrites.batch_rules.rules import (
    Size,
    as_channels,
    by_batch,
    by_sample,
    with_batch,
    without_channels,
)
from opbridge.capture.rewrites.dynamic_convolutions import convolved, gradient_of_weights, transposed
from opbridge.torch_compat.batching import BatchRule


def convolution(operator: Any) -> BatchRule:
    by_samples = by_sample(0)(operator)

    def rule(size: Size, axes: Sequence[Any], x: Any, weight: Any, bias: Any, *options: Any) -> Any:
        stride, padding, dilation, is_transposed, output_padding, groups = options
        if axes[1] is None:
            if axes[2] is None:
                return by_samples(size, axes, x, weight, bias, *options)
            made = by_samples(size, (axes[0], None, None), x, weight, None, *options)
        elif axes[0] is None and groups == 1 and not is_transposed:
            made = without_channels(operator(x, with_batch(weight, axes[1], size).flatten(0, 1), None, *options), size)
        else:
            images = as_channels(with_batch(x, axes[0], size))
            weights = with_batch(weight, axes[1], size).flatten(0, 1)
            if isinstance(size, int):
                of_all = operator(images, weights, None, *options[:-1], size * groups)
            elif is_transposed:
                of_all = transposed(images, weights, stride, padding, output_padding, size * groups, dilation)
            else:
                of_all = convolved(images, weights, stride, padding, dilation, size * groups)
            made = without_channels(of_all, size)
        if bias is None:
            return made
        biases = with_batch(bias, axes[2], size)
        return made + biases.reshape(size, 1, -1, *(1,) * (made.dim() - 3))

    return rule


def convolution_backward(operator: Any) -> BatchRule:
    by_samples = by_sample(0, 1)(operator)

    def rule(
        size: Size,
        axes: Sequence[Any],
        gradient: Any,
        x: Any,
        weight: Any,
        sizes_of_bias: Any,
        *options: Any,
    ) -> Any:
        stride, padding, dilation, is_transposed, output_padding, groups, mask = options
        if mask[1] and any(output_padding):
            return NotImplemented
        kernel = (weight if axes[2] is None else weight.movedim(axes[2], 0)).shape[-len(stride) :]
        of_images = of_weights = of_bias = None
        if mask[0] and axes[2] is None:
            only_images = (*options[:-1], [True, False, False])
            of_images, _, _ = by_samples(size, axes, gradient, x, weight, sizes_of_bias, *only_images)
        gradients, images = with_batch(gradient, axes[0], size), with_batch(x, axes[1], size)
        if mask[0] and axes[2] is not None:
            channels, weights = as_channels(gradients), with_batch(weight, axes[2], size).flatten(0, 1)
            if is_transposed:
                of_channels = convolved(channels, weights, stride, padding, dilation, size * groups)
            else:
                left = [
                    whole - ((count - 1) * step - 2 * edge + gap * (width - 1) + 1)
                    for whole, count, step, edge, gap, width in zip(
                        images.shape[3:], gradients.shape[3:], stride, padding, dilation, kernel, strict=True
                    )
                ]
                of_channels = transposed(channels, weights, stride, padding, left, size * groups, dilation)
            of_images = without_channels(of_channels, size)
        if mask[1]:
            pair = (images, gradients) if is_transposed else (gradients, images)
            first, second = (each.flatten(0, 1) for each in pair)
            made = gradient_of_weights(first, second, kernel, stride, padding, dilation, groups)
            of_weights = by_batch(made, size).sum(1)
        if mask[2]:
            of_bias = gradients.sum([1, *range(3, gradients.dim())])
        return of_images, of_weights, of_bias

    return rule
