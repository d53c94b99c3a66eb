#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <limits>

#include "opbridge/schema.h"

namespace opbridge {
namespace {

using Kind = SchemaType::Kind;

constexpr size_t max_length = 1 << 16;
constexpr int max_depth = 32;
constexpr int max_fixed_size = 1024;

Kind kind_of(std::string_view name) {
  static constexpr std::pair<std::string_view, Kind> kinds[] = {
      {"Tensor", Kind::tensor},     {"Scalar", Kind::scalar},   {"complex", Kind::scalar},
      {"int", Kind::integer},       {"SymInt", Kind::sym_int},  {"float", Kind::floating},
      {"bool", Kind::boolean},      {"str", Kind::string},      {"ScalarType", Kind::element_type},
      {"SymFloat", Kind::floating}, {"SymBool", Kind::boolean},
  };
  const auto* found = std::ranges::find(kinds, name, &std::pair<std::string_view, Kind>::first);
  return found == std::end(kinds) ? Kind::opaque : found->second;
}

// c10::ScalarType. The schemas that PyTorch prints contain its numbers; those that it parses contain its
// names.
std::optional<ElementType> element_type_of_default(const ir::AttributeValue& literal) {
  static constexpr struct {
    int64_t number;
    std::string_view name;
    ElementType type;
  } rows[] = {
      {0, "byte", ElementType::uint8},
      {1, "char", ElementType::int8},
      {2, "short", ElementType::int16},
      {3, "int", ElementType::int32},
      {4, "long", ElementType::int64},
      {5, "half", ElementType::float16},
      {6, "float", ElementType::float32},
      {7, "double", ElementType::float64},
      {9, "cfloat", ElementType::complex64},
      {10, "cdouble", ElementType::complex128},
      {11, "bool", ElementType::boolean},
      {15, "bfloat16", ElementType::bfloat16},
      {23, "float8_e5m2", ElementType::float8e5m2},
      {24, "float8_e4m3fn", ElementType::float8e4m3fn},
      {25, "float8_e5m2fnuz", ElementType::float8e5m2fnuz},
      {26, "float8_e4m3fnuz", ElementType::float8e4m3fnuz},
      {27, "uint16", ElementType::uint16},
      {28, "uint32", ElementType::uint32},
      {29, "uint64", ElementType::uint64},
      {44, "float8_e8m0fnu", ElementType::float8e8m0},
  };
  const auto* number = std::get_if<int64_t>(&literal);
  const auto* word = std::get_if<ir::Opaque>(&literal);
  for (const auto& row : rows) {
    if ((number != nullptr && *number == row.number) || (word != nullptr && word->text == row.name)) {
      return row.type;
    }
  }
  return word == nullptr ? std::nullopt : parse_element_type(word->text);
}

// The literal as a value of this kind; nothing if it is not one. Words (`Mean`, `long`) are passed as
// ir::Opaque.
std::optional<ir::AttributeValue> converted(const ir::AttributeValue& literal, Kind kind) {
  const auto* integer = std::get_if<int64_t>(&literal);
  const auto* word = std::get_if<ir::Opaque>(&literal);
  switch (kind) {
    case Kind::integer:
    case Kind::sym_int:
      // at::Reduction, as native_functions.yaml spells it
      if (word != nullptr && word->text == "Mean") return int64_t{1};
      if (word != nullptr && word->text == "Sum") return int64_t{2};
      if (integer != nullptr) return literal;
      return std::nullopt;
    case Kind::floating:
      if (integer != nullptr) return static_cast<double>(*integer);
      if (std::holds_alternative<double>(literal)) return literal;
      return std::nullopt;
    case Kind::boolean:
      if (std::holds_alternative<bool>(literal)) return literal;
      return std::nullopt;
    case Kind::string:
      if (std::holds_alternative<std::string>(literal)) return literal;
      return std::nullopt;
    case Kind::scalar:
      if (integer != nullptr || std::holds_alternative<double>(literal) ||
          std::holds_alternative<bool>(literal)) {
        return literal;
      }
      return std::nullopt;
    case Kind::element_type:
      if (const auto type = element_type_of_default(literal)) return *type;
      return std::nullopt;
    case Kind::opaque:
      return word != nullptr ? literal : ir::Opaque{ir::str(literal)};
    case Kind::tensor:
      return std::nullopt;
  }
  return std::nullopt;
}

template <class T>
std::vector<T> list_of(const std::vector<ir::AttributeValue>& values) {
  std::vector<T> list;
  for (const ir::AttributeValue& value : values) list.push_back(std::get<T>(value));
  return list;
}

std::optional<ir::AttributeValue> converted_list(const std::vector<ir::AttributeValue>& literals, Kind kind) {
  std::vector<ir::AttributeValue> values;
  bool has_float = false;
  for (const ir::AttributeValue& literal : literals) {
    const auto value = converted(literal, kind);
    if (!value) return std::nullopt;
    has_float |= std::holds_alternative<double>(*value);
    values.push_back(*value);
  }
  switch (kind) {
    case Kind::tensor:
      return std::vector<ir::Value*>();
    case Kind::boolean:
      return list_of<bool>(values);
    case Kind::string:
      return list_of<std::string>(values);
    case Kind::scalar:
      return has_float ? converted_list(literals, Kind::floating) : converted_list(literals, Kind::integer);
    case Kind::floating:
      return list_of<double>(values);
    case Kind::integer:
    case Kind::sym_int:
      return list_of<int64_t>(values);
    case Kind::element_type:
    case Kind::opaque: {
      std::string text;
      for (const ir::AttributeValue& value : values) text += (text.empty() ? "" : ", ") + ir::str(value);
      return ir::Opaque{"[" + text + "]"};
    }
  }
  return std::nullopt;
}

class Parser {
 public:
  explicit Parser(std::string_view line) : line_(line) {}

  OperatorSchema parse() {
    if (line_.size() > max_length) {
      throw Error(ErrorCode::invalid_argument, "a schema line is longer than 65536 characters");
    }
    OperatorSchema schema;
    operator_name(schema);
    expect("(");
    arguments(schema);
    expect("->");
    returns(schema);
    skip_space();
    if (at_ != line_.size()) fail("expected the end of the line");
    return schema;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { fail_at(at_, what); }
  [[noreturn]] void fail_at(size_t position, const std::string& what) const {
    throw Error(ErrorCode::invalid_argument, fmt::format("schema line not understood: {}\n  {}\n  {}^", what,
                                                         line_, std::string(position, ' ')));
  }

  void operator_name(OperatorSchema& schema) {
    schema.name = word("the operator's name");
    if (accept("::")) schema.name += "::" + std::string(word("the operator's name"));
    if (accept(".")) schema.overload = word("the overload's name");
  }

  void arguments(OperatorSchema& schema) {
    if (accept(")")) return;
    bool keyword_only = false;
    do {
      if (accept("...")) {
        schema.more_arguments = true;
        break;
      }
      if (accept("*")) {
        if (keyword_only) fail("a second \"*\"");
        keyword_only = true;
        continue;
      }
      SchemaArgument argument;
      argument.keyword_only = keyword_only;
      argument.type = type();
      argument.name = word("an argument's name");
      if (accept("=")) argument.default_value = default_value(argument);
      schema.arguments.push_back(std::move(argument));
    } while (accept(","));
    expect(")");
  }

  void returns(OperatorSchema& schema) {
    if (accept("...")) {
      schema.more_returns = true;
      return;
    }
    if (!accept("(")) {
      schema.returns.push_back(single_return());
      return;
    }
    if (accept(")")) return;
    do {
      if (accept("...")) {
        schema.more_returns = true;
        break;
      }
      schema.returns.push_back(single_return());
    } while (accept(","));
    expect(")");
  }

  SchemaReturn single_return() {
    SchemaReturn result{{}, type()};
    skip_space();
    if (starts_word()) result.name = word("");
    return result;
  }

  // type := (word | word '(' types ')' | '(' types ')') alias? ('[' size? ']' | '?' | alias)*
  SchemaType type() {
    if (++depth_ > max_depth) fail("types nested too deeply");
    skip_space();
    const size_t start = at_;
    SchemaType result;
    const bool tuple = accept("(");
    if (!tuple) type_name();
    if (tuple || (is_generic(text_since(start)) && accept("("))) {
      do {
        type();
        skip_space();
        if (starts_word()) word("");
      } while (accept(","));
      expect(")");
    }
    result.name = text_since(start);
    result.kind = kind_of(result.name);
    suffixes(result, start);
    --depth_;
    return result;
  }

  static bool is_generic(std::string_view name) {
    for (std::string_view generic :
         {"Dict", "Future", "Await", "RRef", "Union", "Optional", "List", "Tuple"}) {
      if (name == generic) return true;
    }
    return false;
  }

  // SchemaType cannot express a list of lists or an alias of a list; such a type becomes opaque, named by its
  // text.
  void suffixes(SchemaType& type, size_t start) {
    const auto wrap = [&] {
      type = SchemaType();
      type.kind = Kind::opaque;
      type.name = text_since(start);
    };
    while (true) {
      if (peek("[")) {
        if (type.list) wrap();
        expect("[");
        type.optional_elements = std::exchange(type.optional, false);
        type.list = true;
        if (!accept("]")) {
          type.fixed_size = fixed_size();
          expect("]");
        }
      } else if (peek("?")) {
        if (type.optional) fail("a second \"?\"");
        expect("?");
        type.optional = true;
      } else if (peek("(")) {
        const bool of_list = type.list || type.optional || !type.alias.empty();
        expect("(");
        alias(type);
        if (of_list) wrap();
      } else {
        return;
      }
    }
  }

  int fixed_size() {
    int size = 0;
    const auto [end, error] = std::from_chars(line_.data() + at_, line_.data() + line_.size(), size);
    if (error != std::errc() || size < 1 || size > max_fixed_size) fail("expected the size of a list");
    at_ = static_cast<size_t>(end - line_.data());
    return size;
  }

  // alias := set '!'? ('->' set)? ')', where set := (word | '*') ('|' (word | '*'))*
  void alias(SchemaType& type) {
    type.alias = peek("!") ? "" : alias_set();
    type.written = accept("!");
    if (accept("->")) type.alias_after = alias_set();
    expect(")");
  }

  std::string alias_set() {
    std::string text;
    do {
      if (!text.empty()) text += '|';
      text += accept("*") ? "*" : std::string(word("the name of an alias set"));
    } while (accept("|"));
    return text;
  }

  ir::AttributeValue default_value(const SchemaArgument& argument) {
    skip_space();
    const size_t position = at_;
    std::optional<ir::AttributeValue> value;
    if (accept("[")) {
      std::vector<ir::AttributeValue> literals;
      if (!accept("]")) {
        do {
          literals.push_back(literal());
        } while (accept(","));
        expect("]");
      }
      // An opaque type may be a list of lists, or generic.
      if (argument.type.list || argument.type.kind == Kind::opaque) {
        value = converted_list(literals, argument.type.kind);
      }
    } else {
      const ir::AttributeValue single = literal();
      if (std::holds_alternative<std::monostate>(single)) return single;
      value = argument.type.list ? converted_list(std::vector(std::max(argument.type.fixed_size, 1), single),
                                                  argument.type.kind)
                                 : converted(single, argument.type.kind);
    }
    if (!value) {
      fail_at(position,
              fmt::format("the default of {} is not of type {}", argument.name, argument.type.str()));
    }
    return *std::move(value);
  }

  ir::AttributeValue literal() {
    skip_space();
    const char c = at_ < line_.size() ? line_[at_] : '\0';
    if (c == '"' || c == '\'') return quoted();
    if (!starts_word()) return number();
    const std::string_view text = word("");
    if (text == "None") return std::monostate();
    if (text == "True") return true;
    if (text == "False") return false;
    if (text == "inf") return std::numeric_limits<double>::infinity();
    if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
    return ir::Opaque{std::string(text)};
  }

  ir::AttributeValue number() {
    const char* begin = line_.data() + at_;
    const char* end = line_.data() + line_.size();
    int64_t integer = 0;
    double real = 0;
    const auto as_integer = std::from_chars(begin, end, integer);
    const auto as_real = std::from_chars(begin, end, real);
    if (as_real.ec != std::errc() || as_real.ptr == begin) fail("expected a value of 64 bits");
    at_ += static_cast<size_t>(as_real.ptr - begin);
    if (as_integer.ptr != as_real.ptr) return real;
    if (as_integer.ec != std::errc()) fail("expected a value of 64 bits");
    return integer;
  }

  ir::AttributeValue quoted() {
    const size_t start = at_;
    const char quote = line_[at_++];
    std::string text;
    while (at_ < line_.size() && line_[at_] != quote) {
      const char c = line_[at_++];
      text += c == '\\' ? escape() : c;
    }
    if (at_ == line_.size()) fail_at(start, "an unterminated string");
    ++at_;
    return text;
  }

  // Reads an escape sequence after its backslash.
  char escape() {
    constexpr std::string_view letters = "ntrfvab0";
    constexpr std::string_view meanings{"\n\t\r\f\v\a\b\0", 8};
    if (at_ == line_.size()) fail("an unterminated string");
    const char c = line_[at_++];
    if (c == '\\' || c == '"' || c == '\'') return c;
    if (const size_t letter = letters.find(c); letter != std::string_view::npos) return meanings[letter];
    unsigned code = 0;
    const char* begin = line_.data() + at_;
    const char* limit = begin + std::min<size_t>(2, line_.size() - at_);
    if (c != 'x' || std::from_chars(begin, limit, code, 16).ptr != begin + 2) fail("an unknown escape");
    at_ += 2;
    return static_cast<char>(code);
  }

  void skip_space() {
    while (at_ < line_.size() && std::isspace(static_cast<unsigned char>(line_[at_]))) ++at_;
  }
  bool peek(std::string_view token) {
    skip_space();
    return line_.substr(at_).starts_with(token);
  }
  bool accept(std::string_view token) {
    if (!peek(token)) return false;
    at_ += token.size();
    return true;
  }
  void expect(std::string_view token) {
    if (!accept(token)) fail(fmt::format("expected \"{}\"", token));
  }
  // Strips the whitespace that peeking at the next token skipped.
  std::string_view text_since(size_t start) const {
    std::string_view text = line_.substr(start, at_ - start);
    while (std::isspace(static_cast<unsigned char>(text.back()))) text.remove_suffix(1);
    return text;
  }
  bool starts_word() const {
    return at_ < line_.size() && (std::isalpha(static_cast<unsigned char>(line_[at_])) || line_[at_] == '_');
  }
  std::string_view word(std::string_view what) {
    skip_space();
    if (!starts_word()) fail(fmt::format("expected {}", what));
    const size_t start = at_;
    while (at_ < line_.size() &&
           (std::isalnum(static_cast<unsigned char>(line_[at_])) || line_[at_] == '_')) {
      ++at_;
    }
    return line_.substr(start, at_ - start);
  }
  // `Tensor`, `__torch__.torch.classes.rnn.CellParamsBase`
  void type_name() {
    do {
      word("a type");
    } while (at_ < line_.size() && line_[at_] == '.' && accept("."));
  }

  std::string_view line_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

OperatorSchema parse_schema(std::string_view line) { return Parser(line).parse(); }

}  // namespace opbridge
