#include "runtimes/onnxruntime/set_apart.h"

#include <cmath>

#include "tensor/constants.h"

namespace opbridge::onnxruntime {
namespace {

ir::Value* lowest_number_for(ir::Rewriter& rewriter, const ir::Value* value) {
  return rewriter.add_constant(value->name + ":least",
                               tensor::scalar_weight(-INFINITY, value->tensor_type().element_type));
}

}  // namespace

void set_apart_where(ir::Graph& root, ir::Names& names,
                     const std::function<bool(const ir::Node&, const ir::Readers&)>& matches) {
  for (ir::Graph* graph : ir::all_graphs(root)) {
    const ir::Readers readers(*graph);
    ir::Rewriter rewriter(root, *graph, names);
    rewriter.run([&](ir::Node& node) {
      rewriter.append(node);
      if (matches(node, readers)) set_apart(rewriter, node);
    });
  }
}

void set_apart(ir::Rewriter& rewriter, ir::Node& node) {
  rewriter.add_behind(node, "Max", ":apart", {lowest_number_for(rewriter, node.outputs[0])});
}

void set_apart_from_input(ir::Rewriter& rewriter, ir::Node& node) {
  ir::Value* input = node.inputs[0];
  ir::Node* between = rewriter.add(node, "Max", {input, lowest_number_for(rewriter, input)});
  node.inputs[0] = rewriter.add_result(between, input->name + ":apart", input->type);
}

}  // namespace opbridge::onnxruntime
