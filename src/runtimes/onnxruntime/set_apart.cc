#include "runtimes/onnxruntime/set_apart.h"

#include <cmath>
#include <utility>
#include <vector>

#include "tensor/constants.h"

namespace opbridge::onnxruntime {
namespace {

ir::Value* least_beside(const ir::Value* value, ir::Graph& root, ir::Names& names) {
  return root.add_initializer(names.unused(value->name + ":least"),
                              tensor::scalar_weight(-INFINITY, value->tensor_type().element_type));
}

}  // namespace

void set_apart(ir::Node& node, ir::Graph& root, ir::Graph& graph, ir::Names& names) {
  ir::add_node_behind(node, graph, names, "Max", ":apart", {least_beside(node.outputs[0], root, names)});
}

bool set_apart_where(ir::Graph& root, ir::Names& names,
                     const std::function<bool(const ir::Node&, const ir::Readers&)>& is_to_be) {
  bool changed = false;
  for (ir::Graph* graph : ir::all_graphs(root)) {
    const ir::Readers readers(*graph);
    const std::vector<ir::Node*> before = std::move(graph->nodes);
    graph->nodes.clear();
    for (ir::Node* node : before) {
      graph->nodes.push_back(node);
      if (is_to_be(*node, readers)) set_apart(*node, root, *graph, names);
    }
    changed |= graph->nodes.size() != before.size();
  }
  return changed;
}

void set_apart_from_input(ir::Node& node, ir::Graph& root, ir::Graph& graph, ir::Names& names) {
  ir::Value* input = node.inputs[0];
  ir::Node* between =
      ir::add_node_beside(node, graph, names, "Max", {input, least_beside(input, root, names)});
  node.inputs[0] = graph.add_output_of(between, names.unused(input->name + ":apart"), input->type);
}

}  // namespace opbridge::onnxruntime
