// Picks columns of features, (batch, channel, point), by indices, (batch, …).
#pragma once

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

// All indices checked once, before any is used.
inline void require_indices(TensorView<const std::int32_t> indices, std::int64_t points) {
  for (const std::int32_t index : indices) {
    require(index >= 0 && index < points,
            "indices has " + std::to_string(index) + ", and there are " + std::to_string(points) + " points");
  }
}

template <class T>
void gather(Context& context, TensorView<const T> features, TensorView<const std::int32_t> indices,
            TensorView<T> out) {
  const std::int64_t channels = features.dim(1), points = features.dim(2);
  require_indices(indices, points);
  if (out.empty()) return;
  const std::int64_t count = indices.size() / indices.dim(0);
  context.parallel_for(features.dim(0) * channels, 4, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int32_t* const index = indices.slice(row / channels).data();
      for (std::int64_t i = 0; i < count; ++i) out[row * count + i] = features[row * points + index[i]];
    }
  });
}

// What was picked several times is added up.
template <class T>
void scatter(Context& context, TensorView<const T> grad, TensorView<const std::int32_t> indices,
             TensorView<T> grad_features) {
  const std::int64_t channels = grad_features.dim(1), points = grad_features.dim(2);
  require_indices(indices, points);
  std::fill(grad_features.begin(), grad_features.end(), T(0));
  if (grad.empty()) return;
  const std::int64_t count = indices.size() / indices.dim(0);
  context.parallel_for(grad_features.dim(0) * channels, 4, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int32_t* const index = indices.slice(row / channels).data();
      for (std::int64_t i = 0; i < count; ++i)
        grad_features[row * points + index[i]] += grad[row * count + i];
    }
  });
}

}  // namespace opbridge::op
