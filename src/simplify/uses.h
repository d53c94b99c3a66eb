#pragma once

#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "opbridge/ir.h"

namespace opbridge {

// How often each value is used: by nodes, at any depth of subgraphs, and as an output.
using Uses = std::unordered_map<const ir::Value*, int>;

Uses count_uses(ir::Graph& graph);

// The graph and its subgraphs, as far as they have nodes.
std::vector<ir::Graph*> all_graphs(ir::Graph& graph);

// The outputs of the graph and of its subgraphs.
std::unordered_set<const ir::Value*> all_outputs(ir::Graph& graph);

// Values that others stand for.
class Replacements {
 public:
  bool empty() const { return values_.empty(); }
  void add(const ir::Value* value, ir::Value* replacement) { values_[value] = replacement; }
  void apply(ir::Node& node) const;
  void apply(ir::Graph& graph) const;  // to all nodes, at any depth of subgraphs

 private:
  std::unordered_map<const ir::Value*, ir::Value*> values_;
};

// The names of a graph's values, at any depth of subgraphs, for new ones.
class Names {
 public:
  explicit Names(ir::Graph& graph);
  std::string unused(std::string name);  // it, or something like it

 private:
  std::unordered_set<std::string> taken_;
};

}  // namespace opbridge
