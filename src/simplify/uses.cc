#include "simplify/uses.h"

#include <algorithm>

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

std::vector<ir::Graph*> all_graphs(ir::Graph& graph) {
  std::vector<ir::Graph*> graphs;
  ir::for_each_node(graph, [&](ir::Graph& owner, ir::Node&) {
    if (std::ranges::find(graphs, &owner) == graphs.end()) graphs.push_back(&owner);
  });
  return graphs;
}

std::unordered_set<const ir::Value*> all_outputs(ir::Graph& graph) {
  std::unordered_set<const ir::Value*> outputs(graph.outputs.begin(), graph.outputs.end());
  ir::for_each_node(graph, [&](ir::Graph& owner, ir::Node&) {
    outputs.insert(owner.outputs.begin(), owner.outputs.end());
  });
  return outputs;
}

void Replacements::apply(ir::Node& node) const {
  node.for_each_use([&](ir::Value*& value) {
    if (const auto found = values_.find(value); found != values_.end()) value = found->second;
  });
}

void Replacements::apply(ir::Graph& graph) const {
  if (empty()) return;
  ir::for_each_node(graph, [&](ir::Graph&, ir::Node& node) { apply(node); });
}

Names::Names(ir::Graph& graph) {
  for (const auto* values : {&graph.initializers, &graph.inputs}) {
    for (const ir::Value* value : *values) taken_.insert(value->name);
  }
  ir::for_each_node(graph, [&](ir::Graph&, ir::Node& node) {
    for (const ir::Value* output : node.outputs) taken_.insert(output->name);
  });
}

std::string Names::unused(std::string name) {
  while (!taken_.insert(name).second) name += "_";
  return name;
}

}  // namespace opbridge
