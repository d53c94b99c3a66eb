// The stage after simplify: rewrites a graph of ONNX operators that ONNX Runtime would compute wrongly or not
// load.
#pragma once

#include "opbridge/ir.h"
#include "runtimes/refusal.h"

namespace opbridge::onnxruntime {

// Applies the rewrite of every fault. The outputs of the graph keep their values. `refuse` is called for
// every node that the runtime has no kernel for; the node stays as it is.
void legalize(ir::Graph& graph, int opset, const runtimes::Refuse& refuse);

}  // namespace opbridge::onnxruntime
