#include "simplify/uses.h"

#include <unordered_set>

namespace opbridge {

Uses count_uses(ir::Graph& graph) {
  Uses uses;
  std::unordered_set<const ir::Graph*> seen;
  const auto add_outputs = [&](const ir::Graph& of) {
    if (!seen.insert(&of).second) return;
    for (const ir::Value* output : of.outputs) ++uses[output];
  };
  add_outputs(graph);
  ir::for_each_node(graph, [&](ir::Graph& owner, ir::Node& node) {
    node.for_each_use([&](ir::Value*& value) { ++uses[value]; });
    add_outputs(owner);
  });
  return uses;
}

}  // namespace opbridge
