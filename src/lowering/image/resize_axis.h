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
  bool in_float64 = false;    // coordinates are float64, not float32
  bool copies_equal = false;  // an axis that keeps its size is copied, even if it has a scale

  bool is_nearest() const { return mode == Mode::nearest || mode == Mode::nearest_exact; }
};

struct AxisSizes {
  Term from, to;
  std::optional<double> scale;  // if present, coordinates follow from it instead of the sizes
};

// The index of the element that is copied to the pixel at index `pixel`. ATen has two kernels: `small` is the
// one for two-dimensional images whose height and width sum up to at most 128.
Term nearest_index(GraphBuilder& g, const Interpolation& how, const AxisSizes& axis, bool small,
                   const Term& pixel);

// The index of an input element that contributes to a pixel, and its weight.
struct Tap {
  Term index, weight;
};
std::vector<Tap> taps(GraphBuilder& g, const Interpolation& how, const AxisSizes& axis, const Term& pixel);

// With antialiasing the number of taps depends on the scale: `weight` is that of element `from` in pixel `to`
// before normalization; it is nonzero for `from` in [first, end).
struct Antialiasing {
  Term first, end, weight;
};
Antialiasing antialiasing(GraphBuilder& g, const Interpolation& how, const AxisSizes& axis, const Term& to,
                          const Term& from);

}  // namespace opbridge::lowering
