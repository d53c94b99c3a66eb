// Nodes that give one of their inputs back.
#include <algorithm>

#include "simplify/passes.h"
#include "simplify/uses.h"
#include "tensor/constants.h"

namespace opbridge {
namespace {

bool is_number(const ir::Weight& weight, double number) {
  if (weight.element_count() != 1) return false;
  const std::optional<ir::Weight> converted = convert_weight(weight, ElementType::float64);
  return converted && converted->as<double>()[0] == number;
}

// The input that `node` gives back, whatever its elements are; null where it does not. In x + 0, -0 becomes 0
// in PyTorch; ONNX Runtime leaves the addition out as well.
ir::Value* source_of(const ir::Node& node) {
  const auto& inputs = node.inputs;
  if (node.op == "Where" && inputs[0]->weight) {
    const auto all_are = [&](bool truth) {
      return std::ranges::all_of(inputs[0]->weight->bytes,
                                 [&](std::byte byte) { return (byte != std::byte{0}) == truth; });
    };
    return all_are(true) ? inputs[1] : all_are(false) ? inputs[2] : nullptr;
  }
  const bool sum = node.op == "Add" || node.op == "Sub", product = node.op == "Mul" || node.op == "Div";
  if (!sum && !product) return nullptr;
  // Not a whole tensor: that of a trained model would not be neutral, and the runtime fuses with it.
  const auto is_neutral = [&](const ir::Value* value) {
    return value->weight && is_number(*value->weight, product ? 1 : 0);
  };
  if (is_neutral(inputs[1])) return inputs[0];
  const bool commutes = node.op == "Add" || node.op == "Mul";
  return commutes && is_neutral(inputs[0]) ? inputs[1] : nullptr;
}

}  // namespace

bool remove_identities(ir::Graph& graph) {
  Uses uses(graph);
  return uses.for_each_node([&](ir::Node& node) {
    ir::Value* source = source_of(node);
    // Broadcast, it is another.
    if (source && source->type == node.outputs[0]->type && !uses.is_output(node.outputs[0]))
      uses.replace(node.outputs[0], source);
  });
}

}  // namespace opbridge
