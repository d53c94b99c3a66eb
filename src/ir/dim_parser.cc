// Dim::parse: reads sympy expressions as PyTorch writes them, both by str() (`2*s77 + 1`) and by sympy.srepr
// (`Add(Mul(Integer(2), Symbol('s77', integer=True, positive=True)), Integer(1))`). The functions are those
// of torch/utils/_sympy/functions.py.
//
// Some of them compute in floating point. They are read as exact fractions, provided that the result is the
// same. Error(invalid_file) is thrown for a fraction that a double must round, unless floor, ceil or trunc is
// applied to it, and for a product with a number for which even these are uncertain (`0.7*ToFloat(s0)`).

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <optional>
#include <unordered_map>

#include "ir/dim_expr.h"
#include "opbridge/dim.h"
#include "opbridge/error.h"

namespace opbridge {
namespace {

using Kind = Expr::Kind;

constexpr size_t max_length = 1 << 16;
constexpr int max_depth = 200;
constexpr int max_divisions = 1000;  // each nests the expression one level deeper, even without parentheses
// Products of such a fraction and any size below 2^33 are exact in a double.
constexpr double max_fraction_part = 1 << 20;
constexpr double max_decimal_part = 1000;

using Operands = std::vector<ExprPtr>;

struct Function {
  size_t operand_count;  // 0: one or more
  ExprPtr (*make)(const Operands&);
};

struct Operand {
  ExprPtr expr;
  bool rounded = false;  // PyTorch's value is the nearest double to the expression
  bool decimal = false;  // its product with an integer is the nearest double to the exact product
};

class Parser {
 public:
  Parser(std::string_view text, const Dim::SymbolOf& symbol_of) : text_(text), symbol_of_(symbol_of) {}

  ExprPtr parse() {
    if (text_.size() > max_length) fail("is longer than any that PyTorch writes");
    const Operand result = sum();
    skip_space();
    if (at_ != text_.size()) fail(fmt::format("cannot be parsed from \"{}\" on", rest()));
    return exact(result);
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorCode::invalid_file, fmt::format("the size \"{}{}\" {}", text_.substr(0, 200),
                                                     text_.size() > 200 ? "…" : "", what));
  }

 private:
  // sum := product (('+' | '-') product)*
  Operand sum() {
    const Nesting nesting(*this);
    Operand first = product();
    std::vector<ExprPtr> terms;
    while (true) {
      if (accept("+")) {
        terms.push_back(exact(product()));
      } else if (accept("-")) {
        terms.push_back(dim_expr::negate(exact(product())));
      } else {
        break;
      }
    }
    if (terms.empty()) return first;
    terms.push_back(exact(first));
    return {dim_expr::add(terms)};
  }

  // product := unary (('*' | '/' | '//' | '%') unary)*
  Operand product() {
    Operand first = unary();
    std::vector<ExprPtr> factors;
    const auto so_far = [&] {
      if (factors.empty()) return exact(first);
      factors.push_back(exact(first));
      ExprPtr value = dim_expr::mul(factors);
      factors.clear();
      return value;
    };
    while (true) {
      if (accept("//")) {
        count_division();
        ExprPtr left = so_far();
        first = {dim_expr::floor_div(left, exact(unary()))};
      } else if (accept("%")) {
        count_division();
        ExprPtr left = so_far();
        first = {dim_expr::mod(left, exact(unary()))};
      } else if (accept("/")) {
        factors.push_back(dim_expr::true_div(dim_expr::integer(1), exact(unary())));
      } else if (accept("*")) {
        const Operand factor = unary();
        if (factors.empty() && (first.decimal || factor.decimal)) {
          first = decimal_product(first, factor);
        } else {
          factors.push_back(exact(factor));
        }
      } else {
        return factors.empty() ? first : Operand{so_far()};
      }
    }
  }

  // unary := '-' unary | atom ('**' unary)?
  Operand unary() {
    const Nesting nesting(*this);
    if (accept("-")) return {dim_expr::negate(exact(unary()))};
    if (accept("+")) return unary();
    Operand base = atom();
    if (!accept("**")) return base;
    return {dim_expr::pow(exact(base), exact(unary()))};
  }

  Operand atom() {
    skip_space();
    if (accept("(")) {
      Operand inner = sum();
      expect(")");
      return inner;
    }
    if (at_digit() || peek(".")) return number(number_text());
    const std::string word(identifier());
    if (word.empty()) {
      fail(at_ == text_.size() ? "ends too early" : fmt::format("cannot be parsed from \"{}\" on", rest()));
    }
    return accept("(") ? call(word) : Operand{symbol(word)};
  }

  ExprPtr symbol(const std::string& word) {
    for (const char* reserved : {"oo", "zoo", "int_oo", "nan", "inf", "true", "false", "True", "False"}) {
      if (word == reserved) fail("has no value as an integer");
    }
    // PyTorch names its symbolic floats zf0, zf1, … and zuf0, zuf1, …
    const size_t digits = word.find_first_of("0123456789");
    const std::string stem = word.substr(0, digits);
    if (digits != std::string::npos && (stem == "zf" || stem == "zuf")) fail("depends on a float");
    return symbol_of(word, std::nullopt);
  }

  Operand call(const std::string& function) {
    if (function == "Symbol") return {symbol_call()};
    if (function == "Integer" || function == "Float") {
      Operand value = number(accept_quote() ? quoted_rest() : signed_number_text());
      while (accept(",")) keyword_argument();
      expect(")");
      return value;
    }
    std::vector<Operand> arguments;
    if (!accept(")")) {
      do {
        arguments.push_back(sum());
      } while (accept(","));
      expect(")");
    }
    return apply(function, arguments);
  }

  Operand apply(const std::string& name, const std::vector<Operand>& arguments) const {
    static const std::unordered_map<std::string_view, Function> functions{
        {"Add", {0, [](const Operands& v) { return dim_expr::add(v); }}},
        {"Mul", {0, [](const Operands& v) { return dim_expr::mul(v); }}},
        {"Max", {0, [](const Operands& v) { return dim_expr::max(v); }}},
        {"Min", {0, [](const Operands& v) { return dim_expr::min(v); }}},
        {"Abs",
         {1,
          [](const Operands& v) {
            return dim_expr::max({v[0], dim_expr::negate(v[0])});
          }}},
        {"Pow", {2, [](const Operands& v) { return dim_expr::pow(v[0], v[1]); }}},
        {"PowByNatural", {2, [](const Operands& v) { return dim_expr::pow(v[0], v[1]); }}},
        {"Rational", {2, [](const Operands& v) { return dim_expr::true_div(v[0], v[1]); }}},
        {"FloorDiv", {2, [](const Operands& v) { return dim_expr::floor_div(v[0], v[1]); }}},
        {"CleanDiv", {2, [](const Operands& v) { return dim_expr::floor_div(v[0], v[1]); }}},
        {"CeilDiv", {2, [](const Operands& v) { return dim_expr::ceil(dim_expr::true_div(v[0], v[1])); }}},
        {"Mod", {2, [](const Operands& v) { return dim_expr::mod(v[0], v[1]); }}},
        {"PythonMod", {2, [](const Operands& v) { return dim_expr::mod(v[0], v[1]); }}},
        {"ModularIndexing",
         {3, [](const Operands& v) { return dim_expr::mod(dim_expr::floor_div(v[0], v[1]), v[2]); }}},
    };
    if (arguments.size() == 1) {
      const Operand& argument = arguments.front();
      if (name == "ToFloat" || name == "Identity") return argument;
      if (name == "floor" || name == "FloorToInt") return {dim_expr::floor(argument.expr)};
      if (name == "ceiling" || name == "CeilToInt") return {dim_expr::ceil(argument.expr)};
      if (name == "TruncToInt") return {trunc(argument.expr)};
    }
    if (name == "Mul" && arguments.size() == 2 && (arguments[0].decimal || arguments[1].decimal)) {
      return decimal_product(arguments[0], arguments[1]);
    }
    Operands operands;
    for (const Operand& argument : arguments) operands.push_back(exact(argument));
    if (operands.size() == 2 && (name == "IntTrueDiv" || name == "FloatTrueDiv")) {
      return float_quotient(operands[0], operands[1]);
    }
    const auto found = functions.find(name);
    if (found == functions.end()) {
      fail(fmt::format("has {}(…) of {} operands, which opbridge does not read", name, operands.size()));
    }
    const auto& [operand_count, make] = found->second;
    if (operands.empty() || (operand_count != 0 && operands.size() != operand_count)) {
      fail(fmt::format("has {}(…) of {} operands", name, operands.size()));
    }
    return {make(operands)};
  }

  // floor and ceil of a quotient of two doubles equal those of the exact fraction: with operands below 2^50,
  // rounding cannot carry a non-integral fraction to an integer.
  static Operand float_quotient(const ExprPtr& a, const ExprPtr& b) {
    ExprPtr quotient = dim_expr::true_div(a, b);
    const bool by_power_of_two = b->kind == Kind::integer && b->value > 0 && (b->value & (b->value - 1)) == 0;
    const bool rounded = !by_power_of_two && !dim_expr::is_integral(*quotient);
    return {std::move(quotient), rounded};
  }

  ExprPtr trunc(const ExprPtr& operand) const {
    const ExprPtr down = dim_expr::floor(operand);
    if (dim_expr::compare(*down, *operand) == 0) return down;
    if (const auto least = dim_expr::least(*down); least && *least >= 0) return down;
    fail("truncates a value that may be negative");
  }

  // Symbol('s0', integer=True, positive=True), after the opening parenthesis.
  ExprPtr symbol_call() {
    if (!accept_quote()) fail("has a symbol without a name in quotes");
    std::string name(identifier());
    if (name.empty() || !quoted_rest().empty()) fail("has a symbol whose name is not an identifier");
    bool is_integer = false;
    std::optional<int64_t> least;
    while (accept(",")) {
      const std::string keyword = keyword_argument();
      if (keyword == "integer=True") is_integer = true;
      if (keyword == "nonnegative=True") least = std::max<int64_t>(0, least.value_or(0));
      if (keyword == "positive=True") least = 1;
    }
    expect(")");
    if (!is_integer) fail(fmt::format("depends on {}, which is not an integer", name));
    return symbol_of(name, least);
  }

  ExprPtr symbol_of(const std::string& name, std::optional<int64_t> least) const {
    const Dim dim = symbol_of_(name, least);
    return dim.is_static() ? dim_expr::integer(dim.value()) : dim.expr();
  }

  std::string keyword_argument() {
    std::string text(identifier());
    expect("=");
    skip_space();
    const std::string_view value = at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_]))
                                       ? number_text()
                                       : identifier();
    if (text.empty() || value.empty()) fail(fmt::format("cannot be parsed from \"{}\" on", rest()));
    return text + "=" + std::string(value);
  }

  // An integer, a float that is a fraction with small parts, or a decimal.
  Operand number(std::string_view digits) const {
    int64_t integer = 0;
    const char* end = digits.data() + digits.size();
    const auto as_integer = std::from_chars(digits.data(), end, integer);
    if (as_integer.ec == std::errc() && as_integer.ptr == end) return {dim_expr::integer(integer)};
    double value = 0;
    const auto as_double = std::from_chars(digits.data(), end, value);
    const bool is_float = digits.find_first_of(".eE") != std::string_view::npos;
    if (as_double.ec != std::errc() || as_double.ptr != end || !is_float) {
      fail(fmt::format("has the number {}, which exceeds 64 bits", digits));
    }
    for (double q = 1; q <= max_fraction_part; q *= 2) {
      const double p = value * q;
      if (std::abs(p) > max_fraction_part) break;
      if (p == std::floor(p)) {
        return {fraction(p, q)};
      }
    }
    // The double is so close to the decimal that its product with an integer n rounds to the exact one, where
    // that is an integer. Where it is not, it is too far from one for rounding to reach it.
    for (double q = 10; q <= max_decimal_part; q *= 10) {
      const double p = std::round(value * q);
      const bool is_decimal = p > 0 && p <= max_fraction_part && p / q == value;
      if (is_decimal && std::abs(std::fma(value, q, -p)) <= std::ldexp(p, -54))
        return {fraction(p, q), true, true};
    }
    fail(fmt::format("multiplies by {}, which a double has to round", digits));
  }

  static ExprPtr fraction(double p, double q) {
    return dim_expr::true_div(dim_expr::integer(static_cast<int64_t>(p)),
                              dim_expr::integer(static_cast<int64_t>(q)));
  }

  Operand decimal_product(const Operand& a, const Operand& b) const {
    const Operand& factor = a.decimal ? b : a;
    if (factor.rounded || !dim_expr::is_integral(*factor.expr))
      fail("computes with fractions that a double has to round");
    return {dim_expr::mul({a.expr, b.expr}), true};
  }

  ExprPtr exact(const Operand& operand) const {
    if (operand.rounded) fail("computes with a quotient that a double has to round");
    return operand.expr;
  }

  // Counts how deep the parser is, so that no text can exhaust the stack.
  class Nesting {
   public:
    explicit Nesting(Parser& parser) : parser_(parser) {
      if (++parser_.depth_ > max_depth) parser_.fail("is nested too deeply");
    }
    ~Nesting() { --parser_.depth_; }

   private:
    Parser& parser_;
  };

  void count_division() {
    if (++divisions_ > max_divisions) fail("divides too often");
  }

  void skip_space() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  bool peek(std::string_view token) {
    skip_space();
    return text_.substr(at_).starts_with(token);
  }
  bool accept(std::string_view token) {
    if (!peek(token)) return false;
    at_ += token.size();
    return true;
  }
  void expect(std::string_view token) {
    if (!accept(token)) fail(fmt::format("lacks \"{}\" before \"{}\"", token, rest()));
  }
  bool at_digit() const { return at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])); }
  std::string_view rest() const { return text_.substr(at_, 30); }

  template <class Predicate>
  std::string_view take_while(Predicate predicate) {
    const size_t start = at_;
    while (at_ < text_.size() && predicate(text_[at_])) ++at_;
    return text_.substr(start, at_ - start);
  }
  std::string_view identifier() {
    skip_space();
    if (at_digit()) return {};
    return take_while([](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; });
  }
  std::string_view number_text() {
    char last = '\0';
    return take_while([&](char c) {
      const bool exponent_sign = (c == '-' || c == '+') && (last == 'e' || last == 'E');
      last = c;
      return std::isdigit(static_cast<unsigned char>(c)) || c == '.' || c == 'e' || c == 'E' || exponent_sign;
    });
  }
  std::string_view signed_number_text() {
    skip_space();
    const size_t start = at_;
    if (at_ < text_.size() && text_[at_] == '-') ++at_;
    number_text();
    return text_.substr(start, at_ - start);
  }
  bool accept_quote() {
    skip_space();
    quote_ = at_ < text_.size() ? text_[at_] : '\0';
    if (quote_ != '\'' && quote_ != '"') return false;
    ++at_;
    return true;
  }
  std::string_view quoted_rest() {
    const std::string_view inside = take_while([&](char c) { return c != quote_ && c != '\\'; });
    if (at_ == text_.size() || text_[at_] != quote_) fail("has an unterminated string");
    ++at_;
    return inside;
  }

  std::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
  int divisions_ = 0;
  char quote_ = '\0';
  const Dim::SymbolOf& symbol_of_;
};

}  // namespace

Dim Dim::parse(std::string_view text, const SymbolOf& symbol_of) {
  Parser parser(text, symbol_of);
  try {
    return Dim(parser.parse());
  } catch (const Error& error) {
    if (error.code() == ErrorCode::invalid_file) throw;
    parser.fail("cannot be: " + error.message());
  }
}

}  // namespace opbridge
