// Versions: 1.20 and 1.31; the second fault also in 1.32.
// Model: the RMS normalization x / Sqrt(ReduceMean(Pow(x, 2)) + eps) * w, of float64, or of rows of one
// number by a longer vector w.
// Fault: the runtime fuses the nodes. Its kernel computes in float32, and does not broadcast the rows.
// Rewrite: Mul(x, x) for Pow(x, 2), which the runtime does not fuse.
// Tests: test_lowering_normalization.py, and test_rms_norm_of_one_number_broadcasts_to_its_weight.
#include "runtimes/onnxruntime/replacements.h"
#include "tensor/constants.h"

namespace opbridge::onnxruntime {

Value square_not_to_fuse(GraphBuilder& g, const ir::Node& power) {
  const Value x(power.inputs[0]), exponent(power.inputs[1]);
  const bool is_square = exponent.weight() && tensor::number_of(*exponent.weight()) == 2;
  const bool has_short_rows = x.ranked() && x.rank() > 0 && x.dim(-1).is(1);
  return is_square && (x.element_type() == ElementType::float64 || has_short_rows) ? g.op("Mul", x, x)
                                                                                   : Value();
}

}  // namespace opbridge::onnxruntime
