#include "functionalize/dead_code.h"

#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "functionalize/subgraphs.h"

namespace opbridge::functionalization {
namespace {

// Visits the symbols of sizes, each expression only once.
class Symbols {
 public:
  explicit Symbols(std::function<void(std::string_view)> visit) : visit_(std::move(visit)) {}

  void visit(const ir::Value& value) {
    if (const auto* scalar = std::get_if<ir::ScalarType>(&value.type)) visit(scalar->value);
    if (const auto* tensor = std::get_if<ir::TensorType>(&value.type);
        tensor != nullptr && tensor->ranked()) {
      for (const Dim& dim : *tensor->dims) visit(dim);
    }
  }

  // Visits the symbols in the arguments and results of a node and of its subgraphs.
  void visit(const ir::Node& node) {
    for (const ir::Attribute& attribute : node.attributes) {
      if (const auto* dim = std::get_if<Dim>(&attribute.value)) visit(*dim);
      if (const auto* dims = std::get_if<std::vector<Dim>>(&attribute.value)) {
        for (const Dim& each : *dims) visit(each);
      }
    }
    for (const ir::GraphPtr& body : node.bodies()) {
      for (const ir::Node* inner : body->nodes) visit(*inner);
    }
    for (const ir::Value* output : node.outputs) visit(*output);
  }

 private:
  void visit(const Dim& dim) {
    if (!dim.is_static() && seen_.insert(dim.expr().get()).second) visit(*dim.expr());
  }

  void visit(const Expr& expr) {
    if (expr.kind == Expr::Kind::symbol) visit_(expr.name);
    for (const ExprPtr& operand : expr.operands) visit(*operand);
  }

  std::function<void(std::string_view)> visit_;
  std::unordered_set<const Expr*> seen_;
};

// Maps each symbol that no graph input has to the node whose result has it first (`nonzero`, `item`). Other
// nodes may use such a symbol without using the result.
std::unordered_map<std::string_view, ir::Node*> makers_of_symbols(const ir::Graph& graph) {
  std::unordered_map<std::string_view, ir::Node*> makers;
  std::unordered_set<std::string_view> from_inputs;
  Symbols inputs([&](std::string_view symbol) { from_inputs.insert(symbol); });
  for (const ir::Value* input : graph.inputs) inputs.visit(*input);
  ir::Node* maker = nullptr;
  Symbols made([&](std::string_view symbol) {
    if (!from_inputs.contains(symbol)) makers.try_emplace(symbol, maker);
  });
  for (ir::Node* node : graph.nodes) {
    maker = node;
    for (const ir::Value* output : node->outputs) made.visit(*output);
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
  Symbols needed([&](std::string_view symbol) {
    if (const auto maker = makers.find(symbol); maker != makers.end()) live.insert(maker->second);
  });
  for (ir::Value*& output : graph.outputs) {
    need(output);
    if (!makers.empty()) needed.visit(*output);
  }
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    ir::Node& node = *graph.nodes[i];
    if (!live.contains(&node)) continue;
    node.for_each_use(need);
    for_each_use_in_subgraphs(node, need);
    if (!makers.empty()) needed.visit(node);
  }
  std::erase_if(graph.nodes, [&](const ir::Node* node) { return !live.contains(node); });
}

}  // namespace opbridge::functionalization
