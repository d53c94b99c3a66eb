// Versions: 1.20, 1.31 and 1.32.
// Model: the layer normalization Mul(Div(Sub(u, ReduceMean(u)), …), w) + b of a sum u of three dims, with w
// and b of one element each, in vectors. Fault: the runtime fuses the nodes and the sum into
// SkipLayerNormalization, which takes only weights of the length of the rows: the run fails. Rewrite: w is a
// number without dims, beside which the runtime does not fuse the sum. Tests: test_runtime_faults.py,
// test_layer_normalization_of_sums_by_one_weight.
#include "ir/queries.h"
#include "runtimes/onnxruntime/replacements.h"
#include "tensor/constants.h"

namespace opbridge::onnxruntime {
namespace {

bool is_normalized_sum(const ir::Value* value) {
  const ir::Node* quotient = ir::producer_of(value, "Div");
  const ir::Node* centered = quotient ? ir::producer_of(quotient->inputs[0], "Sub") : nullptr;
  return centered && ir::producer_of(centered->inputs[0], "Add");
}

}  // namespace

Value normalized_sum_by_number(GraphBuilder& g, const ir::Node& product) {
  for (const size_t index : {size_t{0}, size_t{1}}) {
    const Value x(product.inputs[index]), weight(product.inputs[1 - index]);
    if (!weight.weight() || weight.rank() != 1 || !is_normalized_sum(product.inputs[index])) continue;
    if (const auto number = tensor::number_of(*weight.weight()))
      return g.op("Mul", x, g.scalar_like(x, *number));
  }
  return {};
}

}  // namespace opbridge::onnxruntime
