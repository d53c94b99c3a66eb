// Versions: 1.31 and 1.32; 1.20 does not have the fault.
// Model: ReduceSum or ReduceProd of int64 with results beyond 2^53, also ones that wrap around; ReduceSum of
// uint64.
// Fault: the runtime reduces integers in float64 and converts the result; no version has a kernel for uint64.
// Rewrite: a MatMul with ones, which adds integers; a ScatterElements that multiplies, from opset 16 on.
// Integers of at most 32 bits, and integers cast from these, are summed as int64: float64 holds these sums
// exactly.
// Tests: test_runtime_faults.py, test_lowering_reduction.py.
#include <algorithm>

#include "lowering/common.h"
#include "lowering/indexing/indexing.h"
#include "runtimes/onnxruntime/reduction_node.h"
#include "runtimes/onnxruntime/replacements.h"

namespace opbridge::onnxruntime {
namespace {

bool is_narrow(Value x) {
  const auto narrow = [](Value value) { return size_of(value.element_type()) < 8; };
  const ir::Node* made_by = x.get()->producer;
  return narrow(x) || (made_by != nullptr && made_by->op == "Cast" && narrow(made_by->inputs[0]) &&
                       !is_floating_point(made_by->inputs[0]->tensor_type().element_type));
}

// The operand of a reduction with the reduced axes flattened to the last one.
struct Rows {
  Value elements;
  std::vector<Dim> dims, result;  // of the elements; of the reduction
};

Rows rows_of(GraphBuilder& g, const ReductionNode& node) {
  std::vector<int64_t> order;
  std::vector<Dim> dims, result = node.x.dims();
  Dim count(1);
  for (int64_t axis = 0; axis < node.x.rank(); ++axis) {
    if (std::ranges::find(node.axes, axis) != node.axes.end()) {
      result[axis] = Dim(1);
      count = count * node.x.dim(axis);
    } else {
      order.push_back(axis);
      dims.push_back(node.x.dim(axis));
    }
  }
  order.insert(order.end(), node.axes.begin(), node.axes.end());
  if (!node.keepdims) result = dims;
  dims.push_back(count);
  return {g.reshape(g.transpose(node.x, order), dims), dims, result};
}

}  // namespace

Value exact_sum_of_integers(GraphBuilder& g, const ir::Node& reduction) {
  const std::optional<ReductionNode> node = reduction_of(reduction);
  if (!node || !is_integral(node->x.element_type())) return {};
  const ElementType type = node->x.element_type();
  if (is_narrow(node->x)) {
    if (type == ElementType::int64) return {};
    Value sum = g.reduce("ReduceSum", g.cast(node->x, ElementType::int64), node->axes, node->keepdims);
    return g.cast(sum, type);
  }
  const Rows rows = rows_of(g, *node);
  // Sums wrap around, so int64 sums have the same bits as uint64 sums.
  const ElementType summed = type == ElementType::uint64 ? ElementType::int64 : type;
  Value ones = lowering::filled(g, std::vector{rows.dims.back()}, 1, summed);
  Value sum = g.op("MatMul", g.cast(rows.elements, summed), ones);
  return g.cast(g.reshape(sum, rows.result), type);
}

Value exact_product_of_integers(GraphBuilder& g, const ir::Node& reduction) {
  const std::optional<ReductionNode> node = reduction_of(reduction);
  if (!node || !is_integral(node->x.element_type())) return {};
  if (g.opset() < 16)
    g.refuse(
        "products of integers that may wrap around need opset 16; export with opset_version=16 or later");
  Rows rows = rows_of(g, *node);
  Value indices = lowering::filled(g, rows.dims, 0, ElementType::int64);
  rows.dims.back() = Dim(1);
  Value start = lowering::filled(g, rows.dims, 1, node->x.element_type());
  Value product =
      lowering::scatter_elements(g, start, indices, rows.elements, -1, lowering::Reduction::multiply);
  return g.reshape(product, rows.result);
}

}  // namespace opbridge::onnxruntime
