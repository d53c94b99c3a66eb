#include "lowering/nn/window.h"

#include <fmt/format.h>

#include <utility>

#include "lowering/common.h"

namespace opbridge::lowering {
namespace {

constexpr int64_t too_large = int64_t{1} << 31;

}  // namespace

std::vector<int64_t> per_axis(const GraphBuilder& g, std::string_view argument, std::vector<int64_t> values,
                              size_t axes, int64_t least) {
  if (values.size() == 1) values.resize(axes, values.front());
  if (values.size() != axes)
    g.refuse(fmt::format("{} has {} numbers for {} spatial axes", argument, values.size(), axes));
  for (const int64_t value : values) {
    if (value < least || value >= too_large)
      g.refuse(fmt::format("{} is {}; it must be from {} to 2^31 - 1", argument, value, least));
  }
  return values;
}

Window window_of(const GraphBuilder& g, size_t axes, std::vector<int64_t> kernel, std::vector<int64_t> stride,
                 std::vector<int64_t> padding, std::vector<int64_t> dilation) {
  Window window{per_axis(g, "kernel_size", std::move(kernel), axes, 1), strides(g, std::move(stride), axes),
                paddings(g, std::move(padding), axes), dilations(g, std::move(dilation), axes)};
  int64_t elements = 1;
  for (const int64_t size : window.kernel) {
    elements *= size;
    if (elements >= too_large) g.refuse("the kernel has 2^31 or more elements");
  }
  return window;
}

Dim window_count(const Window& window, size_t axis, const Dim& size, bool ceil_mode) {
  const Dim stride(window.stride[axis]), padding(window.padding[axis]);
  const int64_t span = window.dilation[axis] * (window.kernel[axis] - 1) + 1;
  const Dim reach = size + Dim(2) * padding - Dim(span);
  if (!ceil_mode) return floor_div(reach, stride) + Dim(1);
  const Dim last = floor_div(reach + stride - Dim(1), stride);
  // No window starts after the image and its left padding.
  return min(last, floor_div(size + padding - Dim(1), stride)) + Dim(1);
}

void check_pool(const GraphBuilder& g, const Window& window, Value image, bool ceil_mode) {
  const size_t axes = window.kernel.size();
  for (size_t i = 0; i < axes; ++i) {
    const int64_t span = window.dilation[i] * (window.kernel[i] - 1) + 1;
    if (window.padding[i] > span / 2)
      g.refuse(fmt::format("padding is {}; it must be at most half of the kernel", window.padding[i]));
    const Dim &size = last_dims(image.dims(), axes)[i], &said = last_dims(*g.result().dims, axes)[i];
    if (!size.is_static() || !said.is_static()) continue;
    const Dim count = window_count(window, i, size, ceil_mode);
    if (!(count == said)) {
      g.refuse(
          fmt::format("the program says that the result has size {} along an axis, but there are {} windows",
                      said.str(), count.str()));
    }
  }
}

}  // namespace opbridge::lowering
