// Attention at a few points of feature maps of several sizes (Zhu et al., "Deformable DETR", 2021). The
// arguments are those of mmcv.ops.MultiScaleDeformableAttnFunction.
#pragma once

#include "../common/bilinear.h"
#include "../common/shapes.h"
#include "../common/weighted_runs.h"

namespace opbridge::op::multi_scale_deformable_attention {

// value is [image][position][head][channel], locations [image][query][head][level][point](x, y); weights are
// laid out as locations without (x, y).
struct Sizes {
  std::int64_t images, positions, heads, channels, queries, points;

  std::int64_t row() const { return heads * channels; }
};

struct Level {
  std::int64_t height, width, start;
};

// Checks that the levels lie within `positions`.
inline std::vector<Level> levels_of(TensorView<const std::int64_t> shapes,
                                    TensorView<const std::int64_t> starts, std::int64_t positions) {
  std::vector<Level> levels;
  for (std::int64_t i = 0; i < starts.size(); ++i) {
    const Level level{shapes(i, 0), shapes(i, 1), starts[i]};
    const bool possible = level.height >= 0 && level.width >= 0 && level.start >= 0 &&
                          level.start <= positions &&
                          (level.width == 0 || level.height <= (positions - level.start) / level.width);
    require(possible, [&] { return "level " + std::to_string(i) + " lies outside value"; });
    levels.push_back(level);
  }
  return levels;
}

// Visits the neighbours of each point of one query and head: visit(index of the point, position, weight, d
// weight / dy, d weight / dx).
template <class T, class Visit>
OPBRIDGE_INLINE void visit_points(std::span<const Level> levels, std::int64_t points, const T* locations,
                                  const Visit& visit) {
  std::int64_t i = 0;
  for (const Level& level : levels) {
    const auto height = static_cast<T>(level.height), width = static_cast<T>(level.width);
    for (std::int64_t point = 0; point < points; ++point, ++i) {
      const T x = locations[2 * i] * width - T(0.5), y = locations[2 * i + 1] * height - T(0.5);
      visit_neighbours(
          y, x, level.height, level.width,
          [&](std::int64_t pixel, T weight, T along_y, T along_x) __attribute__((always_inline)) {
            visit(i, level.start + pixel, weight, along_y * height, along_x * width);
          });
    }
  }
}

template <class T>
void forward(Context& context, const Sizes& s, std::span<const Level> levels, const T* value,
             const T* locations, const T* attention, T* out) {
  const std::int64_t points = static_cast<std::int64_t>(levels.size()) * s.points;
  context.parallel_for(s.images * s.queries, 8, [&](std::int64_t begin, std::int64_t end) {
    std::vector<WeightedRun<T>> runs(static_cast<std::size_t>(4 * points));
    on_best_cpu([&]() __attribute__((always_inline)) {
      for (std::int64_t i = begin * s.heads; i < end * s.heads; ++i) {
        const T* const weights = attention + i * points;
        std::size_t count = 0;
        visit_points(
            levels, s.points, locations + 2 * i * points,
            [&](std::int64_t point, std::int64_t position, T weight, T, T) __attribute__((always_inline)) {
              runs[count++] = {position * s.row(), weight * weights[point]};
            });
        const std::int64_t image = i / s.heads / s.queries, head = i % s.heads;
        sum_runs<T>(value + image * s.positions * s.row() + head * s.channels, std::span(runs).first(count),
                    s.channels, out + i * s.channels);
      }
    });
  });
}

template <class T>
struct Gradients {
  T *value, *locations, *attention;  // null if not requested
};

// Different heads and images share no gradients.
template <class T>
void backward(Context& context, const Sizes& s, std::span<const Level> levels, const T* grad, const T* value,
              const T* locations, const T* attention, const Gradients<T>& gradients) {
  const std::int64_t points = static_cast<std::int64_t>(levels.size()) * s.points;
  if (gradients.value != nullptr) std::fill_n(gradients.value, s.images * s.positions * s.row(), T(0));
  const auto of_query = [&](std::int64_t image, std::int64_t head, std::int64_t query) {
    const std::int64_t i = (image * s.queries + query) * s.heads + head;
    const std::int64_t base = image * s.positions * s.row() + head * s.channels;
    T* const grad_locations = gradients.locations == nullptr ? nullptr : gradients.locations + 2 * i * points;
    T* const grad_attention = gradients.attention == nullptr ? nullptr : gradients.attention + i * points;
    if (grad_locations != nullptr) std::fill_n(grad_locations, 2 * points, T(0));
    if (grad_attention != nullptr) std::fill_n(grad_attention, points, T(0));
    visit_points(levels, s.points, locations + 2 * i * points,
                 [&](std::int64_t point, std::int64_t position, T weight, T along_y, T along_x) {
                   const T share = attention[i * points + point];
                   const T* const from = value + base + position * s.row();
                   T product = 0;
                   for (std::int64_t c = 0; c < s.channels; ++c)
                     product += grad[i * s.channels + c] * from[c];
                   if (grad_attention != nullptr) grad_attention[point] += weight * product;
                   if (grad_locations != nullptr) {
                     grad_locations[2 * point] += share * along_x * product;
                     grad_locations[2 * point + 1] += share * along_y * product;
                   }
                   if (gradients.value == nullptr) return;
                   T* const to = gradients.value + base + position * s.row();
                   for (std::int64_t c = 0; c < s.channels; ++c) {
                     to[c] += share * weight * grad[i * s.channels + c];
                   }
                 });
  };
  context.parallel_for(s.images * s.heads, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      for (std::int64_t query = 0; query < s.queries; ++query) of_query(i / s.heads, i % s.heads, query);
    }
  });
}

inline constexpr auto kShape = [](const Shape& value, const Shape& spatial_shapes,
                                  const Shape& level_start_index, const Shape& sampling_locations,
                                  const Shape& attention_weights, std::int64_t) {
  require_rank(value, 4, "value");
  require_rank(spatial_shapes, 2, "value_spatial_shapes");
  require_rank(sampling_locations, 6, "sampling_locations");
  const Dim &images = value[0], &heads = value[2], &levels = spatial_shapes[0];
  const Dim &queries = sampling_locations[1], &points = sampling_locations[4];
  require_shape(spatial_shapes, {levels, 2}, "value_spatial_shapes");
  require_shape(level_start_index, {levels}, "value_level_start_index");
  require_shape(sampling_locations, {images, queries, heads, levels, points, 2}, "sampling_locations");
  require_shape(attention_weights, {images, queries, heads, levels, points}, "attention_weights");
  return Shape{images, queries, heads * value[3]};
};

template <class T>
Sizes sizes_of(TensorView<const T> value, TensorView<const T> locations) {
  return {value.dim(0), value.dim(1), value.dim(2), value.dim(3), locations.dim(1), locations.dim(4)};
}

inline constexpr auto kKernel =
    []<class T>(Context& context, TensorView<const T> value, TensorView<const std::int64_t> spatial_shapes,
                TensorView<const std::int64_t> level_start_index, TensorView<const T> sampling_locations,
                TensorView<const T> attention_weights, std::int64_t, TensorView<T> out) {
      forward(context, sizes_of(value, sampling_locations),
              levels_of(spatial_shapes, level_start_index, value.dim(1)), value.data(),
              sampling_locations.data(), attention_weights.data(), out.data());
    };

}  // namespace opbridge::op::multi_scale_deformable_attention
