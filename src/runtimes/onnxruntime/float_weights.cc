// Versions: 1.32.0; 1.20.1 does not have the fault.
// Model: q = QuantizeLinear(Conv(DequantizeLinear(p), w)) with a constant w of floats, also of a
// ConvTranspose or Gemm, and with a Relu or Clip between the two. Fault: the runtime rounds w to 8 bits, with
// one scale for all of it, so that most elements of q may be off by a level or two. Rewrite: a Max with -inf,
// which changes nothing, behind the product. Tests: test_runtime_faults.py, and
// test_float_weights_between_quantized_tensors.
#include <array>
#include <string_view>
#include <vector>

#include "ir/readers.h"
#include "ir/uses.h"
#include "runtimes/onnxruntime/faults.h"
#include "runtimes/onnxruntime/set_apart.h"

namespace opbridge::onnxruntime {
namespace {

constexpr std::array<std::string_view, 3> activations = {"Relu", "LeakyRelu", "Clip"};

bool is_dequantized(const ir::Value* value) { return ir::producer_of(value, "DequantizeLinear") != nullptr; }

bool is_product(const ir::Node& node) {
  return node.op == "Conv" || node.op == "ConvTranspose" || node.op == "Gemm";
}

bool set_products_apart(ir::Graph& root, ir::Graph& graph, ir::Names& names) {
  const ir::Readers readers(graph);
  const std::vector<ir::Node*> before = std::move(graph.nodes);
  graph.nodes.clear();
  for (ir::Node* node : before) {
    graph.nodes.push_back(node);
    if (is_product(*node) && is_dequantized(node->inputs[0]) && !is_dequantized(node->inputs[1]) &&
        readers.lead_to("QuantizeLinear", node->outputs[0], activations))
      set_apart(*node, root, graph, names);
  }
  return graph.nodes.size() != before.size();
}

}  // namespace

bool keep_float_weights(ir::Graph& graph, ir::Names& names) {
  bool changed = false;
  for (ir::Graph* each : ir::all_graphs(graph)) changed |= set_products_apart(graph, *each, names);
  return changed;
}

}  // namespace opbridge::onnxruntime
