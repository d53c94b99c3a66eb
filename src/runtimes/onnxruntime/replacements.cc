#include "runtimes/onnxruntime/replacements.h"

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "builder/stage.h"
#include "ir/dead_code.h"
#include "ir/uses.h"
#include "runtimes/onnxruntime/faults.h"

namespace opbridge::onnxruntime {
namespace {

// A replacement of a node with one result.
template <Value (*make)(GraphBuilder&, const ir::Node&)>
std::vector<Value> only(GraphBuilder& g, const ir::Node& node) {
  const Value made = make(g, node);
  return made ? std::vector{made} : std::vector<Value>();
}

constexpr std::pair<std::string_view, Replacement> replacements[] = {
    {"Attention", only<attention_of_bfloat16>},
    {"AveragePool", only<float64_mean_of_windows>},
    {"Clip", only<clip_by_max_and_min>},
    {"Conv", only<float64_convolution>},
    {"ConvTranspose", only<transposed_convolution>},
    {"ConvTranspose", only<float64_convolution>},
    {"DequantizeLinear", only<dequantized_by_arithmetic>},
    {"Div", only<scaled_product>},
    {"Div", only<division_by_no_number>},
    {"Dropout", random_numbers},
    {"Einsum", only<einsum_of_adjacent_letters>},
    {"Einsum", only<exact_einsum_of_integers>},
    {"Expand", only<expansion_to_nothing>},
    {"GRU", recurrent_layer_without_state},
    {"GRU", float64_recurrent_layer},
    {"GRU", recurrent_layer_of_any_size},
    {"GlobalAveragePool", only<float64_mean_of_image>},
    {"GridSample", only<sample_near_image>},
    {"LSTM", recurrent_layer_without_state},
    {"LSTM", float64_recurrent_layer},
    {"LSTM", recurrent_layer_of_any_size},
    {"LogSoftmax", only<log_softmax_of_float64>},
    {"MatMul", only<product_of_scaled>},
    {"MatMul", only<product_by_column>},
    {"MaxPool", only<dequantized_after_movement>},
    {"MaxPool", pool_with_indices_in_float32},
    {"Mod", only<exact_remainder_of_integers>},
    {"Mod", only<division_by_no_number>},
    {"Mul", only<normalized_by_number>},
    {"Mul", only<scaled_product>},
    {"Pow", only<square_not_to_fuse>},
    {"QuantizeLinear", only<quantized_by_arithmetic>},
    {"RNN", float64_recurrent_layer},
    {"RandomNormal", random_numbers},
    {"RandomNormalLike", random_numbers},
    {"RandomUniform", random_numbers},
    {"RandomUniformLike", random_numbers},
    {"Range", only<range_from_zero>},
    {"ReduceL1", only<long_reduction_in_float64>},
    {"ReduceL2", only<long_reduction_in_float64>},
    {"ReduceLogSumExp", only<log_of_sum_in_parts>},
    {"ReduceMean", only<long_reduction_in_float64>},
    {"ReduceProd", only<exact_product_of_integers>},
    {"ReduceSum", only<exact_sum_of_integers>},
    {"ReduceSum", only<long_reduction_in_float64>},
    {"ReduceSumSquare", only<long_reduction_in_float64>},
    {"Reshape", only<dequantized_after_movement>},
    {"RoiAlign", only<own_roi_align>},
    {"Scan", scan_along_first_axis},
    {"ScatterND", only<scattered_by_one_thread>},
    {"Slice", only<dequantized_after_movement>},
    {"Squeeze", only<dequantized_after_movement>},
    {"Transpose", only<dequantized_after_movement>},
    {"Unsqueeze", only<dequantized_after_movement>},
};

bool has_replacement(const ir::Node& node) {
  return !node.source.by_user &&
         std::ranges::any_of(replacements, [&](const auto& each) { return each.first == node.op; });
}

class Replacing {
 public:
  Replacing(ir::Graph& root, int opset, const runtimes::Refuse& refuse) : g_(root, opset), refuse_(refuse) {
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
        // A value may have the name that the builder would derive from the name of a node.
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

  void visit(GraphBuilder& g, ir::Graph& graph) {
    if (!visited_.insert(&graph).second) return;
    const std::vector<ir::Node*> before = std::exchange(graph.nodes, {});
    bind_sizes(g, graph.inputs);
    for (ir::Node* node : before) append(g, graph, *node);
  }

  // Appends the node, or those that replace it, after the nodes that compute sizes for its bodies.
  void append(GraphBuilder& g, ir::Graph& graph, ir::Node& node) {
    for (const ir::GraphPtr& body : node.bodies()) {
      GraphBuilder inner = BuilderStage(g).inside(*body);
      visit(inner, *body);
    }
    if (!replace(g, graph, node)) graph.nodes.push_back(&node);
    bind_sizes(g, node.outputs);
  }

  static void bind_sizes(GraphBuilder& g, const std::vector<ir::Value*>& values) {
    for (ir::Value* value : values) {
      const auto* type = std::get_if<ir::TensorType>(&value->type);
      if (type && type->dims && !type->is_static()) g.bind_dims(value);
    }
  }

  // Returns whether it replaced the node.
  bool replace(GraphBuilder& g, ir::Graph& graph, const ir::Node& node) {
    if (!has_replacement(node) || std::ranges::find(being_replaced_, node.op) != being_replaced_.end())
      return false;
    const size_t first = graph.nodes.size();
    const std::vector<Value> made = replacement_of(g, node);
    if (made.empty()) return false;
    put_in_place(g, graph, first, made, node.outputs);
    changed_ = true;

    // The new nodes may need replacements too, but none of the same operator.
    const std::vector<ir::Node*> added(graph.nodes.begin() + static_cast<std::ptrdiff_t>(first),
                                       graph.nodes.end());
    graph.nodes.resize(first);
    being_replaced_.push_back(node.op);
    for (ir::Node* each : added) append(g, graph, *each);
    being_replaced_.pop_back();
    return true;
  }

  std::vector<Value> replacement_of(GraphBuilder& g, const ir::Node& node) {
    ir::Node call;
    call.op = node.source.op.empty() ? node.op : node.source.op;
    call.source = node.source;
    call.outputs = node.outputs;
    BuilderStage(g).set_call(&call, call.op, true);
    std::vector<Value> made;
    try {
      for (const auto& [op, make] : replacements) {
        if (op == node.op && made.empty()) made = make(g, node);
      }
    } catch (const Error& error) {
      if (error.code() == ErrorCode::internal) throw;
      refuse_(node, error);
    }
    BuilderStage(g).set_call(nullptr, "");
    return made;
  }

  // The nodes that make `made` make `results` instead. Nodes from `first` on are new.
  static void put_in_place(GraphBuilder& g, ir::Graph& graph, size_t first, std::vector<Value> made,
                           const std::vector<ir::Value*>& results) {
    const auto added = [&] { return std::span(graph.nodes).subspan(first); };
    for (size_t i = 0; i < results.size(); ++i) {
      const bool is_old = std::ranges::find(added(), made[i].get()->producer) == added().end();
      const bool is_repeated = std::find(made.begin(), made.begin() + static_cast<std::ptrdiff_t>(i),
                                         made[i]) != made.begin() + static_cast<std::ptrdiff_t>(i);
      if (is_old || is_repeated) made[i] = g.op("Identity", made[i]);
    }
    for (size_t i = 0; i < results.size(); ++i) {
      ir::Node* producer = made[i].get()->producer;
      std::ranges::replace(producer->outputs, made[i].get(), results[i]);
      results[i]->producer = producer;
      for (ir::Node* node : added()) std::ranges::replace(node->inputs, made[i].get(), results[i]);
    }
  }

  GraphBuilder g_;
  const runtimes::Refuse& refuse_;
  std::unordered_set<const ir::Graph*> visited_;
  std::unordered_set<const Expr*> seen_dims_;
  std::vector<std::string> being_replaced_;  // the operators whose replacements are being appended
  bool changed_ = false;
};

}  // namespace

void add_attributes(std::vector<Operand>& operands, const ir::Node& node,
                    std::initializer_list<std::string_view> except) {
  for (const ir::Attribute& attribute : node.attributes) {
    if (std::ranges::find(except, attribute.name) == except.end())
      operands.push_back(Attr{attribute.name, attribute.value});
  }
}

void replace_nodes(ir::Graph& graph, int opset, const runtimes::Refuse& refuse) {
  bool is_needed = false;
  for (const ir::Graph* each : ir::all_graphs(graph)) {
    is_needed |=
        std::ranges::any_of(each->nodes, [](const ir::Node* node) { return has_replacement(*node); });
  }
  if (is_needed && Replacing(graph, opset, refuse).run(graph)) ir::remove_dead_code(graph);
}

}  // namespace opbridge::onnxruntime
