#pragma once

#include "opbridge/dim.h"

namespace opbridge::tensor {

// Whether neighbors along an axis lie `stride` apart if the next axis has this size and its elements lie
// `step` apart. PyTorch counts a size of 0 as 1 in strides, which makes no difference to the elements.
inline bool steps_over(const Dim& stride, const Dim& size, const Dim& step) {
  return stride == size * step || stride == max(1, size) * step;
}

}  // namespace opbridge::tensor
