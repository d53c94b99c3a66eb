// Versions: 1.20 and 1.31; 1.32 has none of these faults.
// Model: y = MatMul(x, v), with v a vector: of (2, 0) and (0); of (0, 3) and (3). And of matrices (1, 2, 3)
// and (0, 3, 4).
// Fault: the first leaves the memory of y as it was; the others fail, although they have no elements.
// Rewrite: the vector becomes a matrix of one column, whose axis is taken from the result. Where all dims are
// known and the result of a broadcast of batches has no elements, it is a constant.
// Tests: test_runtime_faults.py, mend_empty_products.txt.
#include <algorithm>
#include <vector>

#include "ir/dead_code.h"
#include "ir/rewriter.h"
#include "runtimes/onnxruntime/faults.h"
#include "tensor/constants.h"
#include "tensor/shape.h"

namespace opbridge::onnxruntime {
namespace {

const std::vector<Dim>* dims_of(const ir::Value* value) {
  const auto* type = std::get_if<ir::TensorType>(&value->type);
  return type && type->dims ? &*type->dims : nullptr;
}

// The axes are an input from opset 13 on.
ir::Node* add_shaping(ir::Rewriter& rewriter, const char* op, ir::Value* input, int64_t axis,
                      const ir::Node& anchor, int opset) {
  ir::Node* node = rewriter.add(anchor, op, {input});
  const std::vector<int64_t> axes{axis};
  if (opset < 13) {
    node->attributes = {{"axes", axes}};
  } else {
    node->inputs.push_back(rewriter.add_constant(input->name + ":axes", axes));
  }
  return node;
}

void multiply_by_column(ir::Rewriter& rewriter, ir::Node& node, int opset) {
  ir::Value *vector = node.inputs[1], *result = node.outputs[0];
  const ir::TensorType& type = result->tensor_type();
  ir::Node* unsqueeze = add_shaping(rewriter, "Unsqueeze", vector, 1, node, opset);
  node.inputs[1] =
      rewriter.add_result(unsqueeze, vector->name + ":Unsqueeze",
                          ir::TensorType{type.element_type, std::vector{dims_of(vector)->front(), Dim(1)}});
  ir::TensorType wide = type;
  if (wide.dims) wide.dims->emplace_back(1);
  ir::Value* product = rewriter.add_value(result->name + ":column", wide);
  ir::set_only_result(&node, product);
  rewriter.append(node);
  const auto last_axis = static_cast<int64_t>(dims_of(node.inputs[0])->size()) - 1;
  ir::set_only_result(add_shaping(rewriter, "Squeeze", product, last_axis, node, opset), result);
}

bool lacks_elements(const ir::TensorType& type) {
  return type.is_static() && std::ranges::any_of(*type.dims, [](const Dim& dim) { return dim.is(0); });
}

// Appends a constant as the result of `node`.
void replace_by_constant(ir::Rewriter& rewriter, const ir::Node& node) {
  ir::Value* result = node.outputs[0];
  const ir::TensorType& type = result->tensor_type();
  std::vector<int64_t> dims;
  for (const Dim& dim : *type.dims) dims.push_back(dim.value());
  ir::Value* empty = rewriter.add_constant(result->name + ":empty",
                                           tensor::owned_weight(type.element_type, std::move(dims), {}));
  ir::set_only_result(rewriter.add(node, "Identity", {empty}), result);
}

}  // namespace

void mend_empty_products(ir::Graph& graph, ir::Names& names, int opset) {
  const bool changed = ir::rewrite_nodes(graph, names, [&](ir::Rewriter& rewriter, ir::Node& node) {
    const bool is_product = node.op == "MatMul";
    const std::vector<Dim>* left = is_product ? dims_of(node.inputs[0]) : nullptr;
    const std::vector<Dim>* right = is_product ? dims_of(node.inputs[1]) : nullptr;
    if (left && right && right->size() == 1 && left->size() > 1 && tensor::may_be_empty(*left)) {
      multiply_by_column(rewriter, node, opset);
    } else if (left && right && right->size() > 2 && lacks_elements(node.outputs[0]->tensor_type())) {
      replace_by_constant(rewriter, node);
    } else {
      rewriter.append(node);
    }
  });
  if (changed) ir::remove_dead_code(graph);
}

}  // namespace opbridge::onnxruntime
