#include "functionalize/dead_code.h"

#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "functionalize/subgraphs.h"

namespace opbridge::functionalization {
namespace {

using VisitSymbol = std::function<void(std::string_view)>;

void for_each_symbol(const Expr& expr, const VisitSymbol& visit) {
  if (expr.kind == Expr::Kind::symbol) visit(expr.name);
  for (const ExprPtr& operand : expr.operands) for_each_symbol(*operand, visit);
}

void for_each_symbol(const Dim& dim, const VisitSymbol& visit) {
  if (!dim.is_static()) for_each_symbol(*dim.expr(), visit);
}

void for_each_symbol(const ir::Value& value, const VisitSymbol& visit) {
  if (const auto* scalar = std::get_if<ir::ScalarType>(&value.type)) for_each_symbol(scalar->value, visit);
  if (const auto* tensor = std::get_if<ir::TensorType>(&value.type); tensor != nullptr && tensor->ranked()) {
    for (const Dim& dim : *tensor->dims) for_each_symbol(dim, visit);
  }
}

// The symbols in the arguments and results of a node and of its subgraphs.
void for_each_symbol(const ir::Node& node, const VisitSymbol& visit) {
  for (const ir::Attribute& attribute : node.attributes) {
    if (const auto* dim = std::get_if<Dim>(&attribute.value)) for_each_symbol(*dim, visit);
    if (const auto* dims = std::get_if<std::vector<Dim>>(&attribute.value)) {
      for (const Dim& each : *dims) for_each_symbol(each, visit);
    }
  }
  for (const ir::GraphPtr& body : node.bodies()) {
    for (const ir::Node* inner : body->nodes) for_each_symbol(*inner, visit);
  }
  for (const ir::Value* output : node.outputs) for_each_symbol(*output, visit);
}

// The nodes whose results first show a size that no graph input shows: `nonzero`, `item`. Other nodes may use
// such a size without using the result.
std::unordered_map<std::string_view, ir::Node*> makers_of_symbols(const ir::Graph& graph) {
  std::unordered_map<std::string_view, ir::Node*> makers;
  std::unordered_set<std::string_view> from_inputs;
  for (const ir::Value* input : graph.inputs) {
    for_each_symbol(*input, [&](std::string_view symbol) { from_inputs.insert(symbol); });
  }
  for (ir::Node* node : graph.nodes) {
    for (const ir::Value* output : node->outputs) {
      for_each_symbol(*output, [&](std::string_view symbol) {
        if (!from_inputs.contains(symbol)) makers.try_emplace(symbol, node);
      });
    }
  }
  return makers;
}

}  // namespace

void drop_dead_nodes(ir::Graph& graph) {
  const std::unordered_map<std::string_view, ir::Node*> makers = makers_of_symbols(graph);
  std::unordered_set<const ir::Node*> live;
  live.reserve(graph.nodes.size());
  const std::function<void(ir::Value*&)> need = [&](ir::Value*& value) {
    if (value->producer != nullptr) live.insert(value->producer);
  };
  const VisitSymbol need_symbol = [&](std::string_view symbol) {
    if (const auto maker = makers.find(symbol); maker != makers.end()) live.insert(maker->second);
  };
  for (ir::Value*& output : graph.outputs) {
    need(output);
    if (!makers.empty()) for_each_symbol(*output, need_symbol);
  }
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    ir::Node& node = *graph.nodes[i];
    if (!live.contains(&node)) continue;
    node.for_each_use(need);
    for_each_use_in_subgraphs(node, need);
    if (!makers.empty()) for_each_symbol(node, need_symbol);
  }
  std::erase_if(graph.nodes, [&](const ir::Node* node) { return !live.contains(node); });
}

}  // namespace opbridge::functionalization
