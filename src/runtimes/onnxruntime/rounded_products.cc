// Versions: 1.20 to 1.32.
// Model: y = Round(Mul(x, Div(1, s))), or Mul(x, Div(1, s)) of integers.
// Fault: the runtime computes x / s, which is rounded once and not twice, so that y may be another integer.
// Quantization rounds such products, and the least element of a symmetric range is always halfway between two
// integers.
// Rewrite: Mul(x, Neg(Div(-1, s))), which is equal and not fused.
// Tests: test_runtime_faults.py, test_products_by_inverses_are_rounded_as_written, and
// test_integer_inverses_are_truncated.
#include <algorithm>

#include "ir/rewriter.h"
#include "ir/rounding.h"
#include "runtimes/onnxruntime/faults.h"
#include "tensor/constants.h"

namespace opbridge::onnxruntime {
namespace {

bool is_one(const ir::Value* value) { return value->weight && tensor::number_of(*value->weight) == 1; }

bool is_factor_of_rounded(const ir::Node& inverse, const ir::Rounding& rounding) {
  const ElementType type = inverse.outputs[0]->tensor_type().element_type;
  const bool is_integer = is_integral(type) && !tensor::is_unsigned(type);
  return std::ranges::any_of(rounding.users(inverse.outputs[0]), [&](const ir::Node* user) {
    return user->op == "Mul" && (is_integer || rounding.follows(user->outputs[0]));
  });
}

void negate_twice(ir::Rewriter& rewriter, ir::Node& inverse) {
  const ir::Value* result = inverse.outputs[0];
  inverse.inputs[0] = rewriter.add_constant(result->name + ":minus_one",
                                            tensor::scalar_weight(-1.0, result->tensor_type().element_type));
  rewriter.add_behind(inverse, "Neg", ":negative");
}

}  // namespace

void keep_rounded_products(ir::Graph& graph, ir::Names& names) {
  for (ir::Graph* each : ir::all_graphs(graph)) {
    const ir::Rounding rounding(*each);
    ir::Rewriter rewriter(graph, *each, names);
    rewriter.run([&](ir::Node& node) {
      rewriter.append(node);
      if (node.op == "Div" && is_one(node.inputs[0]) && is_factor_of_rounded(node, rounding))
        negate_twice(rewriter, node);
    });
  }
}

}  // namespace opbridge::onnxruntime
