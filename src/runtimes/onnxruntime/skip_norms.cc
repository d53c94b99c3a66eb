// Versions: 1.20, 1.31 and 1.32.
// Model: the layer normalization Mul(Div(Sub(u, ReduceMean(u)), …), w) + b, with w and b of one element each,
// in vectors.
// Fault: if u is a sum of three dims, the runtime fuses the nodes and the sum into
// SkipLayerNormalization; 1.20 fuses any u into LayerNormalization. Both take only weights of the length of
// the rows: the run fails. Rewrite: w becomes a 0-d tensor, with which the runtime fuses neither. Tests:
// test_runtime_faults.py, test_layer_normalization_by_one_weight.
#include "ir/queries.h"
#include "runtimes/onnxruntime/replacements.h"
#include "tensor/constants.h"

namespace opbridge::onnxruntime {
namespace {

bool is_normalized(const ir::Value* value) {
  const ir::Node* quotient = ir::producer_of(value, "Div");
  const ir::Node* centered = quotient ? ir::producer_of(quotient->inputs[0], "Sub") : nullptr;
  return centered && ir::producer_of(centered->inputs[1], "ReduceMean");
}

}  // namespace

Value normalized_by_number(GraphBuilder& g, const ir::Node& product) {
  for (const size_t index : {size_t{0}, size_t{1}}) {
    const Value x(product.inputs[index]), weight(product.inputs[1 - index]);
    if (weight.rank() != 1 || !weight.dim(0).is(1) || !is_normalized(product.inputs[index])) continue;
    const auto number = weight.weight() ? tensor::number_of(*weight.weight()) : std::nullopt;
    return g.op("Mul", x, number ? g.scalar_like(x, *number) : g.reshape(weight, std::span<const Dim>()));
  }
  return {};
}

}  // namespace opbridge::onnxruntime
