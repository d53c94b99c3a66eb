// Versions: 1.20, 1.31 and 1.32.
// Model: MatMul of a Transpose and a vector; ONNX Runtime's own optimizations may also move a Transpose
// there.
// Fault: both are fused into a product that is not transposed.
// Rewrite: the vector becomes a matrix of one column.
// Tests: test_runtime_faults.py, test_a_transposed_matrix_times_a_vector.
#include "runtimes/onnxruntime/replacements.h"

namespace opbridge::onnxruntime {

Value product_by_column(GraphBuilder& g, const ir::Node& product) {
  const Value left(product.inputs[0]), right(product.inputs[1]);
  if (!left.ranked() || left.rank() < 2 || !right.ranked() || right.rank() != 1) return {};
  Value column = g.op("MatMul", left, g.unsqueeze(right, {1}));
  return g.squeeze(column, {left.rank() - 1});
}

}  // namespace opbridge::onnxruntime
