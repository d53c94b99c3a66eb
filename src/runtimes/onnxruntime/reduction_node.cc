#include "runtimes/onnxruntime/reduction_node.h"

#include <numeric>

#include "ir/attribute_or.h"

namespace opbridge::onnxruntime {

std::optional<ReductionNode> reduction_of(const ir::Node& node) {
  const Value x(node.inputs[0]);
  if (!x.ranked() || x.rank() == 0) return std::nullopt;
  ReductionNode found{x, {}, ir::attribute_or<int64_t>(node, "keepdims", 1) != 0};
  if (const ir::AttributeValue* axes = node.find("axes")) {
    found.axes = std::get<std::vector<int64_t>>(*axes);
  } else if (node.inputs.size() > 1 && node.inputs[1]) {
    if (!node.inputs[1]->weight) return std::nullopt;
    const std::span<const int64_t> axes = node.inputs[1]->weight->as<int64_t>();
    found.axes.assign(axes.begin(), axes.end());
  }
  if (found.axes.empty()) {
    if (ir::attribute_or<int64_t>(node, "noop_with_empty_axes", 0) != 0) return std::nullopt;
    found.axes.resize(x.rank());
    std::iota(found.axes.begin(), found.axes.end(), 0);
  }
  found.axes = wrap_axes(found.axes, x.rank());
  return found;
}

}  // namespace opbridge::onnxruntime
