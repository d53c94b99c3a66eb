// The pixels around a point and their weights in bilinear interpolation.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "best_cpu.h"

namespace opbridge::op {

// Treats pixels outside the image as zero. Calls visit(pixel, weight, d weight / dy, d weight / dx) for each
// neighbour inside. y and x must be at least -1.
template <class T, class Visit>
OPBRIDGE_INLINE void visit_neighbours_right_of(T y, T x, std::int64_t height, std::int64_t width,
                                               const Visit& visit) {
  const T low_y = std::floor(y), low_x = std::floor(x);
  const T dy = y - low_y, dx = x - low_x;
  const auto row = static_cast<std::int64_t>(low_y), column = static_cast<std::int64_t>(low_x);
  const std::int64_t pixel = row * width + column;
  const bool top = row >= 0, bottom = row + 1 < height, left = column >= 0, right = column + 1 < width;
  if (top && left) visit(pixel, (1 - dy) * (1 - dx), dx - 1, dy - 1);
  if (top && right) visit(pixel + 1, (1 - dy) * dx, -dx, 1 - dy);
  if (bottom && left) visit(pixel + width, dy * (1 - dx), 1 - dx, -dy);
  if (bottom && right) visit(pixel + width + 1, dy * dx, dx, dy);
}

// Like visit_neighbours_right_of, for any point. A NaN coordinate gives one neighbour of weight NaN.
template <class T, class Visit>
OPBRIDGE_INLINE void visit_neighbours(T y, T x, std::int64_t height, std::int64_t width, const Visit& visit) {
  if (!(y > -1 && y < static_cast<T>(height) && x > -1 && x < static_cast<T>(width))) {
    const T nan = std::numeric_limits<T>::quiet_NaN();
    if (height > 0 && width > 0 && (std::isnan(y) || std::isnan(x))) visit(std::int64_t{0}, nan, nan, nan);
    return;
  }
  visit_neighbours_right_of(y, x, height, width, visit);
}

// Extends the border by one pixel, with zeros beyond. Calls visit(pixel, weight).
template <class T, class Visit>
OPBRIDGE_INLINE void visit_neighbours_within_border(T y, T x, std::int64_t height, std::int64_t width,
                                                    const Visit& visit) {
  if (!(y >= -1 && y <= static_cast<T>(height) && x >= -1 && x <= static_cast<T>(width))) return;
  if (height == 0 || width == 0) return;
  y = std::clamp(y, T(0), static_cast<T>(height - 1));
  x = std::clamp(x, T(0), static_cast<T>(width - 1));
  visit_neighbours(
      y, x, height, width, [&](std::int64_t pixel, T weight, T, T) __attribute__((always_inline)) {
        visit(pixel, weight);
      });
}

}  // namespace opbridge::op
