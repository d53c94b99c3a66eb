// Points (x, y, z) and nearest-neighbour search.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>

#include "shapes.h"

namespace opbridge::op {

template <class T>
T squared_distance(const T* a, const T* b) {
  const T x = a[0] - b[0], y = a[1] - b[1], z = a[2] - b[2];
  return x * x + y * y + z * z;
}

template <class T>
struct Neighbour {
  T squared_distance;
  std::int32_t index;
};

// Finds the nearest of `count` points, by ascending distance; ties are resolved in favour of the first.
// Points with NaN coordinates are ignored. If there are too few points, the remaining entries of `found` get
// an infinite distance and keep their indices.
template <class T>
void find_nearest(const T* center, const T* points, std::int64_t count, std::span<Neighbour<T>> found) {
  for (Neighbour<T>& neighbour : found) neighbour.squared_distance = std::numeric_limits<T>::infinity();
  std::size_t number = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const T distance = squared_distance(center, points + 3 * i);
    // An overflowing (infinite) distance still counts while `found` is not full.
    const bool is_near = distance < found.back().squared_distance;
    if (!is_near && (number == found.size() || std::isnan(distance))) continue;
    number = std::min(number + 1, found.size());
    std::size_t slot = number - 1;
    for (; slot > 0 && distance < found[slot - 1].squared_distance; --slot) found[slot] = found[slot - 1];
    found[slot] = {distance, static_cast<std::int32_t>(i)};
  }
}

// The results are int32 indices of points.
inline void require_numbers_of_int32(std::int64_t count) {
  require(count <= std::numeric_limits<std::int32_t>::max(), "there are more points than int32 can count");
}

// Requires batches of points, (batch, count, 3).
inline void require_points(const Shape& points, const Dim& batch, const std::string& name) {
  require_rank(points, 3, name);
  require_shape(points, {batch, points[1], 3}, name);
}

}  // namespace opbridge::op
