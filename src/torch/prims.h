// The operators of `prims`, to which decompositions of PyTorch go down: torch/_prims/__init__.py.
#pragma once

#include "opbridge/ir.h"

namespace opbridge::torch {

// Replaces calls of them, also in bodies, by calls of the ATen operators that compute the same. Those without
// such an operator stay.
void replace_prims(ir::Graph& graph);

}  // namespace opbridge::torch
