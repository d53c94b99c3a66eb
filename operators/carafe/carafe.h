// Content-aware reassembly of features (Wang et al., "CARAFE", 2019). The arguments are those of
// mmcv.ops.carafe.
#pragma once

#include "../common/shapes.h"

namespace opbridge::op::carafe {

struct Geometry {
  std::int64_t channels, height, width, out_height, out_width, kernel, groups, scale;

  std::int64_t group_of(std::int64_t channel) const { return channel / (channels / groups); }
};

// Calls visit(feature, mask) for the pixels of the window, within the image, that reassembles one output
// pixel of a channel.
template <class Visit>
void visit_window(const Geometry& g, std::int64_t channel, std::int64_t y, std::int64_t x,
                  const Visit& visit) {
  const std::int64_t center_y = y / g.scale, center_x = x / g.scale, reach = (g.kernel - 1) / 2;
  const std::int64_t first_mask = g.group_of(channel) * g.kernel * g.kernel;
  for (std::int64_t i = 0; i < g.kernel; ++i) {
    const std::int64_t from_y = center_y - reach + i;
    if (from_y < 0 || from_y >= g.height) continue;
    for (std::int64_t j = 0; j < g.kernel; ++j) {
      const std::int64_t from_x = center_x - reach + j;
      if (from_x < 0 || from_x >= g.width) continue;
      visit((channel * g.height + from_y) * g.width + from_x,
            ((first_mask + i * g.kernel + j) * g.out_height + y) * g.out_width + x);
    }
  }
}

template <class T>
Geometry geometry_of(TensorView<const T> features, TensorView<const T> masks, std::int64_t kernel_size,
                     std::int64_t group_size, std::int64_t scale_factor) {
  return {features.dim(1), features.dim(2), features.dim(3), masks.dim(2),
          masks.dim(3),    kernel_size,     group_size,      scale_factor};
}

inline constexpr auto kShape = [](const Shape& features, const Shape& masks, std::int64_t kernel_size,
                                  std::int64_t group_size, std::int64_t scale_factor) {
  require_rank(features, 4, "features");
  require_rank(masks, 4, "masks");
  require(kernel_size > 0 && kernel_size % 2 == 1, "kernel_size must be positive and odd");
  require(group_size > 0 && scale_factor > 0, "group_size and scale_factor must be positive");
  require(features[1] % group_size == 0, "the channels of features must be a multiple of group_size");
  const Dim height = features[2] * scale_factor, width = features[3] * scale_factor;
  require_shape(masks, {features[0], Dim(group_size) * kernel_size * kernel_size, height, width}, "masks");
  return Shape{features[0], features[1], height, width};
};

inline constexpr auto kKernel = []<class T>(Context& context, TensorView<const T> features,
                                            TensorView<const T> masks, std::int64_t kernel_size,
                                            std::int64_t group_size, std::int64_t scale_factor,
                                            TensorView<T> out) {
  const Geometry g = geometry_of(features, masks, kernel_size, group_size, scale_factor);
  context.parallel_for(out.dim(0) * g.channels, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t plane = begin; plane < end; ++plane) {
      const T* const from = features.slice(plane / g.channels).data();
      const T* const mask = masks.slice(plane / g.channels).data();
      for (std::int64_t y = 0; y < g.out_height; ++y) {
        for (std::int64_t x = 0; x < g.out_width; ++x) {
          T sum = 0;
          visit_window(g, plane % g.channels, y, x,
                       [&](std::int64_t f, std::int64_t m) { sum += from[f] * mask[m]; });
          out[(plane * g.out_height + y) * g.out_width + x] = sum;
        }
      }
    }
  });
};

}  // namespace opbridge::op::carafe
