#pragma once

#include <functional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "opbridge/ir.h"
#include "support/unique_name.h"

namespace opbridge::ir {

// The graph and the bodies of its nodes at any depth, each once, outer before inner.
std::vector<ir::Graph*> all_graphs(ir::Graph& graph);

// Tracks the uses of each value of a graph. The counts include the nodes of bodies at any depth and the
// outputs of the graph and of its bodies. They are exact as long as inputs change through this class alone; a
// node whose results are not used any more uses nothing.
class Uses {
 public:
  explicit Uses(ir::Graph& graph);

  bool once(const ir::Value* value) const { return count(value) == 1; }
  bool is_output(const ir::Value* value) const { return outputs_.contains(value); }

  // Calls `visit` for each node of the graph and of its bodies at any depth, in order, a node before those of
  // its bodies, with the graph that holds it. The inputs of that node and of all before it are up to date
  // with replace(). Returns whether a value was replaced.
  bool for_each_node(const std::function<void(ir::Graph&, ir::Node&)>& visit);

  // The node that makes `value`, if the graph that holds `node` holds it too, otherwise null. A rewrite of
  // both would move work into a loop, or out of a branch that may not be taken.
  ir::Node* producer_beside(const ir::Node& node, const ir::Value* value) const;

  // Makes all readers of `value` read `by` instead. The outputs of graphs stay the same.
  void replace(const ir::Value* value, ir::Value* by);

  void set_inputs(ir::Node& node, std::vector<ir::Value*> inputs);
  void set_input(ir::Node& node, size_t index, ir::Value* value);

  // `node` makes the only result of `last` in its place; `last` is to be removed from the graph.
  void take_over_result(ir::Node& node, ir::Node& last);

 private:
  size_t count(const ir::Value* value) const;
  void add(const ir::Value* value, size_t count = 1);
  void remove(const ir::Value* value);
  void update(ir::Node& node) const;
  void visit_nodes(ir::Graph& graph, const std::function<void(ir::Graph&, ir::Node&)>& visit,
                   std::unordered_set<const ir::Graph*>& seen);

  ir::Graph& graph_;
  std::unordered_map<const ir::Node*, const ir::Graph*> holders_;
  std::unordered_map<const ir::Value*, size_t> counts_;
  std::unordered_map<const ir::Value*, size_t> outputs_;  // those among the counts
  std::unordered_map<const ir::Value*, ir::Value*> replaced_;
  std::unordered_set<const ir::Node*> dead_;  // those that lost their last use
};

// Removes nodes of the graph and of its bodies at any depth.
void erase_nodes(ir::Graph& graph, const std::unordered_set<const ir::Node*>& nodes);

// Makes names for new values of a graph that no value of the graph, or of a body at any depth, has.
class Names {
 public:
  explicit Names(ir::Graph& graph);
  std::string unused(const std::string& name) { return support::unique_name(taken_, name); }

 private:
  support::NameCounts taken_;
};

}  // namespace opbridge::ir
