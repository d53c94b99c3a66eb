#pragma once

#include "opbridge/ir.h"

namespace opbridge::functionalization {

// Calls `visit` for each value that the subgraphs of a node use or return, their own and outer ones alike.
void for_each_use_in_subgraphs(ir::Node& node, const std::function<void(ir::Value*&)>& visit);

// Takes out the nodes that neither the graph's outputs nor another node needs, be it for a result or for a
// size that the result is the first to have. All nodes are pure.
void drop_dead_nodes(ir::Graph& graph);

}  // namespace opbridge::functionalization
