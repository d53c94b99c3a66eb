#include "ir/dead_code.h"

#include <algorithm>
#include <unordered_set>

namespace opbridge::ir {
namespace {

using Used = std::unordered_set<const ir::Value*>;

// Adds to `used` what the live nodes of the graph use, including values of the graphs around it.
bool sweep(ir::Graph& graph, Used& used) {
  used.insert(graph.outputs.begin(), graph.outputs.end());
  bool changed = false;
  std::vector<ir::Node*> kept;
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    const bool needed =
        std::ranges::any_of((*node)->outputs, [&](const ir::Value* output) { return used.contains(output); });
    if (!needed) continue;
    (*node)->for_each_use([&](ir::Value*& value) { used.insert(value); });
    for (const ir::GraphPtr& body : (*node)->bodies()) changed |= sweep(*body, used);
    kept.push_back(*node);
  }
  std::ranges::reverse(kept);
  changed |= kept.size() != graph.nodes.size();
  graph.nodes = std::move(kept);
  changed |=
      std::erase_if(graph.initializers, [&](const ir::Value* value) { return !used.contains(value); }) > 0;
  return changed;
}

}  // namespace

bool remove_dead_code(ir::Graph& graph) {
  Used used;
  return sweep(graph, used);
}

}  // namespace opbridge::ir
