// The operators `_foreach_*`, which compute on lists of tensors: ATen's ForeachOpsKernels.cpp.
#pragma once

#include "opbridge/ir.h"

namespace opbridge::torch {

// Replaces their calls, including those in bodies, by one call of an operator on tensors for each element of
// the lists, in order. A call without an equivalent stays.
void expand_foreach(ir::Graph& graph);

}  // namespace opbridge::torch
