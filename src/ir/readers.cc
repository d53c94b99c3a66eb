#include "ir/readers.h"

#include <algorithm>

#include "ir/queries.h"

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

}  // namespace opbridge::ir
