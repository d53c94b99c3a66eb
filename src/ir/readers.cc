#include "ir/readers.h"

#include <algorithm>

namespace opbridge::ir {

void Readers::add(const Graph& graph) {
  for (const Node* node : graph.nodes) {
    for (const Value* input : node->inputs) {
      if (input) readers_[input].push_back(node);
    }
  }
}

const std::vector<const Node*>& Readers::of(const Value* value) const {
  static const std::vector<const Node*> none;
  const auto found = readers_.find(value);
  return found == readers_.end() ? none : found->second;
}

bool Readers::lead_to(std::string_view op, const Value* value,
                      std::span<const std::string_view> between) const {
  return std::ranges::any_of(of(value), [&](const Node* reader) {
    if (reader->inputs[0] != value) return false;
    return reader->op == op || (is_one_of(between, *reader) && lead_to(op, reader->outputs[0], between));
  });
}

bool is_one_of(std::span<const std::string_view> operators, const Node& node) {
  return std::ranges::find(operators, node.op) != operators.end();
}

const Node* producer_of(const Value* value, std::string_view op) {
  return value->producer && value->producer->op == op ? value->producer : nullptr;
}

}  // namespace opbridge::ir
