// Points (x, y, z), and the nearest of a set of them.
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

// The nearest of `count` points, by ascending distance, into `found`; of equally near ones the first. A point
// at NaN is near nothing. Where there are too few, the rest of `found` is at infinity, and its indices stay
// as they were.
template <class T>
void find_nearest(const T* center, const T* points, std::int64_t count, std::span<Neighbour<T>> found) {
  for (Neighbour<T>& neighbour : found) neighbour.squared_distance = std::numeric_limits<T>::infinity();
  std::size_t number = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const T distance = squared_distance(center, points + 3 * i);
    // A distance that overflows is one: it counts until there are enough.
    const bool is_near = distance < found.back().squared_distance;
    if (!is_near && (number == found.size() || std::isnan(distance))) continue;
    number = std::min(number + 1, found.size());
    std::size_t place = number - 1;
    for (; place > 0 && distance < found[place - 1].squared_distance; --place)
      found[place] = found[place - 1];
    found[place] = {distance, static_cast<std::int32_t>(i)};
  }
}

// The results name points by numbers of int32.
inline void require_numbers_of_int32(std::int64_t count) {
  require(count <= std::numeric_limits<std::int32_t>::max(), "there are more points than int32 has numbers");
}

// Batches of points, (batch, count, 3).
inline void require_points(const Shape& points, const Dim& batch, const std::string& name) {
  require_rank(points, 3, name);
  require_shape(points, {batch, points[1], 3}, name);
}

}  // namespace opbridge::op
