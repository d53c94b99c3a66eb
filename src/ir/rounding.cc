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

bool Rounding::follows(const Value* value) const {
  std::vector<const Value*> open{value};
  std::unordered_set<const Value*> seen;
  while (!open.empty()) {
    const Value* next = open.back();
    open.pop_back();
    if (!seen.insert(next).second) continue;
    for (const Node* user : readers_.of(next)) {
      if (rounds(*user)) return true;
      if (keeps_fractions(*user)) open.push_back(user->outputs[0]);
    }
  }
  return false;
}

}  // namespace opbridge::ir
