#include "ir/rounding.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_set>

namespace opbridge::ir {
namespace {

bool rounds(const Node& node) {
  if (node.op == "Round" || node.op == "Floor" || node.op == "Ceil") return true;
  const auto* type = std::get_if<TensorType>(&node.outputs[0]->type);
  return node.op == "Cast" && type && is_integral(type->element_type);
}

bool keeps_fractions(const Node& node) {
  static constexpr std::array<std::string_view, 12> operators = {
      "Add", "Sub",     "Neg",       "Cast",    "Clip",  "Max",
      "Min", "Reshape", "Transpose", "Squeeze", "Where", "Unsqueeze"};
  return std::ranges::find(operators, node.op) != operators.end();
}

}  // namespace

Rounding::Rounding(const Graph& graph) {
  for (const Node* node : graph.nodes) {
    for (const Value* input : node->inputs) {
      if (input) users_[input].push_back(node);
    }
  }
}

const std::vector<const Node*>& Rounding::users(const Value* value) const {
  static const std::vector<const Node*> none;
  const auto found = users_.find(value);
  return found == users_.end() ? none : found->second;
}

bool Rounding::follows(const Value* value) const {
  std::vector<const Value*> open{value};
  std::unordered_set<const Value*> seen;
  while (!open.empty()) {
    const Value* next = open.back();
    open.pop_back();
    if (!seen.insert(next).second) continue;
    for (const Node* user : users(next)) {
      if (rounds(*user)) return true;
      if (keeps_fractions(*user)) open.push_back(user->outputs[0]);
    }
  }
  return false;
}

}  // namespace opbridge::ir
