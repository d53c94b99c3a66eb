// A Reduce… node, whose axes are an attribute or an input, depending on the opset.
#pragma once

#include <optional>
#include <vector>

#include "opbridge/symbolic.h"

namespace opbridge::onnxruntime {

struct ReductionNode {
  Value x;
  std::vector<int64_t> axes;  // not negative; all of them if the node names none
  bool keepdims;
};

// Nothing if the rank or the axes are known only when the model runs, or if the node reduces nothing.
std::optional<ReductionNode> reduction_of(const ir::Node& node);

}  // namespace opbridge::onnxruntime
