// Soft-NMS (Bodla et al., "Soft-NMS: Improving Object Detection With One Line of Code", 2017). The arguments
// are those of mmcv.ops.soft_nms.
#pragma once

#include "../common/boxes.h"

namespace opbridge::op::soft_nms {

enum class Method { naive, linear, gaussian };

inline Method method_of(std::string_view name) {
  if (name == "naive") return Method::naive;
  if (name == "linear") return Method::linear;
  require(name == "gaussian",
          "method must be 'naive', 'linear' or 'gaussian', not '" + std::string(name) + "'");
  return Method::gaussian;
}

template <class T>
T decay(T overlap, Method method, T threshold, T sigma) {
  if (method == Method::gaussian) return std::exp(-overlap * overlap / sigma);
  if (!(overlap >= threshold)) return 1;
  return method == Method::linear ? 1 - overlap : 0;
}

}  // namespace opbridge::op::soft_nms
