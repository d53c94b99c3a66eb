// Where ONNX Runtime 1.31 sees a scalar scale the operand or the result of a MatMul, it makes it an attribute
// of the product: a float32, among float64 as well. A vector it leaves as it is.
#include <algorithm>
#include <optional>
#include <unordered_map>
#include <vector>

#include "simplify/passes.h"
#include "simplify/uses.h"

namespace opbridge {
namespace {

// The dim along which the other operand is scaled by a constant of one element; null where there is none.
const Dim* scaled_dim(const ir::Node& node, size_t constant) {
  const ir::Value *scale = node.inputs[constant], *other = node.inputs[1 - constant];
  if (!scale->weight || scale->weight->element_type != ElementType::float64 ||
      scale->weight->element_count() != 1 || other->weight)
    return nullptr;
  const auto* type = std::get_if<ir::TensorType>(&other->type);
  const bool known = type && type->dims && type->dims->size() >= scale->weight->dims.size();
  return known && !type->dims->empty() ? &type->dims->back() : nullptr;
}

}  // namespace

bool spread_float64_scales(ir::Graph& graph) {
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
  std::optional<Names> names;
  bool changed = false;
  for (ir::Node* node : graph.nodes) {
    if (node->op != "Mul" && node->op != "Div") continue;
    for (const size_t constant : {size_t{0}, size_t{1}}) {
      const Dim* dim = scaled_dim(*node, constant);
      if (!dim || !dim->is_static() || dim->value() < 2) continue;
      if (!comes_from_product(node->inputs[1 - constant]) && !goes_to_product(node->outputs[0])) continue;
      const std::vector<double> spread(static_cast<size_t>(dim->value()),
                                       node->inputs[constant]->weight->as<double>()[0]);
      if (!names) names.emplace(graph);
      node->inputs[constant] = graph.add_initializer(names->unused(node->outputs[0]->name + ":scale"),
                                                     ir::Weight::of<double>(spread, {dim->value()}));
      changed = true;
    }
  }
  return changed;
}

}  // namespace opbridge
