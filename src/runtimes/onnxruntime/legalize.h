// The stage after simplify: rewrites a graph of ONNX operators that ONNX Runtime would compute wrongly or not
// load.
#pragma once

#include "opbridge/ir.h"

namespace opbridge::onnxruntime {

// Applies the rewrite of every fault. The outputs of the graph keep their values.
void legalize(ir::Graph& graph, int opset);

}  // namespace opbridge::onnxruntime
