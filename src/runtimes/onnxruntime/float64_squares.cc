// Versions: 1.20 and 1.31; not 1.32.
// Model: the RMS normalization of float64, x / Sqrt(ReduceMean(Pow(x, 2)) + eps) * w.
// Fault: the runtime fuses the nodes, and its kernel computes in float32.
// Rewrite: Mul(x, x) for Pow(x, 2), which the runtime does not fuse. Test: test_lowering_normalization.py.
#include "runtimes/onnxruntime/replacements.h"
#include "tensor/constants.h"

namespace opbridge::onnxruntime {

Value square_of_float64(GraphBuilder& g, const ir::Node& power) {
  const Value x(power.inputs[0]), exponent(power.inputs[1]);
  const bool is_square = exponent.weight() && tensor::number_of(*exponent.weight()) == 2;
  return x.element_type() == ElementType::float64 && is_square ? g.op("Mul", x, x) : Value();
}

}  // namespace opbridge::onnxruntime
