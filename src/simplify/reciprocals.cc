#include <algorithm>

#include "simplify/passes.h"

namespace opbridge {
namespace {

// In float64 the fusion of ONNX Runtime 1.31 is wrong, and the half types would be rounded in another place.
bool is_float32(const ir::Value& value) {
  const auto* type = std::get_if<ir::TensorType>(&value.type);
  return type && type->element_type == ElementType::float32;
}

}  // namespace

bool divide_by_reciprocals(ir::Graph& graph) {
  bool changed = false;
  for (ir::Node* node : graph.nodes) {
    if (node->op != "Mul" || !is_float32(*node->outputs[0])) continue;
    const auto reciprocal = std::ranges::find_if(node->inputs, [](const ir::Value* value) {
      return value->producer && value->producer->op == "Reciprocal";
    });
    if (reciprocal == node->inputs.end()) continue;
    ir::Value* other = node->inputs[reciprocal == node->inputs.begin() ? 1 : 0];
    node->op = "Div";
    node->inputs = {other, (*reciprocal)->producer->inputs[0]};
    changed = true;
  }
  return changed;
}

}  // namespace opbridge
