// The operators of `prims`, the lowest level of PyTorch's decompositions: torch/_prims/__init__.py.
#pragma once

#include "opbridge/ir.h"

namespace opbridge::torch {

// Replaces their calls, including those in bodies, by calls of equivalent ATen operators. A call without an
// equivalent stays.
void replace_prims(ir::Graph& graph);

}  // namespace opbridge::torch
