#include "runtimes/onnxruntime/replacements.h"

#include <algorithm>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "builder/stage.h"
#include "ir/dead_code.h"
#include "ir/uses.h"
#include "runtimes/onnxruntime/faults.h"

namespace opbridge::onnxruntime {
namespace {

constexpr std::pair<std::string_view, Replacement> replacements[] = {
    {"Clip", one_bound},
    {"Einsum", exact_einsum_of_integers},
    {"LogSoftmax", log_softmax_of_float64},
    {"MatMul", product_by_column},
    {"ReduceL1", long_reduction_in_float64},
    {"ReduceL2", long_reduction_in_float64},
    {"ReduceLogSumExp", log_of_sum_in_parts},
    {"ReduceMean", long_reduction_in_float64},
    {"ReduceProd", exact_product_of_integers},
    {"ReduceSum", exact_sum_of_integers},
    {"ReduceSum", long_reduction_in_float64},
    {"ReduceSumSquare", long_reduction_in_float64},
    {"ScatterND", scattered_by_one_thread},
};

bool may_be_replaced(const ir::Node& node) {
  return !node.source.by_user &&
         std::ranges::any_of(replacements, [&](const auto& each) { return each.first == node.op; });
}

class Replacing {
 public:
  Replacing(ir::Graph& root, int opset, const Refuse& refuse) : g_(root, opset), refuse_(refuse) {
    for (const ir::Graph* graph : ir::all_graphs(root)) reserve_names(*graph);
  }

  bool run(ir::Graph& root) {
    visit(g_, root);
    return changed_;
  }

 private:
  void reserve_names(const ir::Graph& graph) {
    const BuilderStage stage(g_);
    const auto reserve = [&](const std::vector<ir::Value*>& values) {
      for (const ir::Value* value : values) {
        // A value may have the name that the builder would make from that of a node.
        stage.reserve_name(value->name.substr(0, value->name.rfind(":out")));
        stage.reserve_name(value->name);
        for (const std::string& symbol : new_symbols_of(*value)) stage.reserve_symbol(symbol);
      }
    };
    reserve(graph.inputs);
    reserve(graph.initializers);
    for (const ir::Node* node : graph.nodes) {
      stage.reserve_name(node->name);
      reserve(node->outputs);
    }
  }

  // The symbols of the value's dims that were not seen before.
  std::vector<std::string> new_symbols_of(const ir::Value& value) {
    std::vector<std::string> symbols;
    const auto* type = std::get_if<ir::TensorType>(&value.type);
    if (!type || !type->dims) return symbols;
    for (const Dim& dim : *type->dims) {
      if (dim.is_static() || !seen_dims_.insert(dim.expr().get()).second) continue;
      for (const std::string& symbol : dim.symbols()) symbols.push_back(symbol);
    }
    return symbols;
  }

  // A node is appended after those of its bodies, so that sizes which a body needs are computed before it.
  void visit(GraphBuilder& g, ir::Graph& graph) {
    if (!visited_.insert(&graph).second) return;
    const std::vector<ir::Node*> before = std::exchange(graph.nodes, {});
    bind_sizes(g, graph.inputs);
    for (ir::Node* node : before) {
      for (const ir::GraphPtr& body : node->bodies()) {
        GraphBuilder inner = BuilderStage(g).inside(*body);
        visit(inner, *body);
      }
      if (!may_be_replaced(*node) || !replace(g, graph, *node)) graph.nodes.push_back(node);
      bind_sizes(g, node->outputs);
    }
  }

  static void bind_sizes(GraphBuilder& g, const std::vector<ir::Value*>& values) {
    for (ir::Value* value : values) {
      const auto* type = std::get_if<ir::TensorType>(&value->type);
      if (type && type->dims && !type->is_static()) g.bind_dims(value);
    }
  }

  // Whether it did.
  bool replace(GraphBuilder& g, ir::Graph& graph, const ir::Node& node) {
    ir::Node call;
    call.op = node.source.op.empty() ? node.op : node.source.op;
    call.source = node.source;
    call.outputs = node.outputs;
    BuilderStage(g).set_call(&call, call.op, true);
    const size_t first = graph.nodes.size();
    Value made;
    try {
      for (const auto& [op, make] : replacements) {
        if (op == node.op && (made = make(g, node))) break;
      }
    } catch (const Error& error) {
      if (error.code() == ErrorCode::internal) throw;
      refuse_(node, error);
    }
    if (made) put_in_place(g, graph, first, made, *node.outputs[0]);
    BuilderStage(g).set_call(nullptr, "");
    changed_ |= bool(made);
    return bool(made);
  }

  // The node that makes `made` makes `result` instead. Nodes from `first` on are new.
  static void put_in_place(GraphBuilder& g, ir::Graph& graph, size_t first, Value made, ir::Value& result) {
    const auto begin = graph.nodes.begin() + static_cast<std::ptrdiff_t>(first);
    if (std::find(begin, graph.nodes.end(), made.get()->producer) == graph.nodes.end())
      made = g.op("Identity", made);
    ir::Node* producer = made.get()->producer;
    std::ranges::replace(producer->outputs, made.get(), &result);
    result.producer = producer;
  }

  GraphBuilder g_;
  const Refuse& refuse_;
  std::unordered_set<const ir::Graph*> visited_;
  std::unordered_set<const Expr*> seen_dims_;
  bool changed_ = false;
};

}  // namespace

bool replace_nodes(ir::Graph& graph, int opset, const Refuse& refuse) {
  bool is_needed = false;
  for (const ir::Graph* each : ir::all_graphs(graph)) {
    is_needed |=
        std::ranges::any_of(each->nodes, [](const ir::Node* node) { return may_be_replaced(*node); });
  }
  return is_needed && Replacing(graph, opset, refuse).run(graph) && ir::remove_dead_code(graph);
}

}  // namespace opbridge::onnxruntime
