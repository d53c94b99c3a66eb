#pragma once

#include "opbridge/ir.h"

namespace opbridge::functionalization {

// Takes out the nodes that neither the graph's outputs nor another node needs, be it for a result or for a
// size that the result is the first to have. All nodes are pure.
void drop_dead_nodes(ir::Graph& graph);

}  // namespace opbridge::functionalization
