#pragma once

#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "opbridge/ir.h"

namespace opbridge::ir {

// The nodes that read each value, in order.
class Readers {
 public:
  Readers() = default;
  explicit Readers(const Graph& graph) { add(graph); }

  void add(const Graph& graph);  // its nodes, without those of their bodies

  const std::vector<const Node*>& of(const Value* value) const;

  // Whether a node of that operator reads the value as its first input, directly or through nodes of the
  // operators `between`, which make their one result from their first input.
  bool lead_to(std::string_view op, const Value* value, std::span<const std::string_view> between = {}) const;

 private:
  std::unordered_map<const Value*, std::vector<const Node*>> readers_;
};

}  // namespace opbridge::ir
