// Parses a schema line at compile time, so that a kernel whose parameters do not match it does not compile.
// Included by opbridge/operator.h. Operator libraries do not link the core, so they cannot use its parser
// (opbridge/schema.h); a test compares the two.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <string_view>

namespace opbridge::op::detail {

template <std::size_t n>
struct FixedString {
  char text[n];
  constexpr FixedString(const char (&from)[n]) { std::copy_n(from, n, text); }  // NOLINT: a literal is one
  constexpr std::string_view view() const { return {text, n - 1}; }
};

enum class Kind : unsigned char { tensor, integer, sym_int, floating, boolean, string };

struct SchemaType {
  Kind kind = Kind::tensor;
  bool list = false;
  bool optional = false;
  constexpr bool operator==(const SchemaType&) const = default;
  constexpr bool is_tensor() const { return kind == Kind::tensor; }
};

struct SchemaArgument {
  std::string_view name;
  SchemaType type;
  std::size_t list_size = 0;  // 2 for int[2], where a single default stands for all; 0 for any size
  bool has_default = false;
  std::string_view default_text;  // as written: 1, 0.5, True, None, [1, 1], "zeros"
};

struct Schema {
  static constexpr std::size_t kMaxArguments = 64, kMaxReturns = 16;

  std::string_view line;
  std::string_view domain;  // "custom" of "custom::my_add(…)"
  std::string_view name;    // "my_add"
  std::array<SchemaArgument, kMaxArguments> arguments{};
  std::size_t argument_count = 0;
  std::array<SchemaType, kMaxReturns> returns{};
  std::size_t return_count = 0;

  constexpr const SchemaArgument* begin() const { return arguments.data(); }
  constexpr const SchemaArgument* end() const { return arguments.data() + argument_count; }
  constexpr std::size_t tensor_count() const {
    return static_cast<std::size_t>(
        std::count_if(begin(), end(), [](const SchemaArgument& a) { return a.type.is_tensor(); }));
  }
};

// Each `throw` below is a compile error that shows its text.
class SchemaReader {
 public:
  constexpr explicit SchemaReader(std::string_view line) : rest_(line) {}

  constexpr Schema read() {
    Schema schema;
    schema.line = rest_;
    schema.domain = identifier();
    if (schema.domain.empty() || !take("::")) throw "an operator's schema starts with namespace::name(";
    schema.name = identifier();
    if (take(".")) throw "operators have no overloads: an ONNX node is found by its name alone";
    if (schema.name.empty() || !take("(")) throw "an operator's schema starts with namespace::name(";
    bool by_position = true, default_seen = false;
    while (!take(")")) {
      if (schema.argument_count > 0 && !take(",")) throw "',' or ')' expected after an argument";
      if (take("*")) {
        if (!take(",")) throw "',' expected after '*'";
        by_position = false;
      }
      if (schema.argument_count == Schema::kMaxArguments) throw "too many arguments";
      const SchemaArgument& added = schema.arguments[schema.argument_count++] = argument();
      if (by_position && default_seen && !added.has_default)
        throw "an argument without a default follows one that has a default";
      default_seen = default_seen || added.has_default;
    }
    if (!take("->")) throw "'->' expected after the arguments";
    if (take("(")) {
      while (!take(")")) {
        if (schema.return_count > 0 && !take(",")) throw "',' or ')' expected after a return";
        if (schema.return_count == Schema::kMaxReturns) throw "too many returns";
        schema.returns[schema.return_count++] = result();
      }
    } else {
      schema.returns[schema.return_count++] = result();
    }
    skip_space();
    if (!rest_.empty()) throw "text after the end of the schema";
    check(schema);
    return schema;
  }

 private:
  static constexpr void check(const Schema& schema) {
    if (schema.return_count == 0) throw "an operator returns at least one tensor";
    if (is_reserved(schema.name)) throw "the operator's name is a word that PyTorch's schemas reserve";
    bool list_seen = false;
    for (const SchemaArgument& a : schema) {
      if (is_reserved(a.name)) throw "the name of an argument is a word that PyTorch's schemas reserve";
      if (std::count_if(schema.begin(), schema.end(), [&](const auto& b) { return b.name == a.name; }) > 1)
        throw "two arguments have the same name";
      if (a.type.kind == Kind::string && a.type.list && a.has_default && !a.type.optional)
        throw "PyTorch's schemas allow no default for str[]; declare it str[]?=None";
      // None is an absent attribute, and an absent attribute means the default: the default must be None.
      if (a.type.optional && a.has_default && a.default_text != "None")
        throw "the default of an optional is None";
      if (!a.type.is_tensor()) continue;
      if (list_seen) throw "a Tensor[] must be the last of the tensors: it takes all remaining inputs";
      list_seen = a.type.list;
    }
    for (std::size_t i = 0; i < schema.return_count; ++i) {
      if (schema.returns[i].list && schema.return_count > 1) throw "a Tensor[] must be the only return";
    }
  }

  constexpr SchemaArgument argument() {
    SchemaArgument a;
    a.type = type(&a.list_size);
    a.name = identifier();
    if (a.name.empty()) throw "an argument needs a name";
    if (take("=")) {
      a.has_default = true;
      a.default_text = value();
    }
    return a;
  }

  constexpr SchemaType result() {
    const SchemaType t = type(nullptr);
    identifier();
    if (!t.is_tensor() || t.optional) throw "an operator returns Tensor or Tensor[]";
    return t;
  }

  constexpr SchemaType type(std::size_t* list_size) {
    const std::string_view name = identifier();
    SchemaType t;
    if (name == "Tensor") {
      t.kind = Kind::tensor;
    } else if (name == "int") {
      t.kind = Kind::integer;
    } else if (name == "SymInt") {
      t.kind = Kind::sym_int;
    } else if (name == "float") {
      t.kind = Kind::floating;
    } else if (name == "bool") {
      t.kind = Kind::boolean;
    } else if (name == "str") {
      t.kind = Kind::string;
    } else {
      throw "the types of arguments are Tensor, int, SymInt, float, bool, str, their lists and optionals";
    }
    if (!rest_.empty() && rest_.front() == '(')
      throw "operators written with opbridge do not write to inputs";
    if (take("[")) {
      for (const char digit : identifier()) {
        if (digit < '0' || digit > '9' || list_size == nullptr) throw "']' expected";
        *list_size = *list_size * 10 + static_cast<std::size_t>(digit - '0');
      }
      if (!take("]")) throw "']' expected";
      t.list = true;
    }
    t.optional = take("?");
    if (t.is_tensor() && t.list && t.optional)
      throw "a Tensor[] cannot be optional; an empty one can stand for it";
    return t;
  }

  // A default value as it is written, up to the ',' or ')' that follows it.
  constexpr std::string_view value() {
    skip_space();
    std::size_t end = 0;
    char quote = 0;
    for (int depth = 0; end < rest_.size(); ++end) {
      const char c = rest_[end];
      if (quote != 0) {
        if (c == quote) quote = 0;
      } else if (c == '"' || c == '\'') {
        quote = c;
      } else if (c == '[') {
        ++depth;
      } else if (c == ']') {
        --depth;
      } else if (depth == 0 && (c == ',' || c == ')')) {
        break;
      }
    }
    std::string_view text = rest_.substr(0, end);
    rest_.remove_prefix(end);
    while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
    if (text.empty()) throw "a default value is missing after '='";
    return text;
  }

  constexpr std::string_view identifier() {
    skip_space();
    std::size_t end = 0;
    while (end < rest_.size() && is_word(rest_[end])) ++end;
    const std::string_view word = rest_.substr(0, end);
    rest_.remove_prefix(end);
    return word;
  }

  static constexpr bool is_reserved(std::string_view word) {
    constexpr std::string_view kWords[] = {"False",  "None",     "True",   "and",   "as",   "assert", "break",
                                           "class",  "continue", "def",    "del",   "elif", "else",   "for",
                                           "global", "if",       "import", "in",    "is",   "not",    "or",
                                           "pass",   "raise",    "return", "while", "with"};
    return std::find(std::begin(kWords), std::end(kWords), word) != std::end(kWords);
  }

  static constexpr bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  }

  constexpr bool take(std::string_view token) {
    skip_space();
    if (!rest_.starts_with(token)) return false;
    rest_.remove_prefix(token.size());
    return true;
  }

  constexpr void skip_space() {
    while (!rest_.empty() && (rest_.front() == ' ' || rest_.front() == '\n' || rest_.front() == '\t'))
      rest_.remove_prefix(1);
  }

  std::string_view rest_;
};

}  // namespace opbridge::op::detail
