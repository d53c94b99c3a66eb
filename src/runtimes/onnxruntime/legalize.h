// The stage behind simplify: rewrites a graph of ONNX operators into one that ONNX Runtime computes right.
#pragma once

#include "opbridge/ir.h"

namespace opbridge::onnxruntime {

// Applies the rewrite of every fault. The outputs of the graph keep their values.
void legalize(ir::Graph& graph, int opset);

}  // namespace opbridge::onnxruntime
