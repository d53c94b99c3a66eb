// How ATen resizes one axis of an image (UpSample.h, UpSampleKernel.cpp).
#pragma once

#include <optional>
#include <vector>

#include "lowering/term.h"

namespace opbridge::lowering {

struct Interpolation {
  enum class Mode : uint8_t { nearest, nearest_exact, linear, cubic, lanczos };

  Mode mode = Mode::nearest;
  bool align_corners = false;
  bool antialias = false;
  bool in_float64 = false;    // the type of coordinates is float64, not float32
  bool copies_equal = false;  // an axis that keeps its size is copied, whatever its scale is

  bool is_nearest() const { return mode == Mode::nearest || mode == Mode::nearest_exact; }
};

struct AxisSizes {
  Term from, to;
  std::optional<double> scale;  // where it is given, coordinates follow from it and not from the sizes
};

// The place from which the pixel at `place` is copied. ATen has two kernels: `small` is the one for images in
// two dims whose height and width are at most 128 together.
Term nearest_place(GraphBuilder& g, const Interpolation& how, const AxisSizes& axis, bool small,
                   const Term& place);

// An element of which the pixel at a place is made, and its share.
struct Tap {
  Term place, weight;
};
std::vector<Tap> taps(GraphBuilder& g, const Interpolation& how, const AxisSizes& axis, const Term& place);

// With antialiasing the number of taps follows from the scale: the share of the element at `from` in the
// pixel at `to` before these are divided by their sum, and the range of `from` in which it is not 0.
struct Antialiasing {
  Term first, end, weight;
};
Antialiasing antialiasing(GraphBuilder& g, const Interpolation& how, const AxisSizes& axis, const Term& to,
                          const Term& from);

}  // namespace opbridge::lowering
