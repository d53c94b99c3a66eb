#pragma once

#include <cstddef>
#include <ranges>
#include <span>

#include "opbridge/dim.h"

namespace opbridge::tensor {

// Whether neighbors along an axis lie `stride` apart if the next axis has this size and its elements lie
// `step` apart. PyTorch counts a size of 0 as 1 in strides, which makes no difference to the elements.
inline bool steps_over(const Dim& stride, const Dim& size, const Dim& step) {
  return stride == size * step || stride == max(1, size) * step;
}

// Whether the elements lie one after the other in memory if the `axes` follow each other there, the innermost
// first. The stride of an axis of size 1 is arbitrary.
template <std::ranges::input_range Axes>
bool are_dense(std::span<const Dim> dims, std::span<const Dim> strides, Axes&& axes) {
  Dim step = 1, size = 1;  // of the next axis
  for (const auto each : axes) {
    const auto axis = static_cast<std::size_t>(each);
    if (dims[axis].is(1)) continue;
    if (!steps_over(strides[axis], size, step)) return false;
    step = strides[axis];
    size = dims[axis];
  }
  return true;
}

inline bool are_row_major(std::span<const Dim> dims, std::span<const Dim> strides) {
  return are_dense(dims, strides, std::views::iota(std::size_t{0}, dims.size()) | std::views::reverse);
}

}  // namespace opbridge::tensor
