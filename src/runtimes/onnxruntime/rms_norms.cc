// Versions: 1.20 to 1.32; the first fault up to 1.31, the third one from 1.31 on.
// Model: the RMS normalization x / Sqrt(ReduceMean(Pow(x, 2)) + eps) * w, of float64, or of rows of one
// number by a longer vector w; and the layer normalization, for which x is Sub(y, ReduceMean(y)), of a y that
// is cast from another type.
// Fault: the runtime fuses the nodes. Its kernel computes in float32, and does not broadcast the rows. The
// fused layer normalization takes the tensor before the Cast, but weights of the type after it, and the model
// does not load.
// Rewrite: Mul(x, x) for Pow(x, 2), which the runtime does not fuse.
// Tests: test_runtime_faults.py, test_lowering_normalization.py, and
// test_rms_norm_of_one_number_broadcasts_to_its_weight.
#include "ir/queries.h"
#include "runtimes/onnxruntime/replacements.h"
#include "tensor/constants.h"

namespace opbridge::onnxruntime {
namespace {

bool is_centered_cast(const ir::Value* value) {
  const ir::Node* centered = ir::producer_of(value, "Sub");
  return centered && ir::producer_of(centered->inputs[0], "Cast");
}

}  // namespace

Value square_not_to_fuse(GraphBuilder& g, const ir::Node& power) {
  const Value x(power.inputs[0]), exponent(power.inputs[1]);
  if (!x.ranked() || exponent.rank() > x.rank()) return {};  // the exponent broadcasts x
  const bool is_square = exponent.weight() && tensor::number_of(*exponent.weight()) == 2;
  const bool has_short_rows = x.rank() > 0 && x.dim(-1).is(1);
  const bool is_fused_wrongly =
      x.element_type() == ElementType::float64 || has_short_rows || is_centered_cast(power.inputs[0]);
  return is_square && is_fused_wrongly ? g.op("Mul", x, x) : Value();
}

}  // namespace opbridge::onnxruntime
