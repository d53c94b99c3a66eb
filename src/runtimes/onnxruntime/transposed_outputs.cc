// Versions: 1.20, 1.31 and 1.32.
// Model: an output u of the model, and QuantizeLinear(Transpose(u)), also with a Reshape or a MaxPool between
// the two. Fault: the runtime quantizes u before it is transposed, and returns the quantized values as u too.
// Rewrite: a Max with -inf, which changes nothing, before the Transpose.
// Tests: test_runtime_faults.py, test_quantized_transposes_of_outputs.
#include <array>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "ir/readers.h"
#include "ir/uses.h"
#include "runtimes/onnxruntime/faults.h"
#include "runtimes/onnxruntime/set_apart.h"

namespace opbridge::onnxruntime {
namespace {

// Nodes that rearrange or select elements.
constexpr std::array<std::string_view, 7> between = {"Flatten", "MaxPool",   "Reshape",  "Slice",
                                                     "Squeeze", "Transpose", "Unsqueeze"};

bool set_transposes_apart(ir::Graph& root, ir::Graph& graph, ir::Names& names) {
  const ir::Readers readers(graph);
  const std::unordered_set<const ir::Value*> outputs(graph.outputs.begin(), graph.outputs.end());
  const std::vector<ir::Node*> before = std::move(graph.nodes);
  graph.nodes.clear();
  for (ir::Node* node : before) {
    if (node->op == "Transpose" && outputs.contains(node->inputs[0]) &&
        readers.lead_to("QuantizeLinear", node->outputs[0], between))
      set_apart_from_input(*node, root, graph, names);
    graph.nodes.push_back(node);
  }
  return graph.nodes.size() != before.size();
}

}  // namespace

bool keep_transposed_outputs(ir::Graph& graph, ir::Names& names) {
  bool changed = false;
  for (ir::Graph* each : ir::all_graphs(graph)) changed |= set_transposes_apart(graph, *each, names);
  return changed;
}

}  // namespace opbridge::onnxruntime
