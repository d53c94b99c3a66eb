#pragma once

#include "opbridge/ir.h"

namespace opbridge::ir {

// Removes nodes and initializers that no output depends on. Returns whether there were any.
bool remove_dead_code(ir::Graph& graph);

}  // namespace opbridge::ir
