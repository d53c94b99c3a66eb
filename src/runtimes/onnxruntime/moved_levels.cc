#include "runtimes/onnxruntime/moved_levels.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "ir/queries.h"

namespace opbridge::onnxruntime {
namespace {

constexpr std::array<std::string_view, 6> movements = {"MaxPool", "Reshape",   "Slice",
                                                       "Squeeze", "Transpose", "Unsqueeze"};

// The runtime swaps a Transpose with any DequantizeLinear, the other operators only with one of known scale.
bool has_one_known_scale(const ir::Node& node) {
  return std::ranges::all_of(node.inputs.begin() + 1, node.inputs.end(), [](const ir::Value* input) {
    return !input || (input->weight && input->weight->element_count() == 1);
  });
}

}  // namespace

const ir::Node* dequantization_of(const ir::Value* value) {
  const ir::Node* node = value ? value->producer : nullptr;
  bool is_transposed_only = true;
  for (; node && ir::is_one_of(movements, *node); node = node->inputs[0]->producer)
    is_transposed_only = is_transposed_only && node->op == "Transpose";
  const bool is_found = node && node->op == "DequantizeLinear" && !node->inputs[0]->weight &&
                        (is_transposed_only || has_one_known_scale(*node));
  return is_found ? node : nullptr;
}

const ir::Node* before_transposes(const ir::Value* value) {
  const ir::Node* node = value ? value->producer : nullptr;
  while (node && node->op == "Transpose") node = node->inputs[0]->producer;
  return node;
}

}  // namespace opbridge::onnxruntime
