// Versions: 1.20; 1.31 and 1.32 do not have the fault.
// Model: MaxPool of uint8 with indices, of a window that is all 0.
// Fault: the index is not set.
// Rewrite: the MaxPool computes in float32.
// Tests: test_runtime_faults.py, test_lowering_pooling_windows.py.
#include "runtimes/onnxruntime/replacements.h"

namespace opbridge::onnxruntime {

std::vector<Value> pool_with_indices_in_float32(GraphBuilder& g, const ir::Node& pool) {
  const Value x(pool.inputs[0]);
  if (pool.outputs.size() < 2 || !pool.outputs[1] || !is_integral(x.element_type())) return {};
  std::vector<Operand> operands{g.cast(x, ElementType::float32)};
  add_attributes(operands, pool);
  std::vector<Value> made = g.op_list("MaxPool", 2, std::move(operands));
  return {g.cast(made[0], x.element_type()), made[1]};
}

}  // namespace opbridge::onnxruntime
