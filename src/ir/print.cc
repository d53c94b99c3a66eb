#include <fmt/format.h>

#include "opbridge/ir.h"

namespace opbridge::ir {
namespace {

std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (c == '\n') {
      result += "\\n";
    } else if (static_cast<unsigned char>(c) < 0x20) {
      result += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      result += c;
    }
  }
  return result + '"';
}

std::string number(double value) {
  std::string text = fmt::format("{}", value);
  // A double never reads as an integer.
  if (text.find_first_not_of("-0123456789") == std::string::npos) text += ".0";
  return text;
}

struct AttributeText {
  std::string operator()(std::monostate) const { return "None"; }
  std::string operator()(bool value) const { return value ? "True" : "False"; }
  std::string operator()(int64_t value) const { return std::to_string(value); }
  std::string operator()(double value) const { return number(value); }
  std::string operator()(std::complex<double> value) const {
    return fmt::format("complex({}, {})", number(value.real()), number(value.imag()));
  }
  std::string operator()(const std::string& value) const { return quoted(value); }
  std::string operator()(const Dim& value) const { return value.str(); }
  std::string operator()(ElementType value) const { return std::string(opbridge::name(value)); }
  std::string operator()(const Opaque& value) const { return value.text; }
  std::string operator()(const Value* value) const { return value == nullptr ? "None" : "%" + value->name; }
  std::string operator()(const std::shared_ptr<const Weight>& value) const {
    if (value == nullptr) return "None";
    return fmt::format("{}[{}]", opbridge::name(value->element_type), fmt::join(value->dims, ", "));
  }
  std::string operator()(const std::shared_ptr<const SparseTensor>& value) const {
    if (value == nullptr) return "None";
    return fmt::format("sparse {}[{}]", opbridge::name(value->values.element_type),
                       fmt::join(value->dims, ", "));
  }
  std::string operator()(const Type& value) const { return str(value); }
  std::string operator()(const GraphPtr& value) const {
    return value == nullptr ? "None" : "graph " + value->name;
  }
  template <class T>
  std::string operator()(const std::vector<T>& values) const {
    std::string text = "[";
    for (const auto& value : values) {
      if (text.size() > 1) text += ", ";
      text += (*this)(value);
    }
    return text + "]";
  }
};

class Printer {
 public:
  std::string text;

  void print_graph(const Graph& graph, const std::string& indent) {
    text += indent + "graph " + graph.name + "(" + typed_list(graph.inputs) + ") {\n";
    const std::string inner = indent + "  ";
    for (const Value* initializer : graph.initializers) {
      text += inner + "weight " + typed(initializer) + "\n";
    }
    for (const Node* node : graph.nodes) print_node(*node, inner);
    text += inner + (graph.outputs.empty() ? "return" : "return " + list(graph.outputs)) + "\n";
    text += indent + "}\n";
  }

 private:
  static std::string typed(const Value* value) {
    return value == nullptr ? "None" : "%" + value->name + ": " + str(value->type);
  }

  static std::string typed_list(const std::vector<Value*>& values) {
    std::string result;
    for (const Value* value : values) result += (result.empty() ? "" : ", ") + typed(value);
    return result;
  }

  static std::string list(const std::vector<Value*>& values) {
    std::string result;
    for (const Value* value : values) result += (result.empty() ? "" : ", ") + AttributeText()(value);
    return result;
  }

  void print_node(const Node& node, const std::string& indent) {
    text += indent;
    if (!node.outputs.empty()) text += typed_list(node.outputs) + " = ";
    text += node.op + "(" + list(node.inputs);
    bool first = node.inputs.empty();
    for (const Attribute& attribute : node.attributes) {
      if (!first) text += ", ";
      first = false;
      text += attribute.name + "=" + str(attribute.value);
    }
    text += ")";
    if (!node.source.scope.empty()) text += "  # " + node.source.scope;
    text += "\n";
    for (const GraphPtr& body : node.bodies()) print_graph(*body, indent + "  ");
  }
};

}  // namespace

std::string str(const Type& type) {
  if (const auto* tensor = std::get_if<TensorType>(&type)) return tensor->str();
  if (const auto* scalar = std::get_if<ScalarType>(&type)) {
    std::string text(opbridge::name(scalar->element_type));
    return scalar->element_type == ElementType::int64 ? text + " " + scalar->value.str() : text;
  }
  std::string text = "(";
  for (const TensorType& element : std::get<ListType>(type).elements) {
    if (text.size() > 1) text += ", ";
    text += element.str();
  }
  return text + ")";
}

std::string str(const AttributeValue& value) { return std::visit(AttributeText(), value); }

std::string print(const Graph& graph) {
  Printer printer;
  printer.print_graph(graph, "");
  return std::move(printer.text);
}

}  // namespace opbridge::ir
