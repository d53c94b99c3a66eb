// Requirements on input shapes, with the same messages in all operators.
#pragma once

#include <string>

#include "opbridge/operator.h"

namespace opbridge::op {

inline void require_rank(const Shape& shape, std::size_t rank, const std::string& name) {
  require(shape.size() == rank, [&] {
    return name + " must have " + std::to_string(rank) + " dimensions, not the shape " + to_string(shape);
  });
}

inline void require_shape(const Shape& shape, const Shape& expected, const std::string& name) {
  const auto message = [&] {
    return name + " must have the shape " + to_string(expected) + ", not " + to_string(shape);
  };
  require(shape.size() == expected.size(), message);
  for (std::size_t i = 0; i < shape.size(); ++i) require(shape[i] == expected[i], message);
}

}  // namespace opbridge::op
