#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "ir/complete.h"
#include "ir/text.h"
#include "opbridge/ir.h"

namespace opbridge::ir {
namespace {

std::string in_quotes(std::string_view text) {
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

template <class T>
std::string number(T value) {
  std::string text = fmt::format("{}", value);
  // Keeps a double from reading as an integer.
  if (text.find_first_not_of("-0123456789") == std::string::npos) text += ".0";
  return text;
}

// `%x`, or `%"a name"` if it is not a single word.
std::string reference(const Value& value) {
  const std::string& name = value.name;
  const bool is_word = !name.empty() && name.back() != ':' && std::ranges::all_of(name, is_word_character);
  return "%" + (is_word ? name : in_quotes(name));
}

constexpr int64_t most_printed_elements = 8;

// ` = [1.0, 2.0]`, row-major; nothing for larger weights, for element types that C++ lacks, and if the number
// of bytes does not match the dims.
std::string elements(const Weight& weight) {
  const int64_t count = weight.element_count();
  if (count > most_printed_elements || !is_complete(weight)) return "";
  std::vector<std::string> texts;
  if (weight.element_type == ElementType::string) {
    for (std::string_view text : weight.strings()) texts.push_back(in_quotes(text));
  }
  const auto of = [&]<class T>(std::type_identity<T>) {
    if (weight.element_type != element_type_of<T>()) return;
    for (int64_t i = 0; i < count; ++i) {
      T value;  // the bytes may be unaligned
      std::memcpy(&value, weight.bytes.data() + static_cast<size_t>(i) * sizeof(T), sizeof(T));
      if constexpr (std::is_same_v<T, bool>) {
        texts.emplace_back(value ? "True" : "False");
      } else if constexpr (std::is_floating_point_v<T>) {
        texts.push_back(number(value));
      } else {
        texts.push_back(std::to_string(value));
      }
    }
  };
  for_each_number_type(of);
  if (texts.empty() && count > 0) return "";
  return fmt::format(" = [{}]", fmt::join(texts, ", "));
}

struct AttributeText {
  std::string operator()(std::monostate) const { return "None"; }
  std::string operator()(bool value) const { return value ? "True" : "False"; }
  std::string operator()(int64_t value) const { return std::to_string(value); }
  std::string operator()(double value) const { return number(value); }
  std::string operator()(std::complex<double> value) const {
    return fmt::format("complex({}, {})", number(value.real()), number(value.imag()));
  }
  std::string operator()(const std::string& value) const { return in_quotes(value); }
  std::string operator()(const Dim& value) const { return value.str(); }
  std::string operator()(ElementType value) const { return std::string(opbridge::name(value)); }
  std::string operator()(const Opaque& value) const { return value.text; }
  std::string operator()(const Value* value) const { return value == nullptr ? "None" : reference(*value); }
  std::string operator()(const std::shared_ptr<const Weight>& value) const {
    if (value == nullptr) return "None";
    return fmt::format("tensor {}[{}]{}", opbridge::name(value->element_type), fmt::join(value->dims, ", "),
                       elements(*value));
  }
  std::string operator()(const std::shared_ptr<const SparseTensor>& value) const {
    if (value == nullptr) return "None";
    return fmt::format("sparse {}[{}]", opbridge::name(value->values.element_type),
                       fmt::join(value->dims, ", "));
  }
  std::string operator()(const Type& value) const { return "type " + str(value); }
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
      text += inner + "weight " + typed(initializer) + elements(*initializer->weight) + "\n";
    }
    for (const Node* node : graph.nodes) print_node(*node, inner);
    text += inner + (graph.outputs.empty() ? "return" : "return " + list(graph.outputs)) + "\n";
    text += indent + "}\n";
  }

 private:
  static std::string typed(const Value* value) {
    return value == nullptr ? "None" : reference(*value) + ": " + str(value->type);
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
      const auto* opaque = std::get_if<Opaque>(&attribute.value);
      text += attribute.name + "=" + (opaque == nullptr ? str(attribute.value) : "'" + opaque->text + "'");
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
