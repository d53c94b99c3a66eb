// Versions: all that were tried, 1.20 to 1.32.
// Model: LogSoftmax of float64 with a NaN.
// Fault: the sum of the exponentials is clipped from below, which turns NaN into a number.
// Rewrite: NaN where Softmax, which does not clip, is NaN.
// Tests: test_runtime_faults.py, test_lowering_activation.py.
#include <cmath>

#include "runtimes/onnxruntime/replacements.h"

namespace opbridge::onnxruntime {

Value log_softmax_of_float64(GraphBuilder& g, const ir::Node& log_softmax) {
  const Value x(log_softmax.inputs[0]);
  if (x.element_type() != ElementType::float64) return {};
  const ir::AttributeValue* axis = log_softmax.find("axis");
  const auto along = [&](const char* op) {
    return axis ? g.op(op, x, attr("axis", std::get<int64_t>(*axis))) : g.op(op, x);
  };
  Value undefined = g.op("IsNaN", along("Softmax"));
  return g.op("Where", undefined, g.scalar_like(x, NAN), along("LogSoftmax"));
}

}  // namespace opbridge::onnxruntime
