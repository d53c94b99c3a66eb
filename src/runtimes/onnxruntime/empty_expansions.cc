// Versions: all that were tried, 1.20 and 1.32.
// Model: Sigmoid(Expand(Sigmoid(x), (0, 3))), with x of (1, 3).
// Fault: the runtime removes the Expand when it loads the model, and the result is (1, 3).
// Rewrite: a constant without elements.
// Test: test_runtime_faults.py.
#include "lowering/common.h"
#include "runtimes/onnxruntime/replacements.h"

namespace opbridge::onnxruntime {

Value expansion_to_nothing(GraphBuilder& g, const ir::Node& expansion) {
  const ir::TensorType& result = expansion.outputs[0]->tensor_type();
  if (!result.dims || !lowering::element_count(*result.dims).is(0)) return {};
  return lowering::filled(g, *result.dims, 0, result.element_type);
}

}  // namespace opbridge::onnxruntime
