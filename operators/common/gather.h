// Gathers columns of features, (batch, channel, point), by indices, (batch, …).
#pragma once

#include <algorithm>

#include "shapes.h"

namespace opbridge::op {

inline Shape gathered_shape(const Shape& features, const Shape& indices, std::size_t rank) {
  require_rank(features, 3, "features");
  require_rank(indices, rank, "indices");
  require(indices[0] == features[0], "features and indices must have the same batch");
  Shape out{features[0], features[1]};
  out.insert(out.end(), indices.begin() + 1, indices.end());
  return out;
}

// Checks all indices before any is used; `items` names what they select.
inline void require_indices(TensorView<const std::int32_t> indices, std::int64_t count, const char* items) {
  const auto is_outside = [&](std::int32_t index) { return index < 0 || index >= count; };
  bool outside = false;  // accumulated without a branch per index
  for (const std::int32_t index : indices) outside |= is_outside(index);
  require(!outside, [&] {
    return "indices has " + std::to_string(*std::ranges::find_if(indices, is_outside)) +
           ", but there are only " + std::to_string(count) + " " + items;
  });
}

template <class T>
void gather(Context& context, TensorView<const T> features, TensorView<const std::int32_t> indices,
            TensorView<T> out) {
  const std::int64_t channels = features.dim(1), points = features.dim(2);
  require_indices(indices, points, "points");
  if (out.empty()) return;
  const std::int64_t count = indices.size() / indices.dim(0);
  context.parallel_for(features.dim(0) * channels, 4, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int32_t* const index = indices.slice(row / channels).data();
      const T* const from = features.data() + row * points;
      T* const to = out.data() + row * count;
      for (std::int64_t i = 0; i < count; ++i) to[i] = from[index[i]];
    }
  });
}

// Adds up the gradients of columns that were gathered several times.
template <class T>
void scatter(Context& context, TensorView<const T> grad, TensorView<const std::int32_t> indices,
             TensorView<T> grad_features) {
  const std::int64_t channels = grad_features.dim(1), points = grad_features.dim(2);
  require_indices(indices, points, "points");
  std::fill(grad_features.begin(), grad_features.end(), T(0));
  if (grad.empty()) return;
  const std::int64_t count = indices.size() / indices.dim(0);
  context.parallel_for(grad_features.dim(0) * channels, 4, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int32_t* const index = indices.slice(row / channels).data();
      const T* const from = grad.data() + row * count;
      T* const to = grad_features.data() + row * points;
      for (std::int64_t i = 0; i < count; ++i) to[index[i]] += from[i];
    }
  });
}

}  // namespace opbridge::op
