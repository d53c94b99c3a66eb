// Versions: 1.20.1 and 1.32.0.
// Model: an output u of the model, and QuantizeLinear(Transpose(u)), also with a Reshape or a MaxPool between
// the two. Fault: the runtime quantizes u before it is transposed, and returns the quantized values as u too.
// Rewrite: a Max with -inf, which changes nothing, before the Transpose.
// Tests: test_outputs_are_quantized_with_their_transpose, and test_quantized_transposes_of_outputs.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ir/uses.h"
#include "runtimes/onnxruntime/faults.h"
#include "runtimes/onnxruntime/set_apart.h"

namespace opbridge::onnxruntime {
namespace {

class Rewriter {
 public:
  Rewriter(ir::Graph& root, ir::Graph& graph, ir::Names& names) : root_(root), graph_(graph), names_(names) {
    for (const ir::Node* node : graph.nodes) {
      if (!node->inputs.empty()) users_[node->inputs[0]].push_back(node);
    }
  }

  bool run() {
    const std::unordered_set<const ir::Value*> outputs(graph_.outputs.begin(), graph_.outputs.end());
    const std::vector<ir::Node*> before = std::move(graph_.nodes);
    graph_.nodes.clear();
    for (ir::Node* node : before) {
      if (node->op == "Transpose" && outputs.contains(node->inputs[0]) && is_quantized(node->outputs[0]))
        set_apart_from_input(*node, root_, graph_, names_);
      graph_.nodes.push_back(node);
    }
    return graph_.nodes.size() != before.size();
  }

 private:
  // At once, or after nodes with one result that rearrange or select elements.
  bool is_quantized(const ir::Value* value) const {
    const auto users = users_.find(value);
    if (users == users_.end()) return false;
    return std::ranges::any_of(users->second, [&](const ir::Node* user) {
      static const std::unordered_set<std::string_view> movements = {
          "Flatten", "MaxPool", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"};
      return user->op == "QuantizeLinear" || (movements.contains(user->op) && is_quantized(user->outputs[0]));
    });
  }

  ir::Graph& root_;
  ir::Graph& graph_;
  ir::Names& names_;
  std::unordered_map<const ir::Value*, std::vector<const ir::Node*>> users_;  // by their first input
};

}  // namespace

bool keep_transposed_outputs(ir::Graph& graph, ir::Names& names) {
  bool changed = false;
  for (ir::Graph* each : ir::all_graphs(graph)) changed |= Rewriter(graph, *each, names).run();
  return changed;
}

}  // namespace opbridge::onnxruntime
