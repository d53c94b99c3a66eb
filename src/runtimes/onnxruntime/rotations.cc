// Versions: 1.20, 1.31 and 1.32.
// Model: y = MatMul(Cast(Transpose(x, perm=[1, 0, 2])), w), with x of int32 and w a constant of float32.
// Fault: the process crashes while it loads the model, for a perm that moves the first axis after the other
// batch axes: [1, 0, 2], [1, 2, 0], [1, 2, 0, 3], …. The runtime itself inserts such a Cast between a
// Transpose and a float16 MatMul by a constant.
// Rewrite: the Cast comes before the Transpose; that MatMul of float16 is computed in float32.
// Tests: test_runtime_faults.py, and test_casts_come_before_rotations.
#include <algorithm>
#include <unordered_set>

#include "ir/dead_code.h"
#include "ir/queries.h"
#include "ir/rewriter.h"
#include "runtimes/onnxruntime/faults.h"

namespace opbridge::onnxruntime {
namespace {

bool rotates(const std::vector<int64_t>& perm) {
  const auto rank = static_cast<int64_t>(perm.size());
  if (rank < 3) return false;
  for (int64_t i = 0; i + 2 < rank; ++i) {
    if (perm[i] != i + 1) return false;
  }
  return perm[rank - 2] == 0 || perm[rank - 1] == 0;
}

// The Transpose with such a permutation that makes the value; null if there is none.
const ir::Node* rotation(const ir::Value* value) {
  const ir::Node* node = value->producer;
  if (!node || node->op != "Transpose") return nullptr;
  const auto* perm = node->find("perm");
  return perm && rotates(std::get<std::vector<int64_t>>(*perm)) ? node : nullptr;
}

// The values of the graph and its bodies that the runtime folds to constants.
std::unordered_set<const ir::Value*> constants_of(ir::Graph& graph) {
  std::unordered_set<const ir::Value*> constants;
  const auto is_constant = [&](const ir::Value* value) {
    return !value || value->weight || constants.contains(value);
  };
  for (const ir::Graph* each : ir::all_graphs(graph)) {
    for (const ir::Node* node : each->nodes) {
      if (!node->inputs.empty() && node->bodies().empty() && std::ranges::all_of(node->inputs, is_constant))
        constants.insert(node->outputs.begin(), node->outputs.end());
    }
    constants.insert(each->initializers.begin(), each->initializers.end());
  }
  return constants;
}

ir::Value* made(ir::Rewriter& rewriter, const char* op, std::vector<ir::Value*> inputs,
                std::vector<ir::Attribute> attributes, const ir::Node& anchor) {
  ir::Node* node = rewriter.add(anchor, op, std::move(inputs), std::move(attributes));
  return rewriter.add_result(node, anchor.outputs[0]->name + ":" + op, {});
}

ir::Value* typed(ir::Value* value, const ir::Value* like, ElementType type = ElementType::float32) {
  value->type = ir::TensorType{type, like->tensor_type().dims};
  return value;
}

void become(ir::Node& node, const char* op, ir::Value* input, const std::vector<ir::Attribute>& attributes) {
  node.op = op;
  node.inputs = {input};
  node.attributes = attributes;
}

// Cast(Transpose(x)) becomes Transpose(Cast(x)); `node`, the Cast, becomes the Transpose.
void cast_first(ir::Rewriter& rewriter, ir::Node& node, const ir::Node& turned) {
  const ElementType type = node.outputs[0]->tensor_type().element_type;
  ir::Value* cast =
      typed(made(rewriter, "Cast", {turned.inputs[0]}, node.attributes, node), turned.inputs[0], type);
  become(node, "Transpose", cast, turned.attributes);
}

// Computes a float16 MatMul in float32, as the runtime would, but with the Cast before the Transpose.
void multiply_in_float32(ir::Rewriter& rewriter, ir::Node& node, const ir::Node& turned) {
  const auto to = [](ElementType type) {
    return std::vector<ir::Attribute>{{"to", static_cast<int64_t>(type)}};
  };
  const std::vector<ir::Attribute> wide = to(ElementType::float32);
  ir::Value* x = typed(made(rewriter, "Cast", {turned.inputs[0]}, wide, node), turned.inputs[0]);
  x = typed(made(rewriter, "Transpose", {x}, turned.attributes, node), node.inputs[0]);
  ir::Value* matrix = typed(made(rewriter, "Cast", {node.inputs[1]}, wide, node), node.inputs[1]);
  ir::Value* product = typed(made(rewriter, "MatMul", {x, matrix}, {}, node), node.outputs[0]);
  become(node, "Cast", product, to(ElementType::float16));
}

std::unordered_set<const ir::Value*> factors_of(const ir::Graph& graph) {
  std::unordered_set<const ir::Value*> factors;
  for (const ir::Node* node : graph.nodes) {
    if (node->op == "MatMul") factors.insert(node->inputs.begin(), node->inputs.end());
  }
  return factors;
}

}  // namespace

void cast_before_rotations(ir::Graph& graph, ir::Names& names) {
  const std::unordered_set<const ir::Value*> constants = constants_of(graph);
  bool changed = false;
  for (ir::Graph* each : ir::all_graphs(graph)) {
    const std::unordered_set<const ir::Value*> factors = factors_of(*each);
    ir::Rewriter rewriter(graph, *each, names);
    changed |= rewriter.run([&](ir::Node& node) {
      if (node.op == "Cast" && factors.contains(node.outputs[0])) {
        if (const ir::Node* turned = rotation(node.inputs[0])) cast_first(rewriter, node, *turned);
      } else if (node.op == "MatMul" && ir::element_type(node.outputs[0]) == ElementType::float16 &&
                 constants.contains(node.inputs[1])) {
        if (const ir::Node* turned = rotation(node.inputs[0])) multiply_in_float32(rewriter, node, *turned);
      }
      rewriter.append(node);
    });
  }
  if (changed) ir::remove_dead_code(graph);
}

}  // namespace opbridge::onnxruntime
