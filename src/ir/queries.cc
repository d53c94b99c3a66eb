#include "ir/queries.h"

#include <algorithm>
#include <array>

namespace opbridge::ir {

bool is_standard(const Node& node) { return OpName(node.op).domain.empty(); }

bool is_one_of(std::span<const std::string_view> operators, const Node& node) {
  return std::ranges::find(operators, node.op) != operators.end();
}

bool moves_elements(const Node& node) {
  static constexpr std::array<std::string_view, 10> movements{"Expand",    "Flatten",  "Gather", "GatherND",
                                                              "Identity",  "Reshape",  "Slice",  "Squeeze",
                                                              "Transpose", "Unsqueeze"};
  return is_one_of(movements, node);
}

const Node* producer_of(const Value* value, std::string_view op) {
  return value->producer && value->producer->op == op ? value->producer : nullptr;
}

ElementType element_type(const Value* value) {
  const auto* type = value == nullptr ? nullptr : std::get_if<TensorType>(&value->type);
  return type == nullptr ? ElementType::undefined : type->element_type;
}

TensorType as_tensor_type(const Value& value) {
  if (const auto* number = std::get_if<ScalarType>(&value.type))
    return {number->element_type, std::vector<Dim>()};
  return value.tensor_type();
}

}  // namespace opbridge::ir
