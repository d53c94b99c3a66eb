// The passes of the simplify stage. Each changes the graph in place and returns whether it changed anything.
#pragma once

#include "opbridge/ir.h"

namespace opbridge {

// Removes nodes and initializers that no output depends on.
bool remove_dead_code(ir::Graph& graph);

}  // namespace opbridge
