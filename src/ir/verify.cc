#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "ir/complete.h"
#include "opbridge/ir.h"

namespace opbridge::ir {
namespace {

// Walks a graph in execution order and tracks the values made so far. A subgraph sees the values of the
// graphs around it; its own values go out of scope after it.
class Verifier {
 public:
  void check(const Graph& graph) {
    graph_ = &graph;
    for (const Value* input : graph.inputs) define_source(input, "input");
    for (const Value* initializer : graph.initializers) {
      define_source(initializer, "initializer");
      check_weight(*initializer->weight, "initializer %" + initializer->name);
    }
    for (Node* node : graph.nodes) {
      if (node == nullptr) fail("a node is null");
      check_node(*node);
    }
    for (const Value* output : graph.outputs) check_use(output, "the graph's outputs");
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorCode::internal, fmt::format("graph {} is malformed: {}", graph_->name, what));
  }

  static std::string label(const Node& node) {
    std::string text = "node " + node.op;
    if (!node.name.empty()) text += " (" + node.name + ")";
    return text;
  }

  void define(const Value* value, const std::string& where) {
    if (value == nullptr) fail(where + " makes a null value");
    if (!visible_.insert(value).second) fail(fmt::format("%{} is made twice, by {}", value->name, where));
    made_.push_back(value);
  }

  void define_source(const Value* value, const char* role) {
    define(value, fmt::format("the graph's {}s", role));
    if (value->producer != nullptr) {
      fail(fmt::format("{} %{} is also the output of {}", role, value->name, label(*value->producer)));
    }
    if ((value->weight != nullptr) != (std::string_view(role) == "initializer")) {
      fail(fmt::format("{} %{} {}", role, value->name,
                       value->weight == nullptr ? "has no weight" : "has a weight"));
    }
  }

  void check_weight(const Weight& weight, const std::string& where) const {
    if (is_complete(weight)) return;
    fail(fmt::format("{} is {}[{}] but holds {} bytes", where, opbridge::name(weight.element_type),
                     fmt::join(weight.dims, ", "), weight.bytes.size()));
  }

  void check_attribute(const Attribute& attribute, const Node& node) const {
    const auto check = [&](const std::shared_ptr<const Weight>& weight) {
      if (weight != nullptr) check_weight(*weight, fmt::format("{} of {}", attribute.name, label(node)));
    };
    using Weights = std::vector<std::shared_ptr<const Weight>>;
    if (const auto* weight = std::get_if<std::shared_ptr<const Weight>>(&attribute.value)) check(*weight);
    if (const auto* weights = std::get_if<Weights>(&attribute.value)) std::ranges::for_each(*weights, check);
  }

  void check_use(const Value* value, const std::string& where) const {
    if (value == nullptr) fail(where + " hold a null value");
    if (!visible_.contains(value))
      fail(fmt::format("%{} is used by {} before it is made", value->name, where));
  }

  void check_node(Node& node) {
    if (node.op.empty()) fail("node " + node.name + " has no operator");
    if (!nodes_.insert(&node).second) fail(label(node) + " is in the graph twice");
    node.for_each_use([&](Value*& value) { check_use(value, label(node)); });
    for (const Attribute& attribute : node.attributes) check_attribute(attribute, node);
    for (const GraphPtr& body : node.bodies()) check_body(body, node);
    for (const Value* output : node.outputs) {
      define(output, label(node));
      if (output->producer != &node) {
        fail(fmt::format("%{} is an output of {}, which it does not name as its producer", output->name,
                         label(node)));
      }
    }
  }

  void check_body(const GraphPtr& body, const Node& node) {
    if (body == nullptr) fail(label(node) + " has a null subgraph");
    const Graph* outer = graph_;
    const size_t before = made_.size();
    check(*body);
    while (made_.size() > before) {
      visible_.erase(made_.back());
      made_.pop_back();
    }
    graph_ = outer;
  }

  const Graph* graph_ = nullptr;
  std::unordered_set<const Value*> visible_;
  std::vector<const Value*> made_;  // the visible values in order
  std::unordered_set<const Node*> nodes_;
};

}  // namespace

void verify(const Graph& graph) { Verifier().check(graph); }

}  // namespace opbridge::ir
