// Versions: all that were tried, 1.20 to 1.32; Dropout has a kernel in 1.32.
// Model: RandomUniform of opset 22.
// Fault: there is no kernel; the model does not load.
// Rewrite: none; the node is refused.
// Tests: test_runtime_faults.py, test_lowering_random.py.
#include "runtimes/onnxruntime/replacements.h"

namespace opbridge::onnxruntime {

std::vector<Value> random_numbers(GraphBuilder& g, const ir::Node& node) {
  if (g.opset() >= 22) {
    g.refuse("ONNX Runtime has no kernel for " + node.op + " from opset 22 on; export with opset_version=21");
  }
  return {};
}

}  // namespace opbridge::onnxruntime
