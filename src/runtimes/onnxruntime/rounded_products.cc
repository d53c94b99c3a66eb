// Versions: 1.20 to 1.32.
// Model: y = Round(Mul(x, Div(1, s))), or Mul(x, Div(1, s)) of integers. Fault: the runtime computes x / s,
// which is rounded once and not twice, so that y may be another integer. Quantization rounds such products,
// and the least element of a symmetric range is always halfway between two integers.
// Rewrite: Mul(x, Neg(Div(-1, s))), which is equal and not fused.
// Tests: test_runtime_faults.py, test_products_by_inverses_are_rounded_as_written, and
// test_integer_inverses_are_truncated.
#include <algorithm>
#include <vector>

#include "ir/rounding.h"
#include "ir/uses.h"
#include "runtimes/onnxruntime/faults.h"
#include "tensor/constants.h"

namespace opbridge::onnxruntime {
namespace {

bool is_one(const ir::Value* value) { return value->weight && tensor::number_of(*value->weight) == 1; }

class Rewriter {
 public:
  Rewriter(ir::Graph& root, ir::Graph& graph, ir::Names& names) : root_(root), graph_(graph), names_(names) {}

  bool run() {
    const ir::Rounding rounding(graph_);
    const std::vector<ir::Node*> before = std::move(graph_.nodes);
    graph_.nodes.clear();
    for (ir::Node* node : before) {
      graph_.nodes.push_back(node);
      if (node->op != "Div" || !is_one(node->inputs[0])) continue;
      const ElementType type = node->outputs[0]->tensor_type().element_type;
      const bool is_integer = is_integral(type) && !tensor::is_unsigned(type);
      const bool is_factor_of_rounded =
          std::ranges::any_of(rounding.users(node->outputs[0]), [&](const ir::Node* user) {
            return user->op == "Mul" && (is_integer || rounding.follows(user->outputs[0]));
          });
      if (is_factor_of_rounded) negate_twice(*node);
    }
    return graph_.nodes.size() != before.size();
  }

 private:
  void negate_twice(ir::Node& inverse) {
    ir::Value* result = inverse.outputs[0];
    const ElementType type = result->tensor_type().element_type;
    inverse.inputs[0] =
        root_.add_initializer(names_.unused(result->name + ":minus_one"), tensor::scalar_weight(-1.0, type));
    ir::add_node_behind(inverse, graph_, names_, "Neg", ":negative");
  }

  ir::Graph& root_;
  ir::Graph& graph_;
  ir::Names& names_;
};

}  // namespace

bool keep_rounded_products(ir::Graph& graph, ir::Names& names) {
  bool changed = false;
  for (ir::Graph* each : ir::all_graphs(graph)) changed |= Rewriter(graph, *each, names).run();
  return changed;
}

}  // namespace opbridge::onnxruntime
