// What slides over images in convolutions, pools and patches, and which numbers it can have.
#pragma once

#include <string_view>
#include <vector>

#include "opbridge/symbolic.h"

namespace opbridge::lowering {

struct Window {
  std::vector<int64_t> kernel, stride, padding, dilation;  // of each spatial axis
};

// One number stands for all spatial axes. Refuses numbers below `least`, and those from 2^31 on, which no
// runtime takes; `argument` names them.
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

// All of these, and a kernel of fewer than 2^31 elements.
Window window_of(const GraphBuilder& g, size_t axes, std::vector<int64_t> kernel, std::vector<int64_t> stride,
                 std::vector<int64_t> padding, std::vector<int64_t> dilation);

// How many windows of a pool there are along an axis of `size`.
Dim window_count(const Window& window, size_t axis, const Dim& size, bool ceil_mode);

// Refuses a pool of `image` whose result has other sizes than these counts, and padding by which a window
// could lie outside.
void check_pool(const GraphBuilder& g, const Window& window, Value image, bool ceil_mode);

}  // namespace opbridge::lowering
