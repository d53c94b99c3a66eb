// Versions: 1.32.0; 1.20.1 does not have the fault.
// Model: q = QuantizeLinear(Conv(DequantizeLinear(p), w)) with a constant w of floats, also of a
// ConvTranspose or Gemm, and with a Relu or Clip between the two. Fault: the runtime rounds w to 8 bits, with
// one scale for all of it, so that most elements of q may be off by a level or two. Rewrite: a Max with -inf,
// which changes nothing, behind the product. Tests: test_runtime_faults.py, and
// test_float_weights_between_quantized_tensors.
#include <algorithm>
#include <unordered_map>
#include <vector>

#include "ir/uses.h"
#include "runtimes/onnxruntime/faults.h"
#include "runtimes/onnxruntime/set_apart.h"

namespace opbridge::onnxruntime {
namespace {

bool is_dequantized(const ir::Value* value) {
  return value->producer && value->producer->op == "DequantizeLinear";
}

bool is_product(const ir::Node& node) {
  return node.op == "Conv" || node.op == "ConvTranspose" || node.op == "Gemm";
}

class Rewriter {
 public:
  Rewriter(ir::Graph& root, ir::Graph& graph, ir::Names& names) : root_(root), graph_(graph), names_(names) {
    for (const ir::Node* node : graph.nodes) {
      if (!node->inputs.empty()) users_[node->inputs[0]].push_back(node);
    }
  }

  bool run() {
    const std::vector<ir::Node*> before = std::move(graph_.nodes);
    graph_.nodes.clear();
    for (ir::Node* node : before) {
      graph_.nodes.push_back(node);
      if (is_product(*node) && is_dequantized(node->inputs[0]) && !is_dequantized(node->inputs[1]) &&
          is_quantized(node->outputs[0]))
        set_apart(*node, root_, graph_, names_);
    }
    return graph_.nodes.size() != before.size();
  }

 private:
  // At once, or after activations.
  bool is_quantized(const ir::Value* value) const {
    const auto users = users_.find(value);
    if (users == users_.end()) return false;
    return std::ranges::any_of(users->second, [&](const ir::Node* user) {
      if (user->op == "QuantizeLinear") return true;
      return (user->op == "Relu" || user->op == "LeakyRelu" || user->op == "Clip") &&
             is_quantized(user->outputs[0]);
    });
  }

  ir::Graph& root_;
  ir::Graph& graph_;
  ir::Names& names_;
  std::unordered_map<const ir::Value*, std::vector<const ir::Node*>> users_;  // by their first input
};

}  // namespace

bool keep_float_weights(ir::Graph& graph, ir::Names& names) {
  bool changed = false;
  for (ir::Graph* each : ir::all_graphs(graph)) changed |= Rewriter(graph, *each, names).run();
  return changed;
}

}  // namespace opbridge::onnxruntime
