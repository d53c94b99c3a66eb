// The sliding windows of convolutions, pools and im2col, and the checks of their parameters.
#pragma once

#include <string_view>
#include <vector>

#include "opbridge/symbolic.h"

namespace opbridge::lowering {

struct Window {
  std::vector<int64_t> kernel, stride, padding, dilation;  // one number for each spatial axis
};

// Returns one number for each spatial axis; a single value applies to all. Refuses numbers below `least` and,
// since runtimes cannot take them, numbers from 2^31 on. `argument` names the values in the error.
std::vector<int64_t> per_axis(const GraphBuilder& g, std::string_view argument, std::vector<int64_t> values,
                              size_t axes, int64_t least);
inline std::vector<int64_t> strides(const GraphBuilder& g, std::vector<int64_t> values, size_t axes) {
  return per_axis(g, "stride", std::move(values), axes, 1);
}
inline std::vector<int64_t> paddings(const GraphBuilder& g, std::vector<int64_t> values, size_t axes) {
  return per_axis(g, "padding", std::move(values), axes, 0);
}
inline std::vector<int64_t> dilations(const GraphBuilder& g, std::vector<int64_t> values, size_t axes) {
  return per_axis(g, "dilation", std::move(values), axes, 1);
}

// Checks all parameters, and that the kernel has fewer than 2^31 elements.
Window window_of(const GraphBuilder& g, size_t axes, std::vector<int64_t> kernel, std::vector<int64_t> stride,
                 std::vector<int64_t> padding, std::vector<int64_t> dilation);

// The number of windows of a pool along an axis of `size`.
Dim window_count(const Window& window, size_t axis, const Dim& size, bool ceil_mode);

// Refuses a pool of `image` if the sizes of its result are not the window counts, or if the padding allows a
// window outside the image.
void check_pool(const GraphBuilder& g, const Window& window, Value image, bool ceil_mode);

}  // namespace opbridge::lowering
