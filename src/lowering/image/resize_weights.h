// The input elements of each pixel of a resized image, and their weights, along each axis: indices, taps, or
// a matrix. They are constants where the sizes are known.
#pragma once

#include <optional>
#include <vector>

#include "lowering/common.h"
#include "lowering/image/resize_axis.h"

namespace opbridge::lowering {

struct Axis {
  Dim from, to;
  std::optional<double> scale;   // for ATen's coordinates; if missing, they follow from the sizes
  std::optional<double> factor;  // if present, `to` is floor(from * factor)

  bool is_static() const { return from.is_static() && to.is_static(); }
  bool stays() const { return from == to && !scale; }
};

AxisSizes sizes_of(GraphBuilder& g, const Axis& axis);

// An image (N, C, spatial…) to resize along its spatial axes.
struct Image {
  Value pixels;
  std::vector<Axis> axes;
  Interpolation how;

  // Whether ATen takes its kernel for small images (see nearest_index); both values if that depends on a
  // dynamic size.
  std::vector<bool> is_small() const;
};

// The indices of the nearest pixels along an axis.
Value nearest_indices(GraphBuilder& g, const Image& image, const Axis& axis);

// The pixels of an axis as weighted sums of input elements: their indices and weights.
struct Taps {
  Value indices, weights;
};

std::vector<Taps> taps_along(GraphBuilder& g, const Image& image, const Axis& axis);

// The weight of each of `from` input elements in each of `to` pixels of an axis: (to, from).
struct Shares {
  Value matrix;  // float64
  Term one = 1;  // the sum of each row, up to rounding
};

// With `fixed_point` the weights are the integers by which ATen resizes uint8.
Shares shares_along(GraphBuilder& g, const Image& image, const Axis& axis, bool fixed_point);

}  // namespace opbridge::lowering
