// Versions: 1.20 and 1.31; 1.32 does not have the fault.
// Model: Mod(a, b, fmod=1) of int64.
// Fault: the runtime computes it in float64, which has 53 bits: the largest int64 by -6 leaves 2 instead of
// 1.
// Rewrite: a - a / b * b, whose Div truncates.
// Tests: test_runtime_faults.py, test_quotients_at_the_ends_of_integers and test_gcd_of_the_least_integer.
#include "ir/attribute_or.h"
#include "runtimes/onnxruntime/replacements.h"

namespace opbridge::onnxruntime {

Value exact_remainder_of_integers(GraphBuilder& g, const ir::Node& remainder) {
  const Value a(remainder.inputs[0]), b(remainder.inputs[1]);
  if (a.element_type() != ElementType::int64 || ir::attribute_or<int64_t>(remainder, "fmod", 0) == 0)
    return {};
  return g.op("Sub", a, g.op("Mul", g.op("Div", a, b), b));
}

}  // namespace opbridge::onnxruntime
