// Versions: 1.31; in 1.32, only an infinite scalar; 1.20 does not have the fault.
// Model: a MatMul of float64 with an operand or a result that is multiplied by a scalar constant.
// Fault: the runtime fuses the scalar into the MatMul as a float32 attribute, which loses precision; a model
// with an infinite scalar does not load.
// Rewrite: Squeeze(Unsqueeze(x)) between the two nodes; the runtime fuses nodes that follow each other.
// Tests: test_runtime_faults.py, test_scaled_products_of_float64_keep_their_precision.
//
// Versions: 1.20, 1.31 and 1.32.
// Model: a MatMul with an operand or a result that is multiplied by a constant that is infinite or NaN, or
// divided by 0.
// Fault: the runtime multiplies the product itself by the scalar: 0 instead of NaN if no terms are summed,
// and infinity where an infinite operand has NaN. Rewrite: the same. Tests: test_runtime_faults.py,
// test_infinite_scales_of_products.
//
// Versions: 1.20; 1.31 and 1.32 do not have the fault.
// Model: a MatMul of float64 with an operand that a Transpose makes.
// Fault: the runtime fuses the two into a node for which it has no kernel of float64, so that the model does
// not load.
// Rewrite: the same.
// Tests: test_runtime_faults.py, and test_products_of_transposed_float64.
#include <algorithm>
#include <cmath>
#include <optional>

#include "runtimes/onnxruntime/replacements.h"
#include "tensor/constants.h"

namespace opbridge::onnxruntime {
namespace {

Value apart(GraphBuilder& g, Value x) { return x.weight() ? x : g.squeeze(g.unsqueeze(x, {0}), {0}); }

bool is_infinite(const ir::Node& scaling, const ir::Weight& scale) {
  const std::optional<double> number = tensor::number_of(scale);
  return number && (!std::isfinite(*number) || (scaling.op == "Div" && *number == 0));
}

// The index of the tensor that a Mul or Div scales by a constant, infinite or of float64. Missing for other
// nodes.
std::optional<size_t> scaled_input_of(const ir::Node& node) {
  if (node.op != "Mul" && node.op != "Div") return std::nullopt;
  for (const size_t index : {size_t{0}, size_t{1}}) {
    const Value x(node.inputs[index]), scale(node.inputs[1 - index]);
    if (x.ranked() && !x.weight() && scale.weight() && scale.weight()->element_count() == 1 &&
        scale.rank() <= x.rank() &&
        (scale.element_type() == ElementType::float64 || is_infinite(node, *scale.weight())))
      return index;
  }
  return std::nullopt;
}

const ir::Node* before_transpose(const ir::Node* node) {
  return node && node->op == "Transpose" ? node->inputs[0]->producer : node;
}

}  // namespace

Value scaled_product(GraphBuilder& g, const ir::Node& scaling) {
  const std::optional<size_t> index = scaled_input_of(scaling);
  if (!index) return {};
  const ir::Node* product = before_transpose(scaling.inputs[*index]->producer);
  if (!product || product->op != "MatMul") return {};
  const auto operand = [&](size_t i) {
    const Value x(scaling.inputs[i]);
    return i == *index ? apart(g, x) : x;
  };
  return g.op(scaling.op, operand(0), operand(1));
}

Value product_of_scaled(GraphBuilder& g, const ir::Node& product) {
  const bool is_fused = std::ranges::any_of(product.inputs, [](const ir::Value* input) {
    const ir::Node* before = input->producer;
    const bool is_transpose =
        before && before->op == "Transpose" && input->tensor_type().element_type == ElementType::float64;
    const ir::Node* scaling = before_transpose(before);
    return is_transpose || (scaling && scaled_input_of(*scaling));
  });
  if (!is_fused) return {};
  return g.op("MatMul", apart(g, Value(product.inputs[0])), apart(g, Value(product.inputs[1])));
}

}  // namespace opbridge::onnxruntime
