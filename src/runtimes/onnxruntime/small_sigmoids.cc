// Versions: all that were tried, 1.20 to 1.32.
// Model: y = Log(Sigmoid(x)), with x = -20.
// Fault: the kernel approximates Sigmoid to an absolute error of 3e-8 (float32) or 1e-16 (float64). It has no
// correct digit below, and is 0 from x = -18 on, so that y is minus infinity.
// Rewrite: Reciprocal(1 + Exp(-x)), where a later node may depend on the relative error. Elsewhere Sigmoid
// stays, because it is faster.
// Tests: test_runtime_faults.py, test_small_sigmoids_are_exact.
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "ir/queries.h"
#include "ir/readers.h"
#include "ir/rewriter.h"
#include "runtimes/onnxruntime/faults.h"
#include "tensor/constants.h"

namespace opbridge::onnxruntime {
namespace {

// Nodes whose result is as small as their inputs, and as inexact.
bool keeps_magnitude(const ir::Node& node) {
  static constexpr std::array<std::string_view, 42> operators = {"Abs",
                                                                 "Add",
                                                                 "Cast",
                                                                 "Clip",
                                                                 "Compress",
                                                                 "Concat",
                                                                 "CumSum",
                                                                 "Div",
                                                                 "Expand",
                                                                 "Flatten",
                                                                 "Gather",
                                                                 "GatherElements",
                                                                 "GatherND",
                                                                 "Identity",
                                                                 "Max",
                                                                 "Mean",
                                                                 "Min",
                                                                 "Mul",
                                                                 "Neg",
                                                                 "Pad",
                                                                 "Pow",
                                                                 "ReduceL1",
                                                                 "ReduceL2",
                                                                 "ReduceMax",
                                                                 "ReduceMean",
                                                                 "ReduceMin",
                                                                 "ReduceProd",
                                                                 "ReduceSum",
                                                                 "ReduceSumSquare",
                                                                 "Reshape",
                                                                 "ScatterElements",
                                                                 "ScatterND",
                                                                 "Slice",
                                                                 "Split",
                                                                 "Squeeze",
                                                                 "Sub",
                                                                 "Sum",
                                                                 "Tile",
                                                                 "Transpose",
                                                                 "Trilu",
                                                                 "Unsqueeze",
                                                                 "Where"};
  return ir::is_one_of(operators, node);
}

// Whether one of the inputs is a constant so large that the error is negligible beside it.
bool has_large_constant(const ir::Node& node) {
  return std::ranges::any_of(node.inputs, [](const ir::Value* input) {
    const auto number = input && input->weight ? tensor::number_of(*input->weight) : std::nullopt;
    return number && std::abs(*number) > 1e-3;
  });
}

// Whether the relative error of `value`, an input of the node, matters to the result.
bool magnifies(const ir::Node& node, const ir::Value* value) {
  static constexpr std::array<std::string_view, 9> always = {
      "ArgMax", "ArgMin", "Log", "NonZero", "Reciprocal", "ReduceLogSum", "Sign", "Sqrt", "TopK"};
  static constexpr std::array<std::string_view, 5> comparisons = {"Equal", "Greater", "GreaterOrEqual",
                                                                  "Less", "LessOrEqual"};
  if (!ir::is_standard(node) || ir::is_one_of(always, node)) return true;
  if (node.op == "Div") return node.inputs[1] == value;
  if (ir::is_one_of(comparisons, node)) return !has_large_constant(node);
  if (node.op == "Pow") {
    const ir::Value* exponent = node.inputs[1];
    const auto number = exponent->weight ? tensor::number_of(*exponent->weight) : std::nullopt;
    return node.inputs[0] == value && !(number && *number >= 1);
  }
  return node.op == "Cast" && node.outputs[0]->tensor_type().element_type == ElementType::boolean;
}

// The least float16 is greater than the error, and bfloat16 is computed in float32 by now.
bool is_inexact(const ir::Node& node) {
  if (node.op != "Sigmoid") return false;
  const ElementType type = node.outputs[0]->tensor_type().element_type;
  return type == ElementType::float32 || type == ElementType::float64;
}

class SmallResults {
 public:
  explicit SmallResults(ir::Graph& root) {
    for (const ir::Graph* graph : ir::all_graphs(root)) {
      readers_.add(*graph);
      if (graph != &root) body_results_.insert(graph->outputs.begin(), graph->outputs.end());
    }
  }

  // Whether a later node may depend on the relative error of a small `value`. Values are not followed through
  // control flow: for those that go there, the answer is true.
  bool matter(const ir::Value* value) const {
    std::vector<const ir::Value*> open{value};
    std::unordered_set<const ir::Value*> seen;
    while (!open.empty()) {
      const ir::Value* next = open.back();
      open.pop_back();
      if (!seen.insert(next).second) continue;
      if (body_results_.contains(next)) return true;
      for (const ir::Node* user : readers_.of(next)) {
        if (magnifies(*user, next) || !user->bodies().empty()) return true;
        const bool is_sum = user->op == "Add" || user->op == "Sub";
        if (!keeps_magnitude(*user) || (is_sum && has_large_constant(*user))) continue;
        open.insert(open.end(), user->outputs.begin(), user->outputs.end());
      }
    }
    return false;
  }

 private:
  ir::Readers readers_;
  std::unordered_set<const ir::Value*> body_results_;
};

ir::Value* add(ir::Rewriter& rewriter, const char* op, std::vector<ir::Value*> inputs,
               const ir::Node& anchor) {
  const ir::Value* result = anchor.outputs[0];
  return rewriter.add_result(rewriter.add(anchor, op, std::move(inputs)), result->name + ":" + op,
                             result->type);
}

void make_reciprocal(ir::Rewriter& rewriter, ir::Node& sigmoid) {
  const ir::Value* result = sigmoid.outputs[0];
  ir::Value* one = rewriter.add_constant(result->name + ":one",
                                         tensor::scalar_weight(1.0, result->tensor_type().element_type));
  ir::Value* power = add(rewriter, "Exp", {add(rewriter, "Neg", {sigmoid.inputs[0]}, sigmoid)}, sigmoid);
  sigmoid.inputs = {add(rewriter, "Add", {power, one}, sigmoid)};
  sigmoid.op = "Reciprocal";
}

}  // namespace

void compute_small_sigmoids(ir::Graph& graph, ir::Names& names) {
  const SmallResults small(graph);
  ir::rewrite_nodes(graph, names, [&](ir::Rewriter& rewriter, ir::Node& node) {
    if (is_inexact(node) && small.matter(node.outputs[0])) make_reciprocal(rewriter, node);
    rewriter.append(node);
  });
}

}  // namespace opbridge::onnxruntime
