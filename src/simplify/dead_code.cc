#include <algorithm>
#include <unordered_set>

#include "simplify/passes.h"

namespace opbridge {
namespace {

// Every value used inside the graph's subgraphs, at any depth, and as their outputs.
void add_uses_of_subgraphs(ir::Node& node, std::unordered_set<const ir::Value*>& used) {
  for (const ir::GraphPtr& body : node.bodies()) {
    remove_dead_code(*body);
    used.insert(body->outputs.begin(), body->outputs.end());
    for (ir::Node* inner : body->nodes) {
      inner->for_each_use([&](ir::Value*& value) { used.insert(value); });
      add_uses_of_subgraphs(*inner, used);
    }
  }
}

}  // namespace

bool remove_dead_code(ir::Graph& graph) {
  std::unordered_set<const ir::Value*> used(graph.outputs.begin(), graph.outputs.end());
  std::vector<ir::Node*> kept;
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    const bool needed =
        std::ranges::any_of((*node)->outputs, [&](const ir::Value* output) { return used.contains(output); });
    if (!needed) continue;
    (*node)->for_each_use([&](ir::Value*& value) { used.insert(value); });
    add_uses_of_subgraphs(**node, used);
    kept.push_back(*node);
  }
  std::ranges::reverse(kept);
  bool changed = kept.size() != graph.nodes.size();
  graph.nodes = std::move(kept);
  changed |=
      std::erase_if(graph.initializers, [&](const ir::Value* value) { return !used.contains(value); }) > 0;
  return changed;
}

}  // namespace opbridge
