// Versions: 1.31 and 1.32; 1.20 does not have the fault.
// Model: ReduceLogSumExp of infinity and NaN; at opset 28 also of large numbers.
// Fault: the result is infinity, not NaN.
// Rewrite: the greatest element is subtracted, and the parts are computed one by one. If there may be no
// elements, which ReduceMax does not take, the sum of the NaN is added.
// Tests: test_runtime_faults.py, test_lowering_reduction.py.
#include <algorithm>

#include "lowering/common.h"
#include "runtimes/onnxruntime/reduction_node.h"
#include "runtimes/onnxruntime/replacements.h"
#include "tensor/shape.h"

namespace opbridge::onnxruntime {

Value log_of_sum_in_parts(GraphBuilder& g, const ir::Node& reduction) {
  const std::optional<ReductionNode> node = reduction_of(reduction);
  if (!node || !is_floating_point(node->x.element_type())) return {};
  const Value x = node->x;
  if (std::ranges::any_of(node->axes, [&](int64_t axis) { return tensor::may_be_empty(x.dim(axis)); })) {
    Value nan = g.op("Where", g.op("IsNaN", x), x, g.scalar_like(x, 0));
    Value result = g.reduce("ReduceLogSumExp", x, node->axes, node->keepdims);
    return g.op("Add", result, g.reduce("ReduceSum", nan, node->axes, node->keepdims));
  }
  Value greatest = g.reduce("ReduceMax", x, node->axes, true);
  greatest = g.op("Where", g.op("IsInf", greatest), g.scalar_like(x, 0), greatest);
  Value sum = g.reduce("ReduceSum", g.op("Exp", g.op("Sub", x, greatest)), node->axes, node->keepdims);
  return g.op("Add", g.op("Log", sum), node->keepdims ? greatest : g.squeeze(greatest, node->axes));
}

}  // namespace opbridge::onnxruntime
