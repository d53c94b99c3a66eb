// What the pooling families share.
#pragma once

#include <array>
#include <vector>

#include "lowering/nn/window.h"

namespace opbridge::lowering {

// (N, C, spatial…) with `value` around it. `pads`: of each spatial axis at its start, then of each at its
// end; negative where something is cut off.
Value padded(GraphBuilder& g, Value x, const std::vector<int64_t>& pads, const Scalar& value);

// Where each element of the kernel (first dim) meets each window (second dim) along one axis of `size`, all
// of them inside.
Value window_places(GraphBuilder& g, const Dim& size, int64_t kernel, int64_t dilation, int64_t stride);

// Whether ONNX, or ONNX Runtime, has no AveragePool and no Conv of the type, so that the functions below
// serve.
inline bool needs_gathered_windows(ElementType type) {
  return is_integral(type) || type == ElementType::float64;
}

// Pooling by gathered windows; the spatial sizes are constant. `counts` are of windows along each axis. Of
// integers the mean is rounded towards zero, as in PyTorch.
Value gathered_max_pool(GraphBuilder& g, Value x, const Window& window, const std::vector<int64_t>& counts);
// And the places, which count from 0 in each channel of each sample.
std::array<Value, 2> gathered_max_pool_with_places(GraphBuilder& g, Value x, const Window& window,
                                                   const std::vector<int64_t>& counts);
// `divisors`: of each window, row by row.
Value gathered_avg_pool(GraphBuilder& g, Value x, const Window& window, const std::vector<int64_t>& counts,
                        const std::vector<int64_t>& divisors);

// The convolution. `weight`: (out, in / groups, spatial…); `pads`: of each axis at its start,
// then of each at its end.
Value gathered_convolution(GraphBuilder& g, Value x, Value weight, const Window& window,
                           const std::vector<int64_t>& pads, int64_t groups);
// What a transposed convolution is made of: `strides[i] - 1` zeros between the elements along spatial axis i.
Value spread(GraphBuilder& g, Value x, const std::vector<int64_t>& strides);

// One sample's result, made of a batch of one.
Value without_batch(GraphBuilder& g, Value result);

// Runs `pool` on (N, C, spatial…), for an input with or without its batch dim.
template <class Pool>
Value on_batch(GraphBuilder& g, Value input, size_t axes, Pool pool) {
  if (input.rank() == static_cast<int64_t>(axes) + 2) return pool(input);
  return without_batch(g, pool(g.unsqueeze(input, {0})));
}

}  // namespace opbridge::lowering
