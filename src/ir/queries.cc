#include "ir/queries.h"

#include <algorithm>

namespace opbridge::ir {

bool is_standard(const Node& node) { return OpName(node.op).domain.empty(); }

bool is_one_of(std::span<const std::string_view> operators, const Node& node) {
  return std::ranges::find(operators, node.op) != operators.end();
}

const Node* producer_of(const Value* value, std::string_view op) {
  return value->producer && value->producer->op == op ? value->producer : nullptr;
}

ElementType element_type(const Value* value) {
  const auto* type = value == nullptr ? nullptr : std::get_if<TensorType>(&value->type);
  return type == nullptr ? ElementType::undefined : type->element_type;
}

}  // namespace opbridge::ir
