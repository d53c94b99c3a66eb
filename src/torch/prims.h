// The operators of `prims`, the lowest level of PyTorch's decompositions: torch/_prims/__init__.py.
#pragma once

#include "opbridge/ir.h"

namespace opbridge::torch {

// Replaces calls of them, also in bodies, by calls of the ATen operators that compute the same. Those without
// such an operator stay.
void replace_prims(ir::Graph& graph);

}  // namespace opbridge::torch
