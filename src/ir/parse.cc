#include "ir/parse.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <unordered_map>

#include "ir/text.h"

namespace opbridge::ir {
namespace {

constexpr int max_depth = 100;  // nesting of graphs, lists and types

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Graph parse() {
    Graph graph = read_graph();
    skip_space();
    if (at_ != text_.size()) fail("the end of the text");
    return graph;
  }

 private:
  class Nesting {
   public:
    explicit Nesting(Parser& parser) : parser_(parser) {
      if (++parser_.depth_ > max_depth) parser_.fail("less nesting");
    }
    ~Nesting() { --parser_.depth_; }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;

   private:
    Parser& parser_;
  };

  [[noreturn]] void fail(const std::string& expected) const {
    const std::string_view before = text_.substr(0, at_);
    const auto line = 1 + std::ranges::count(before, '\n');
    std::string_view rest = text_.substr(at_);
    rest = rest.substr(0, std::min<size_t>(rest.find('\n'), 40));
    throw Error(ErrorCode::invalid_argument,
                fmt::format("the text of a graph has \"{}\" where {} is expected", rest, expected),
                fmt::format("line {}", line));
  }

  void skip_space() {
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
  }
  bool at_text(std::string_view token) {
    skip_space();
    return text_.substr(at_).starts_with(token);
  }
  bool accept(std::string_view token) {
    if (!at_text(token)) return false;
    at_ += token.size();
    return true;
  }
  void expect(std::string_view token) {
    if (!accept(token)) fail(fmt::format("\"{}\"", token));
  }
  // Whether the whole word comes next, not only its beginning.
  bool at_word(std::string_view word) {
    if (!at_text(word)) return false;
    const size_t end = at_ + word.size();
    return end == text_.size() || !is_word_character(text_[end]);
  }
  bool accept_word(std::string_view word) {
    if (!at_word(word)) return false;
    at_ += word.size();
    return true;
  }
  std::string_view until(std::string_view ends) {
    skip_space();
    const size_t end = std::min(text_.find_first_of(ends, at_), text_.size());
    std::string_view found = text_.substr(at_, end - at_);
    at_ = end;
    while (!found.empty() && is_space(found.back())) found.remove_suffix(1);
    return found;
  }
  std::string_view word(const char* what) {
    skip_space();
    const size_t begin = at_;
    while (at_ < text_.size() && is_word_character(text_[at_])) ++at_;
    if (at_ == begin) fail(what);
    return text_.substr(begin, at_ - begin);
  }

  std::string quoted(char quote) {
    expect(std::string_view(&quote, 1));
    std::string result;
    while (true) {
      if (at_ == text_.size() || text_[at_] == '\n') fail("the end of a string");
      char c = text_[at_++];
      if (c == quote) return result;
      if (c == '\\') {
        if (at_ == text_.size()) fail("an escaped character");
        c = text_[at_++];
        if (c == 'n') {
          c = '\n';
        } else if (c == 'x') {
          unsigned code = 0;
          const char* digits = text_.data() + at_;
          const char* end = digits + std::min<size_t>(2, text_.size() - at_);
          if (std::from_chars(digits, end, code, 16).ptr != digits + 2) fail("two hexadecimal digits");
          at_ += 2;
          c = static_cast<char>(code);
        }
      }
      result += c;
    }
  }

  Graph read_graph() {
    const Nesting nesting(*this);
    Graph graph;
    expect("graph");
    graph.name = until("(");
    expect("(");
    const auto outer = visible_;
    if (!accept(")")) {
      do {
        auto [name, type] = typed_name();
        show(graph.add_input(std::move(name), std::move(type)));
      } while (accept(","));
      expect(")");
    }
    expect("{");
    while (!at_word("return")) {
      if (accept_word("weight")) {
        read_weight(graph);
      } else {
        read_node(graph);
      }
    }
    expect("return");
    if (!at_text("}")) {
      do graph.outputs.push_back(use());
      while (accept(","));
    }
    expect("}");
    visible_ = outer;
    return graph;
  }

  void show(Value* value) { visible_.insert_or_assign(value->name, value); }

  std::string value_name() {
    expect("%");
    if (at_text("\"")) return quoted('"');
    const size_t begin = at_;
    while (at_ < text_.size() && is_word_character(text_[at_])) ++at_;
    // The colon after a name belongs to its type.
    while (at_ > begin && text_[at_ - 1] == ':') --at_;
    if (at_ == begin) fail("the name of a value");
    return std::string(text_.substr(begin, at_ - begin));
  }

  std::pair<std::string, Type> typed_name() {
    std::string name = value_name();
    expect(":");
    return {std::move(name), type()};
  }

  Value* use() {
    if (accept_word("None")) return nullptr;
    const size_t begin = at_;
    const std::string name = value_name();
    const auto found = visible_.find(name);
    if (found == visible_.end()) {
      at_ = begin;
      fail("a value that is made before it is used");
    }
    return found->second;
  }

  void read_weight(Graph& graph) {
    auto [name, type] = typed_name();
    show(graph.add_initializer(std::move(name), weight_of(type)));
  }

  void read_node(Graph& graph) {
    std::vector<std::pair<std::string, Type>> results;
    if (at_text("%")) {
      do results.push_back(typed_name());
      while (accept(","));
      expect("=");
    }
    Node* node = graph.make_node(std::string(until("(")));
    if (node->op.empty()) fail("the name of an operator");
    expect("(");
    if (!accept(")")) {
      do read_argument(*node);
      while (accept(","));
      expect(")");
    }
    if (const size_t end = text_.find_first_not_of(" \t", at_); end != text_.npos && text_[end] == '#') {
      at_ = end + 1;
      node->source.scope = until("\n");
    }
    for (Attribute& attribute : node->attributes) {
      if (auto* body = std::get_if<GraphPtr>(&attribute.value)) read_body(*body);
      if (auto* list = std::get_if<std::vector<GraphPtr>>(&attribute.value)) {
        for (GraphPtr& body : *list) read_body(body);
      }
    }
    for (auto& [name, type] : results) show(graph.add_output_of(node, std::move(name), std::move(type)));
    graph.nodes.push_back(node);
  }

  void read_body(GraphPtr& body) {
    if (body == nullptr) return;
    const size_t begin = at_;
    Graph graph = read_graph();
    if (graph.name != body->name) {
      at_ = begin;
      fail("the body " + body->name);
    }
    body = std::make_shared<Graph>(std::move(graph));
  }

  void read_argument(Node& node) {
    skip_space();
    if (text_.substr(at_).starts_with('%') || at_word("None")) {
      node.inputs.push_back(use());
      return;
    }
    std::string name(word("an argument"));
    expect("=");
    node.attributes.push_back({std::move(name), attribute()});
  }

  Type type() {
    const Nesting nesting(*this);
    if (accept("(")) {
      ListType list;
      if (accept(")")) return list;
      do list.elements.push_back(tensor_type());
      while (accept(","));
      expect(")");
      return list;
    }
    const ElementType element = element_type();
    if (at_ < text_.size() && text_[at_] == '[') return tensor_type_of(element);
    if (element == ElementType::int64) return ScalarType{element, dim(",)]=\n")};
    return ScalarType{element, {}};
  }

  ElementType element_type() {
    const size_t begin = at_;
    const std::string_view name = word("an element type");
    if (name == "undefined") return ElementType::undefined;
    const auto found = parse_element_type(name);
    if (!found) {
      at_ = begin;
      fail("an element type");
    }
    return *found;
  }

  TensorType tensor_type() { return tensor_type_of(element_type()); }

  TensorType tensor_type_of(ElementType element) {
    expect("[");
    if (accept("...")) {
      expect("]");
      return {element, std::nullopt};
    }
    std::vector<Dim> dims;
    if (!accept("]")) {
      do dims.push_back(dim(",]"));
      while (accept(","));
      expect("]");
    }
    return {element, std::move(dims)};
  }

  // Reads up to one of `ends` outside of parentheses.
  Dim dim(std::string_view ends) {
    skip_space();
    const size_t begin = at_;
    int open = 0;
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (open == 0 && ends.find(c) != ends.npos) break;
      if (c == '(') ++open;
      if (c == ')') --open;
    }
    std::string_view found = text_.substr(begin, at_ - begin);
    while (!found.empty() && is_space(found.back())) found.remove_suffix(1);
    try {
      return Dim::parse(found);
    } catch (const Error&) {
      at_ = begin;
      fail("a size");
    }
  }

  AttributeValue attribute() {
    const Nesting nesting(*this);
    skip_space();
    if (at_ == text_.size()) fail("a value");
    const char c = text_[at_];
    if (c == '[') return list();
    if (c == '%') return use();
    if (c == '"') return quoted('"');
    if (c == '\'') return Opaque{quoted('\'')};
    if (accept_word("None")) return std::monostate();
    if (accept_word("True")) return true;
    if (accept_word("False")) return false;
    if (accept("complex(")) {
      const double real = floating();
      expect(",");
      const double imaginary = floating();
      expect(")");
      return std::complex<double>(real, imaginary);
    }
    if (accept_word("graph")) {
      auto named = std::make_shared<Graph>();
      named->name = until(",)]");
      return named;
    }
    if (accept_word("type")) return type();
    if (accept_word("tensor")) {
      const Type of = type();
      return std::make_shared<const Weight>(weight_of(of));
    }
    if (at_word("sparse")) fail("a value other than a sparse tensor, whose elements are not in the text");
    if (const auto value = number()) return *value;
    const size_t begin = at_;
    if (c != '(' && c != '-') {
      const std::string_view name = word("a value");
      if (const auto type = parse_element_type(name)) return *type;
      at_ = begin;
    }
    return dim(",)]");
  }

  // An integer or a double on its own, not the beginning of a size expression.
  std::optional<AttributeValue> number() {
    const char* begin = text_.data() + at_;
    const char* end = text_.data() + text_.size();
    const auto stands_alone = [&](const char* last) {
      at_ = static_cast<size_t>(last - text_.data());
      skip_space();
      if (at_ == text_.size() || std::string_view(",)]").find(text_[at_]) != std::string_view::npos)
        return true;
      at_ = static_cast<size_t>(begin - text_.data());
      return false;
    };
    int64_t integer = 0;
    if (const auto [last, error] = std::from_chars(begin, end, integer);
        error == std::errc() && stands_alone(last)) {
      return integer;
    }
    double value = 0;
    if (const auto [last, error] = std::from_chars(begin, end, value);
        error == std::errc() && stands_alone(last)) {
      return value;
    }
    return std::nullopt;
  }

  double floating() {
    skip_space();
    double value = 0;
    const char* begin = text_.data() + at_;
    const auto [last, error] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (error != std::errc()) fail("a number");
    at_ += static_cast<size_t>(last - begin);
    return value;
  }

  // The elements determine the kind. A list of integers and sizes is a list of sizes; an empty list is a list
  // of integers.
  AttributeValue list() {
    expect("[");
    std::vector<AttributeValue> elements;
    if (!accept("]")) {
      do elements.push_back(attribute());
      while (accept(","));
      expect("]");
    }
    std::optional<AttributeValue> result;
    if (elements.empty()) return std::vector<int64_t>();
    const auto holds = [&]<class T>(std::type_identity<T>) {
      return std::ranges::all_of(elements, [](const auto& each) { return std::holds_alternative<T>(each); });
    };
    const auto collect = [&]<class T>(std::type_identity<T> kind) {
      if (result || !holds(kind)) return;
      std::vector<T> values;
      for (AttributeValue& each : elements) values.push_back(std::get<T>(std::move(each)));
      result = std::move(values);
    };
    collect(std::type_identity<bool>());
    collect(std::type_identity<int64_t>());
    collect(std::type_identity<double>());
    collect(std::type_identity<std::string>());
    collect(std::type_identity<std::shared_ptr<const Weight>>());
    collect(std::type_identity<GraphPtr>());
    collect(std::type_identity<Type>());
    if (result) return *result;
    for (AttributeValue& each : elements) {
      if (std::holds_alternative<std::monostate>(each)) each = static_cast<Value*>(nullptr);
      if (const auto* integer = std::get_if<int64_t>(&each)) each = Dim(*integer);
    }
    collect(std::type_identity<Value*>());
    collect(std::type_identity<Dim>());
    if (!result) fail("a list whose elements are of one kind");
    return *result;
  }

  Weight weight_of(const Type& type) {
    const auto* tensor = std::get_if<TensorType>(&type);
    if (tensor == nullptr || !tensor->is_static()) fail("the type of a constant");
    std::vector<int64_t> dims;
    for (const Dim& dim : *tensor->dims) dims.push_back(dim.value());
    Weight shape{tensor->element_type, dims, {}, nullptr};
    const auto count = static_cast<size_t>(shape.element_count());
    const bool has_values = accept("=");
    if (tensor->element_type == ElementType::string) return strings(count, has_values, std::move(dims));
    if (!has_values) {
      auto zeros = std::make_shared<std::vector<std::byte>>(storage_bytes(tensor->element_type, count));
      return {tensor->element_type, std::move(dims), *zeros, zeros};
    }
    std::optional<Weight> result;
    const auto of = [&]<class T>(std::type_identity<T>) {
      if (tensor->element_type != element_type_of<T>()) return;
      // Not a vector of T: std::vector<bool> has no contiguous bytes.
      auto bytes = std::make_shared<std::vector<std::byte>>(count * sizeof(T));
      elements(count, [&](size_t i) {
        const T value = element<T>();
        std::memcpy(bytes->data() + i * sizeof(T), &value, sizeof(T));
      });
      result = Weight{tensor->element_type, dims, *bytes, bytes};
    };
    for_each_number_type(of);
    if (!result) fail("no values of this element type");
    return *result;
  }

  template <class Read>
  void elements(size_t count, Read read) {
    expect("[");
    for (size_t i = 0; i < count; ++i) {
      if (i > 0) expect(",");
      read(i);
    }
    expect("]");
  }

  template <class T>
  T element() {
    if constexpr (std::is_same_v<T, bool>) {
      if (accept_word("True")) return true;
      if (!accept_word("False")) fail("True or False");
      return false;
    } else {
      skip_space();
      T value{};
      const char* begin = text_.data() + at_;
      const auto [last, error] = std::from_chars(begin, text_.data() + text_.size(), value);
      if (error != std::errc()) fail("an element of the constant's type");
      at_ += static_cast<size_t>(last - begin);
      return value;
    }
  }

  Weight strings(size_t count, bool has_values, std::vector<int64_t> dims) {
    std::vector<std::string> values(count);
    if (has_values) elements(count, [&](size_t i) { skip_space(), values[i] = quoted('"'); });
    return Weight::of_strings(values, std::move(dims));
  }

  std::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
  std::unordered_map<std::string, Value*> visible_;
};

}  // namespace

Graph parse(std::string_view text) { return Parser(text).parse(); }

}  // namespace opbridge::ir
