#pragma once

#include "opbridge/ir.h"

namespace opbridge::standard {

// Stores the quantized W of x W^T transposed if its elements have 4 bits or its scales are for blocks: the
// form in which runtimes multiply by such weights without dequantizing them first.
void transpose_quantized_weights(ir::Graph& graph);

}  // namespace opbridge::standard
