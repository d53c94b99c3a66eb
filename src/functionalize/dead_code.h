#pragma once

#include "opbridge/ir.h"

namespace opbridge::functionalization {

// Removes nodes that neither the graph's outputs nor another live node needs. A node is also needed if its
// result is the first value with a symbol that others use. All nodes must be pure.
void drop_dead_nodes(ir::Graph& graph);

}  // namespace opbridge::functionalization
