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

}  // namespace opbridge::op::carafe
