// Versions: all that were tried, 1.20 to 1.32.
// Model: ReduceSum, ReduceMean, ReduceL1, ReduceL2 or ReduceSumSquare of float32 that adds more than 65,536
// elements.
// Fault: the runtime adds one after the other; the sum is less accurate than PyTorch's, which adds blockwise.
// Rewrite: the reduction is computed in float64.
// Tests: test_runtime_faults.py, test_lowering_reduction.py.
#include "runtimes/onnxruntime/reduction_node.h"
#include "runtimes/onnxruntime/replacements.h"

namespace opbridge::onnxruntime {

Value long_reduction_in_float64(GraphBuilder& g, const ir::Node& reduction) {
  constexpr int64_t most_in_float32 = 1 << 16;
  const std::optional<ReductionNode> node = reduction_of(reduction);
  if (!node || node->x.element_type() != ElementType::float32) return {};
  Dim count(1);
  for (int64_t axis : node->axes) count = count * node->x.dim(axis);
  if (!count.is_static() || count.value() <= most_in_float32) return {};
  Value wide = g.cast(node->x, ElementType::float64);
  return g.cast(g.reduce(reduction.op, wide, node->axes, node->keepdims), ElementType::float32);
}

}  // namespace opbridge::onnxruntime
