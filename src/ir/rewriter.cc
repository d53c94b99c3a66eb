#include "ir/rewriter.h"

#include <utility>

namespace opbridge::ir {

bool Rewriter::run(const std::function<void(Node&)>& rewrite) {
  const std::vector<Node*> before = std::exchange(graph_.nodes, {});
  for (Node* node : before) rewrite(*node);
  return graph_.nodes != before;
}

Node* Rewriter::add(const Node& anchor, const std::string& op, std::vector<Value*> inputs,
                    std::vector<Attribute> attributes) {
  Node* node = graph_.add_node(op);
  node->name = names_.unused(anchor.name + "/" + op);
  node->inputs = std::move(inputs);
  node->attributes = std::move(attributes);
  node->source = anchor.source;
  return node;
}

void Rewriter::add_behind(Node& node, const std::string& op, const std::string& suffix,
                          std::vector<Value*> others) {
  Value* result = node.outputs[0];
  Value* inner = add_value(result->name + suffix, result->type);
  set_only_result(&node, inner);
  others.insert(others.begin(), inner);
  set_only_result(add(node, op, std::move(others)), result);
}

Value* Rewriter::add_value(const std::string& name, Type type) {
  return graph_.add_value(names_.unused(name), std::move(type));
}

Value* Rewriter::add_result(Node* node, const std::string& name, Type type) {
  return graph_.add_output_of(node, names_.unused(name), std::move(type));
}

Value* Rewriter::add_constant(const std::string& name, Weight weight) {
  return root_.add_initializer(names_.unused(name), std::move(weight));
}

Value* Rewriter::add_constant(const std::string& name, const std::vector<int64_t>& values) {
  return add_constant(name, Weight::of<int64_t>(values, {static_cast<int64_t>(values.size())}));
}

void set_only_result(Node* node, Value* result) {
  node->outputs = {result};
  result->producer = node;
}

bool rewrite_nodes(Graph& root, Names& names, const std::function<void(Rewriter&, Node&)>& rewrite) {
  bool changed = false;
  for (Graph* graph : all_graphs(root)) {
    Rewriter rewriter(root, *graph, names);
    changed |= rewriter.run([&](Node& node) { rewrite(rewriter, node); });
  }
  return changed;
}

}  // namespace opbridge::ir
