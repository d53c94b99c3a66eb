// Helpers for pooling, convolution and im2col.
#pragma once

#include <array>
#include <functional>
#include <vector>

#include "lowering/nn/window.h"

namespace opbridge::lowering {

// Pads (N, C, spatial…) with `value`. `pads` are the begins of all spatial axes, then the ends; negative ones
// crop.
Value padded(GraphBuilder& g, Value x, const std::vector<int64_t>& pads, const Scalar& value);
Value padded(GraphBuilder& g, Value x, const std::vector<Dim>& pads, const Scalar& value);

// The indices along an axis of `size` of each kernel element (first dim) in each window (second dim). All
// windows must lie inside.
Value window_indices(GraphBuilder& g, const Dim& size, int64_t kernel, int64_t dilation, int64_t stride);

// Pooling of gathered windows. `counts` are the window counts along each axis. The mean of integers is
// rounded towards zero, as in PyTorch.
Value gathered_max_pool(GraphBuilder& g, Value x, const Window& window, const std::vector<Dim>& counts);
// Makes what splits spatial axis i of values of the shape of `x` into two: the windows, and the elements of
// each.
using WindowsAlong = std::function<std::function<Value(Value)>(Value x, size_t i)>;
// Returns the maxima of the windows of (N, C, spatial…) and their indices in the flattened channel.
std::array<Value, 2> maxima_of_windows(GraphBuilder& g, Value x, size_t axes,
                                       const WindowsAlong& windows_along);
std::array<Value, 2> gathered_max_pool_with_indices(GraphBuilder& g, Value x, const Window& window,
                                                    const std::vector<Dim>& counts);
// The divisor of each window, row by row: its number of elements in the padded input, or in the input alone.
// `sizes` are those of the input and `counts` the window counts, along each axis.
std::vector<int64_t> pool_divisors(const GraphBuilder& g, const Window& window,
                                   const std::vector<int64_t>& sizes, const std::vector<int64_t>& counts,
                                   bool count_include_pad);
// The same as int64 of the dims `counts`, or dims that broadcast to them; computed when the model runs if a
// size is dynamic.
Value pool_divisors(GraphBuilder& g, const Window& window, const std::vector<Dim>& sizes,
                    const std::vector<Dim>& counts, bool count_include_pad);
// `divisors` are int64. An axis with windows of one element may have any size; its count may be 1.
Value gathered_avg_pool(GraphBuilder& g, Value x, const Window& window, const std::vector<Dim>& counts,
                        Value divisors);

// The convolution. `weight` is (out, in / groups, spatial…); `pads` are the begins of all spatial axes, then
// the ends.
Value gathered_convolution(GraphBuilder& g, Value x, Value weight, const Window& window,
                           const std::vector<int64_t>& pads, int64_t groups);
// Inserts `strides[i] - 1` zeros between the elements along spatial axis i, for a transposed convolution.
Value spread(GraphBuilder& g, Value x, const std::vector<int64_t>& strides);

// The windows of adaptive pooling along one axis, padded to the length of the longest one by repeating the
// last element.
struct AdaptiveWindows {
  Dim length;
  Value indices;  // (count, length), indices along the axis
  Value sizes;    // (count), without the repeated elements
  bool equal;     // no window repeats elements
};
AdaptiveWindows adaptive_windows(GraphBuilder& g, const Dim& size, const Dim& count);

// Removes the batch dim of size 1.
Value without_batch(GraphBuilder& g, Value result);

// Runs `pool` on (N, C, spatial…), for an input with or without its batch dim.
template <class Pool>
Value on_batch(GraphBuilder& g, Value input, size_t axes, Pool pool) {
  if (input.rank() == static_cast<int64_t>(axes) + 2) return pool(input);
  return without_batch(g, pool(g.unsqueeze(input, {0})));
}

}  // namespace opbridge::lowering
