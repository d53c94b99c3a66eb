// Versions: 1.31; later ones were not examined.
// Model: a MatMul of float64 with an operand or a result that is multiplied by a scalar constant. Not every
// such model shows the fault: a MatMul of a scaled and an unscaled input does not in 1.20.1 and 1.32.0.
// Fault: the runtime fuses the scalar into the MatMul as a float32 attribute, which loses precision.
// Rewrite: the scalar is expanded to a vector as long as the last axis, which the runtime does not fuse.
// Test: test_scaled_products_of_float64_keep_their_precision.
#include <algorithm>
#include <string>
#include <unordered_map>
#include <vector>

#include "ir/dead_code.h"
#include "ir/uses.h"
#include "runtimes/onnxruntime/faults.h"

namespace opbridge::onnxruntime {
namespace {

// A Mul or Div of a tensor whose last dim is `size` by a scalar, its input `constant`.
struct Scaling {
  ir::Node* node;
  size_t constant;
  int64_t size;
};

constexpr int64_t most_spread = int64_t{1} << 24;

std::vector<Scaling> scalings_of(const ir::Graph& graph) {
  std::vector<Scaling> found;
  for (ir::Node* node : graph.nodes) {
    if (node->op != "Mul" && node->op != "Div") continue;
    for (const size_t constant : {size_t{0}, size_t{1}}) {
      const ir::Value *scale = node->inputs[constant], *other = node->inputs[1 - constant];
      const auto* type = std::get_if<ir::TensorType>(&other->type);
      if (!scale->weight || scale->weight->element_type != ElementType::float64 ||
          scale->weight->element_count() != 1 || other->weight || !type || !type->dims || type->dims->empty())
        continue;
      const Dim& last = type->dims->back();
      const bool keeps_rank = scale->weight->dims.size() <= type->dims->size();
      if (keeps_rank && last.is_static() && last.value() > 1) found.push_back({node, constant, last.value()});
    }
  }
  return found;
}

bool spread(ir::Graph& graph, ir::Names& names) {
  const std::vector<Scaling> scalings = scalings_of(graph);
  if (scalings.empty()) return false;
  std::unordered_map<const ir::Value*, std::vector<const ir::Node*>> users;
  for (const ir::Node* node : graph.nodes) {
    for (const ir::Value* input : node->inputs) users[input].push_back(node);
  }
  const auto is_product = [](const ir::Node* node) { return node && node->op == "MatMul"; };
  const auto comes_from_product = [&](const ir::Value* value) {
    const ir::Node* producer = value->producer;
    if (producer && producer->op == "Transpose") producer = producer->inputs[0]->producer;
    return is_product(producer);
  };
  const auto goes_to_product = [&](const ir::Value* value) {
    return std::ranges::any_of(users[value], [&](const ir::Node* user) {
      return is_product(user) ||
             (user->op == "Transpose" && std::ranges::any_of(users[user->outputs[0]], is_product));
    });
  };
  bool changed = false;
  for (const auto& [node, constant, size] : scalings) {
    if (!comes_from_product(node->inputs[1 - constant]) && !goes_to_product(node->outputs[0])) continue;
    if (size > most_spread) {
      throw Error(
          ErrorCode::unsupported,
          "a product of float64 matrices is scaled by a number that ONNX Runtime would round to float32, and "
          "its rows of " +
              std::to_string(size) + " elements are too long to avoid this; convert to float32");
    }
    const double scale = node->inputs[constant]->weight->as<double>()[0];
    const std::vector<double> values(static_cast<size_t>(size), scale);
    node->inputs[constant] = graph.add_initializer(names.unused(node->outputs[0]->name + ":scale"),
                                                   ir::Weight::of<double>(values, {size}));
    changed = true;
  }
  return changed;
}

}  // namespace

bool spread_float64_scales(ir::Graph& graph, ir::Names& names) {
  bool changed = false;
  for (ir::Graph* each : ir::all_graphs(graph)) changed |= spread(*each, names);
  return changed && ir::remove_dead_code(graph);
}

}  // namespace opbridge::onnxruntime
