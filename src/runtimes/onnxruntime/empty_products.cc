// Versions: 1.20 and 1.31; 1.32 has none of these faults.
// Model: y = MatMul(x, v), with v a vector: of (2, 0) and (0); of (0, 3) and (3). And of matrices (1, 2, 3)
// and (0, 3, 4). Fault: the first leaves the memory of y as it was; the others fail, although they have no
// elements. Rewrite: the vector becomes a matrix of one column, whose axis is taken from the result. Where
// all dims are known and the result of a broadcast of batches has no elements, it is a constant. Tests:
// test_runtime_faults.py, mend_empty_products.txt.
#include <algorithm>
#include <cstddef>
#include <vector>

#include "ir/dead_code.h"
#include "ir/uses.h"
#include "runtimes/onnxruntime/faults.h"
#include "tensor/constants.h"

namespace opbridge::onnxruntime {
namespace {

const std::vector<Dim>* dims_of(const ir::Value* value) {
  const auto* type = std::get_if<ir::TensorType>(&value->type);
  return type && type->dims ? &*type->dims : nullptr;
}

bool may_lack_elements(const std::vector<Dim>& dims) {
  return std::ranges::any_of(dims, [](const Dim& dim) { return dim.is(0) || tensor::may_be_zero(dim); });
}

class Rewriter {
 public:
  Rewriter(ir::Graph& root, ir::Graph& graph, ir::Names& names, int opset)
      : root_(root), graph_(graph), names_(names), opset_(opset) {}

  bool run() {
    const std::vector<ir::Node*> before = std::move(graph_.nodes);
    graph_.nodes.clear();
    bool changed = false;
    for (ir::Node* node : before) {
      const bool rewritten = node->op == "MatMul" && rewrite(*node);
      if (!rewritten) graph_.nodes.push_back(node);
      changed |= rewritten;
    }
    return changed;
  }

 private:
  bool rewrite(ir::Node& node) {
    const std::vector<Dim>*left = dims_of(node.inputs[0]), *right = dims_of(node.inputs[1]);
    if (!left || !right) return false;
    if (right->size() == 1 && left->size() > 1 && may_lack_elements(*left)) {
      multiply_by_column(node);
      return true;
    }
    return right->size() > 2 && become_constant(node);
  }

  void multiply_by_column(ir::Node& node) {
    const ir::TensorType& type = node.outputs[0]->tensor_type();
    ir::Value* column = shaped("Unsqueeze", node.inputs[1], 1, node);
    column->type = ir::TensorType{type.element_type, std::vector{dims_of(node.inputs[1])->front(), Dim(1)}};
    ir::Value* result = node.outputs[0];
    node.inputs[1] = column;
    ir::Value* product = graph_.add_value(names_.unused(result->name + ":column"), ir::Type());
    ir::TensorType wide = type;
    if (wide.dims) wide.dims->emplace_back(1);
    product->type = wide;
    product->producer = &node;
    node.outputs[0] = product;
    graph_.nodes.push_back(&node);
    ir::Node* squeeze =
        shaping_node("Squeeze", product, static_cast<int64_t>(dims_of(node.inputs[0])->size()) - 1, node);
    squeeze->outputs = {result};
    result->producer = squeeze;
  }

  // Whether it did.
  bool become_constant(ir::Node& node) {
    const ir::TensorType& type = node.outputs[0]->tensor_type();
    if (!type.is_static() || std::ranges::none_of(*type.dims, [](const Dim& dim) { return dim.is(0); }))
      return false;
    std::vector<int64_t> dims;
    for (const Dim& dim : *type.dims) dims.push_back(dim.value());
    ir::Value* empty = root_.add_initializer(names_.unused(node.outputs[0]->name + ":empty"),
                                             tensor::owned_weight(type.element_type, std::move(dims), {}));
    node.op = "Identity";
    node.inputs = {empty};
    node.attributes.clear();
    graph_.nodes.push_back(&node);
    return true;
  }

  ir::Value* shaped(const char* op, ir::Value* input, int64_t axis, const ir::Node& beside) {
    ir::Node* node = shaping_node(op, input, axis, beside);
    return graph_.add_output_of(node, names_.unused(input->name + ":" + op), {});
  }

  // The axes are an input from opset 13 on.
  ir::Node* shaping_node(const char* op, ir::Value* input, int64_t axis, const ir::Node& beside) {
    ir::Node* node = ir::add_node_beside(beside, graph_, names_, op, {input});
    const std::vector<int64_t> axes{axis};
    if (opset_ < 13) {
      node->attributes = {{"axes", axes}};
    } else {
      node->inputs.push_back(
          root_.add_initializer(names_.unused(input->name + ":axes"), ir::Weight::of<int64_t>(axes, {1})));
    }
    return node;
  }

  ir::Graph& root_;
  ir::Graph& graph_;
  ir::Names& names_;
  const int opset_;
};

}  // namespace

bool mend_empty_products(ir::Graph& graph, ir::Names& names, int opset) {
  bool changed = false;
  for (ir::Graph* each : ir::all_graphs(graph)) changed |= Rewriter(graph, *each, names, opset).run();
  return changed && ir::remove_dead_code(graph);
}

}  // namespace opbridge::onnxruntime
