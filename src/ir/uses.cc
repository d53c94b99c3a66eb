#include "ir/uses.h"

#include <algorithm>

namespace opbridge::ir {

std::vector<ir::Graph*> all_graphs(ir::Graph& graph) {
  std::vector<ir::Graph*> graphs{&graph};
  std::unordered_set<const ir::Graph*> seen{&graph};
  for (size_t i = 0; i < graphs.size(); ++i) {
    for (const ir::Node* node : graphs[i]->nodes) {
      for (const ir::GraphPtr& body : node->bodies()) {
        if (seen.insert(body.get()).second) graphs.push_back(body.get());
      }
    }
  }
  return graphs;
}

Uses::Uses(ir::Graph& graph) : graph_(graph) {
  for (ir::Graph* each : all_graphs(graph)) {
    for (ir::Node* node : each->nodes) {
      holders_.emplace(node, each);
      node->for_each_use([&](ir::Value*& value) { add(value); });
    }
    for (const ir::Value* output : each->outputs) {
      add(output);
      ++outputs_[output];
    }
  }
}

void Uses::visit_nodes(ir::Graph& graph, const std::function<void(ir::Graph&, ir::Node&)>& visit,
                       std::unordered_set<const ir::Graph*>& seen) {
  if (!seen.insert(&graph).second) return;
  for (ir::Node* node : graph.nodes) {
    update(*node);
    visit(graph, *node);
    for (const ir::GraphPtr& body : node->bodies()) visit_nodes(*body, visit, seen);
  }
}

bool Uses::for_each_node(const std::function<void(ir::Graph&, ir::Node&)>& visit) {
  std::unordered_set<const ir::Graph*> seen;
  visit_nodes(graph_, visit, seen);
  if (replaced_.empty()) return false;
  for (ir::Graph* each : all_graphs(graph_)) {
    for (ir::Node* node : each->nodes) update(*node);
  }
  return true;
}

ir::Node* Uses::producer_beside(const ir::Node& node, const ir::Value* value) const {
  ir::Node* producer = value == nullptr ? nullptr : value->producer;
  return producer != nullptr && holders_.at(producer) == holders_.at(&node) ? producer : nullptr;
}

void Uses::replace(const ir::Value* value, ir::Value* by) {
  const auto returned = outputs_.find(value);
  const size_t kept = returned == outputs_.end() ? 0 : returned->second;
  const size_t moved = count(value) - kept;
  if (moved > 0) add(by, moved);
  counts_[value] = kept + 1;
  replaced_[value] = by;
  remove(value);
}

void Uses::set_inputs(ir::Node& node, std::vector<ir::Value*> inputs) {
  // Add the new uses first: a value that is still used must never have a count of 0.
  std::swap(node.inputs, inputs);
  for (const ir::Value* value : node.inputs) {
    if (value) add(value);
  }
  for (const ir::Value* value : inputs) {
    if (value) remove(value);
  }
}

void Uses::set_input(ir::Node& node, size_t index, ir::Value* value) {
  std::vector<ir::Value*> inputs = node.inputs;
  inputs.at(index) = value;
  set_inputs(node, std::move(inputs));
}

void Uses::take_over_result(ir::Node& node, ir::Node& last) {
  last.for_each_use([&](ir::Value*& value) { --counts_[value]; });
  node.outputs = last.outputs;
  node.outputs.at(0)->producer = &node;
}

size_t Uses::count(const ir::Value* value) const {
  const auto found = counts_.find(value);
  return found == counts_.end() ? 0 : found->second;
}

void Uses::add(const ir::Value* value, size_t count) {
  counts_[value] += count;
  std::vector<ir::Node*> revived{value->producer};
  while (!revived.empty()) {
    ir::Node* node = revived.back();
    revived.pop_back();
    if (!node || dead_.erase(node) == 0) continue;
    node->for_each_use([&](ir::Value*& input) {
      ++counts_[input];
      revived.push_back(input->producer);
    });
  }
}

void Uses::remove(const ir::Value* value) {
  std::vector<const ir::Value*> unused{value};
  while (!unused.empty()) {
    value = unused.back();
    unused.pop_back();
    if (--counts_[value] > 0 || !value->producer || !value->producer->bodies().empty()) continue;
    ir::Node& node = *value->producer;
    if (std::ranges::any_of(node.outputs, [&](const ir::Value* output) { return count(output) > 0; }))
      continue;
    if (!dead_.insert(&node).second) continue;
    node.for_each_use([&](ir::Value*& input) { unused.push_back(input); });
  }
}

void Uses::update(ir::Node& node) const {
  if (replaced_.empty()) return;
  node.for_each_use([&](ir::Value*& value) {
    for (auto found = replaced_.find(value); found != replaced_.end(); found = replaced_.find(value)) {
      value = found->second;
    }
  });
}

void erase_nodes(ir::Graph& graph, const std::unordered_set<const ir::Node*>& nodes) {
  for (ir::Graph* each : all_graphs(graph)) {
    std::erase_if(each->nodes, [&](const ir::Node* node) { return nodes.contains(node); });
  }
}

Names::Names(ir::Graph& graph) {
  for (const ir::Graph* each : all_graphs(graph)) {
    for (const auto* values : {&each->initializers, &each->inputs}) {
      for (const ir::Value* value : *values) taken_.try_emplace(value->name);
    }
    for (const ir::Node* node : each->nodes) {
      for (const ir::Value* output : node->outputs) taken_.try_emplace(output->name);
    }
  }
}

}  // namespace opbridge::ir
