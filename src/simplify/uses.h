#pragma once

#include <string>
#include <unordered_map>
#include <unordered_set>

#include "opbridge/ir.h"

namespace opbridge {

// How often each value is used: by nodes, at any depth of subgraphs, and as an output.
using Uses = std::unordered_map<const ir::Value*, int>;

Uses count_uses(ir::Graph& graph);

// The outputs of the graph and of its subgraphs.
std::unordered_set<const ir::Value*> all_outputs(ir::Graph& graph);

// The names of a graph's values, at any depth of subgraphs, for new ones.
class Names {
 public:
  explicit Names(ir::Graph& graph);
  std::string unused(std::string name);  // it, or something like it

 private:
  std::unordered_set<std::string> taken_;
};

}  // namespace opbridge
