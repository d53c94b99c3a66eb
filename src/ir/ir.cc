#include "opbridge/ir.h"

#include <fmt/format.h>

#include <algorithm>

namespace opbridge::ir {

bool TensorType::is_static() const {
  return ranked() && std::all_of(dims->begin(), dims->end(), [](const Dim& dim) { return dim.is_static(); });
}

std::string TensorType::str() const {
  std::string text(opbridge::name(element_type));
  if (!ranked()) return text + "[...]";
  text += '[';
  for (const Dim& dim : *dims) {
    if (text.back() != '[') text += ", ";
    text += dim.str();
  }
  return text + ']';
}

int64_t Weight::element_count() const {
  int64_t count = 1;
  for (int64_t dim : dims) {
    if (dim < 0 || __builtin_mul_overflow(count, dim, &count)) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("no tensor has the dims [{}]", fmt::join(dims, ", ")));
    }
  }
  return count;
}

const TensorType& Value::tensor_type() const {
  if (const auto* tensor = std::get_if<TensorType>(&type)) return *tensor;
  throw Error(ErrorCode::internal, fmt::format("value %{} is a {} where a tensor is needed", name,
                                               std::holds_alternative<ListType>(type) ? "list" : "number"));
}

const AttributeValue* Node::find(std::string_view attribute) const {
  for (const Attribute& candidate : attributes) {
    if (candidate.name == attribute) return &candidate.value;
  }
  return nullptr;
}

void Node::set(std::string_view attribute, AttributeValue value) {
  for (Attribute& candidate : attributes) {
    if (candidate.name == attribute) {
      candidate.value = std::move(value);
      return;
    }
  }
  attributes.push_back({std::string(attribute), std::move(value)});
}

void Node::for_each_use(const std::function<void(Value*&)>& visit) {
  const auto visit_all = [&](std::vector<Value*>& values) {
    for (Value*& value : values) {
      if (value != nullptr) visit(value);
    }
  };
  visit_all(inputs);
  for (Attribute& attribute : attributes) {
    if (auto* value = std::get_if<Value*>(&attribute.value); value != nullptr && *value != nullptr) {
      visit(*value);
    } else if (auto* values = std::get_if<std::vector<Value*>>(&attribute.value)) {
      visit_all(*values);
    }
  }
}

Value* Graph::add_value(std::string name, Type type) {
  Value& value = values_.emplace_back();
  value.name = std::move(name);
  value.type = std::move(type);
  return &value;
}

Value* Graph::add_input(std::string name, Type type) {
  return inputs.emplace_back(add_value(std::move(name), std::move(type)));
}

Value* Graph::add_initializer(std::string name, Weight weight) {
  const Weight& stored = weights_.emplace_back(std::move(weight));
  TensorType type{stored.element_type, std::vector<Dim>(stored.dims.begin(), stored.dims.end())};
  Value* value = add_value(std::move(name), std::move(type));
  value->weight = &stored;
  return initializers.emplace_back(value);
}

Node* Graph::make_node(std::string op) {
  Node& node = nodes_storage_.emplace_back();
  node.op = std::move(op);
  return &node;
}

Node* Graph::add_node(std::string op) { return nodes.emplace_back(make_node(std::move(op))); }

Value* Graph::add_output_of(Node* node, std::string name, Type type) {
  Value* value = add_value(std::move(name), std::move(type));
  value->producer = node;
  return node->outputs.emplace_back(value);
}

void for_each_node(Graph& graph, const std::function<void(Graph&, Node&)>& visit) {
  for (Node* node : graph.nodes) {
    visit(graph, *node);
    for (const Attribute& attribute : node->attributes) {
      if (const auto* body = std::get_if<GraphPtr>(&attribute.value)) {
        for_each_node(**body, visit);
      } else if (const auto* bodies = std::get_if<std::vector<GraphPtr>>(&attribute.value)) {
        for (const GraphPtr& each : *bodies) for_each_node(*each, visit);
      }
    }
  }
}

}  // namespace opbridge::ir
