#include "ir/rounding.h"

#include <array>
#include <string_view>
#include <unordered_set>

#include "ir/queries.h"

namespace opbridge::ir {
namespace {

// A comparison may depend on the last bit, too.
bool rounds(const Node& node) {
  static constexpr std::array<std::string_view, 12> operators = {
      "Round",       "Floor", "Ceil", "QuantizeLinear", "Greater", "GreaterOrEqual", "Less",
      "LessOrEqual", "Equal", "Mod",  "ArgMax",         "ArgMin"};
  if (is_one_of(operators, node)) return true;
  const auto* type = std::get_if<TensorType>(&node.outputs[0]->type);
  return node.op == "Cast" && type && is_integral(type->element_type);
}

bool keeps_fractions(const Node& node) {
  static constexpr std::array<std::string_view, 29> operators = {
      "Abs",    "Add",  "Cast",     "Clip",      "Concat",    "Div",       "Expand", "Flatten",
      "Gather", "Max",  "Identity", "GatherND",  "ReduceMax", "ReduceMin", "Min",    "Mul",
      "Neg",    "Pad",  "Relu",     "Reshape",   "ScatterND", "Slice",     "Split",  "Squeeze",
      "Sub",    "Tile", "Where",    "Transpose", "Unsqueeze"};
  return is_one_of(operators, node);
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
      if (keeps_fractions(*user)) open.insert(open.end(), user->outputs.begin(), user->outputs.end());
    }
  }
  return false;
}

}  // namespace opbridge::ir
