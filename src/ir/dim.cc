#include "opbridge/dim.h"

#include <string_view>
#include <unordered_set>

#include "ir/dim_expr.h"
#include "opbridge/error.h"

namespace opbridge {
namespace {

using Kind = Expr::Kind;

bool both_static(const Dim& a, const Dim& b) { return a.is_static() && b.is_static(); }

ExprPtr expr_of(const Dim& dim) { return dim.is_static() ? dim_expr::integer(dim.value()) : dim.expr(); }

// Python's precedence levels.
enum class Binds : uint8_t { sum, product, power, atom };

std::string text_of(const Expr& expr, Binds around);

std::string call_text(std::string_view function, const Expr& expr) {
  std::string text(function);
  for (const ExprPtr& operand : expr.operands) {
    text += (text.back() == '(' ? "" : ", ") + text_of(*operand, Binds::sum);
  }
  return text + ")";
}

std::string sum_text(const Expr& expr) {
  std::string text;
  for (const ExprPtr& operand : expr.operands) {
    std::string term = text_of(*operand, Binds::sum);
    if (text.empty()) {
      text = std::move(term);
    } else if (term.front() == '-') {
      text += " - " + term.substr(1);
    } else {
      text += " + " + term;
    }
  }
  return text;
}

// -s0 rather than -1*s0. Quotients among the factors get parentheses: `*` and `//` have equal precedence.
std::string product_text(const Expr& expr) {
  std::string text;
  for (const ExprPtr& operand : expr.operands) {
    if (!text.empty() && text != "-") text += '*';
    if (operand->kind == Kind::integer) {
      text = operand->value == -1 ? "-" : std::to_string(operand->value);
    } else {
      text += text_of(*operand, Binds::power);
    }
  }
  return text;
}

// The text, in parentheses if it binds weaker than its context.
std::string text_of(const Expr& expr, Binds around) {
  Binds own = Binds::atom;
  std::string text;
  switch (expr.kind) {
    case Kind::integer:
      own = expr.value < 0 ? Binds::product : Binds::atom;
      text = std::to_string(expr.value);
      break;
    case Kind::symbol:
      text = expr.name;
      break;
    case Kind::add:
      own = Binds::sum;
      text = sum_text(expr);
      break;
    case Kind::mul:
      own = Binds::product;
      text = product_text(expr);
      break;
    case Kind::floor_div:
    case Kind::true_div:
      own = Binds::product;
      text = text_of(*expr.operands[0], Binds::power) + (expr.kind == Kind::floor_div ? "//" : "/") +
             text_of(*expr.operands[1], Binds::power);
      break;
    case Kind::pow:
      own = Binds::power;
      text = text_of(*expr.operands[0], Binds::atom) + "**" + text_of(*expr.operands[1], Binds::atom);
      break;
    case Kind::mod:
      text = call_text("Mod(", expr);
      break;
    case Kind::min:
      text = call_text("Min(", expr);
      break;
    case Kind::max:
      text = call_text("Max(", expr);
      break;
    case Kind::floor:
      text = call_text("floor(", expr);
      break;
    case Kind::ceil:
      text = call_text("ceiling(", expr);
      break;
  }
  return own < around ? "(" + text + ")" : text;
}

void gather_symbols(const Expr& expr, std::unordered_set<std::string_view>& known,
                    std::vector<std::string>& names) {
  if (expr.kind == Kind::symbol && known.insert(expr.name).second) names.push_back(expr.name);
  for (const ExprPtr& operand : expr.operands) gather_symbols(*operand, known, names);
}

}  // namespace

Dim::Dim(ExprPtr expr) {
  if (expr == nullptr) throw Error(ErrorCode::internal, "a dimension was made without an expression");
  expr = dim_expr::substitute(*expr, dim_expr::same_symbol);
  if (expr->kind == Kind::integer) {
    value_ = expr->value;
  } else {
    expr_ = std::move(expr);
  }
}

Dim Dim::symbol(std::string name, std::optional<int64_t> least) {
  return symbol_between(std::move(name), least, std::nullopt);
}

Dim Dim::symbol_between(std::string name, std::optional<int64_t> least, std::optional<int64_t> most) {
  return Dim(dim_expr::symbol(std::move(name), least, most));
}

int64_t Dim::value() const {
  if (!is_static()) throw Error(ErrorCode::internal, "the dimension " + str() + " was read as an integer");
  return value_;
}

std::string Dim::str() const { return is_static() ? std::to_string(value_) : text_of(*expr_, Binds::sum); }

std::optional<int64_t> Dim::least() const { return is_static() ? value_ : dim_expr::least(*expr_); }

int64_t Dim::evaluate(const std::function<int64_t(const std::string&)>& value_of_symbol) const {
  if (is_static()) return value_;
  const Dim result(dim_expr::substitute(
      *expr_, [&](const Expr& symbol) { return dim_expr::integer(value_of_symbol(symbol.name)); }));
  if (!result.is_static()) {
    throw Error(ErrorCode::invalid_argument,
                "the dimension " + str() + " is " + result.str() + " for the given sizes, not an integer");
  }
  return result.value_;
}

std::vector<std::string> Dim::symbols() const {
  std::vector<std::string> names;
  std::unordered_set<std::string_view> known;
  if (!is_static()) gather_symbols(*expr_, known, names);
  return names;
}

bool operator==(const Dim& a, const Dim& b) {
  if (a.is_static() || b.is_static()) return a.is_static() && b.is_static() && a.value_ == b.value_;
  return dim_expr::compare(*a.expr_, *b.expr_) == 0;
}

// Integers, the common case, need no expressions. dim_expr refuses results that overflow int64_t.
Dim operator+(const Dim& a, const Dim& b) {
  int64_t sum;
  if (both_static(a, b) && !__builtin_add_overflow(a.value(), b.value(), &sum)) return sum;
  return Dim(dim_expr::add({expr_of(a), expr_of(b)}));
}
Dim operator-(const Dim& a, const Dim& b) {
  int64_t difference;
  if (both_static(a, b) && !__builtin_sub_overflow(a.value(), b.value(), &difference)) return difference;
  return Dim(dim_expr::add({expr_of(a), dim_expr::negate(expr_of(b))}));
}
Dim operator*(const Dim& a, const Dim& b) {
  int64_t product;
  if (both_static(a, b) && !__builtin_mul_overflow(a.value(), b.value(), &product)) return product;
  return Dim(dim_expr::mul({expr_of(a), expr_of(b)}));
}
Dim floor_div(const Dim& a, const Dim& b) { return Dim(dim_expr::floor_div(expr_of(a), expr_of(b))); }
Dim mod(const Dim& a, const Dim& b) { return Dim(dim_expr::mod(expr_of(a), expr_of(b))); }
Dim min(const Dim& a, const Dim& b) { return Dim(dim_expr::min({expr_of(a), expr_of(b)})); }
Dim max(const Dim& a, const Dim& b) { return Dim(dim_expr::max({expr_of(a), expr_of(b)})); }

}  // namespace opbridge
