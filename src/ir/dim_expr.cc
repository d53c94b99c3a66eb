#include "ir/dim_expr.h"

#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "opbridge/error.h"

namespace opbridge::dim_expr {
namespace {

using Kind = Expr::Kind;
using Wide = __int128;  // holds every sum and product of two int64_t

[[noreturn]] void overflow() {
  throw Error(ErrorCode::invalid_argument, "a dimension has an integer beyond 64 bits");
}

[[noreturn]] void division_by_zero() {
  throw Error(ErrorCode::invalid_argument, "a dimension divides by zero");
}

int64_t narrow(Wide value) {
  if (value < std::numeric_limits<int64_t>::min() || value > std::numeric_limits<int64_t>::max()) overflow();
  return static_cast<int64_t>(value);
}

Wide gcd(Wide a, Wide b) {
  while (b != 0) a = std::exchange(b, a % b);
  return a < 0 ? -a : a;
}

int64_t floor_div(int64_t a, int64_t b) {
  const Wide quotient = Wide(a) / b;
  return narrow(quotient - (Wide(a) % b != 0 && (a < 0) != (b < 0)));
}

int64_t mod(int64_t a, int64_t b) { return narrow(a - Wide(floor_div(a, b)) * b); }

int64_t power(int64_t base, int64_t exponent) {
  int64_t result = 1;
  for (Wide square = base; exponent > 0; exponent /= 2) {
    if (exponent % 2 == 1) result = narrow(result * square);
    if (exponent > 1) square = narrow(square * square);
  }
  return result;
}

// A reduced fraction with a positive denominator.
struct Rational {
  int64_t p = 1;
  int64_t q = 1;

  static Rational of(Wide p, Wide q) {
    if (q == 0) division_by_zero();
    const Wide divisor = q < 0 ? -gcd(p, q) : gcd(p, q);
    return {narrow(p / divisor), narrow(q / divisor)};
  }
  Rational operator*(Rational b) const { return of(Wide(p) * b.p, Wide(q) * b.q); }
  Rational operator+(Rational b) const {
    const Wide divisor = gcd(q, b.q);
    return of(narrow(p * (b.q / divisor)) + Wide(narrow(b.p * (q / divisor))), narrow(q / divisor * b.q));
  }
  Rational inverse() const { return of(q, p); }
  Rational to(int64_t exponent) const {
    const Rational base = exponent < 0 ? inverse() : *this;
    const int64_t magnitude = narrow(exponent < 0 ? -Wide(exponent) : Wide(exponent));
    return {power(base.p, magnitude), power(base.q, magnitude)};
  }
  bool is_one() const { return p == 1 && q == 1; }
};

struct Less {
  bool operator()(const ExprPtr& a, const ExprPtr& b) const { return compare(*a, *b) < 0; }
};

ExprPtr make(Kind kind, std::vector<ExprPtr> operands) {
  return std::make_shared<const Expr>(Expr{kind, 0, {}, {}, {}, std::move(operands)});
}

bool is_integer(const Expr& expr) { return expr.kind == Kind::integer; }

// coefficient * factor^exponent * …: products, fractions and powers become canonical through this form. A sum
// among the factors is primitive: its coefficients are coprime integers, and the first one is positive.
class Product {
 public:
  Product() = default;
  explicit Product(const ExprPtr& expr) { multiply(expr, 1); }

  Rational coefficient;

  void multiply(const ExprPtr& expr, int64_t exponent);
  ExprPtr expr() const;
  ExprPtr numerator() const { return positive_part(1, coefficient.p); }
  ExprPtr denominator() const { return positive_part(-1, coefficient.q); }

 private:
  ExprPtr positive_part(int sign, int64_t integer_factor) const;

  std::map<ExprPtr, int64_t, Less> factors_;
};

struct Term {
  Rational coefficient;
  ExprPtr rest;  // its own coefficient is 1
};

// Splits an expression without making a Product, if it is a plain factor or a number times one.
std::optional<Term> quick_split(const ExprPtr& expr) {
  const auto is_plain = [](Kind kind) {
    return kind != Kind::integer && kind != Kind::add && kind != Kind::mul && kind != Kind::true_div &&
           kind != Kind::pow;
  };
  if (is_plain(expr->kind)) return Term{{}, expr};
  if (expr->kind != Kind::mul || expr->operands.size() != 2) return std::nullopt;
  const ExprPtr &first = expr->operands[0], &second = expr->operands[1];
  if (!is_integer(*first) || !is_plain(second->kind)) return std::nullopt;
  return Term{{first->value, 1}, second};
}

Term split(const ExprPtr& expr) {
  if (std::optional<Term> quick = quick_split(expr)) return *std::move(quick);
  Product product(expr);
  const Rational coefficient = std::exchange(product.coefficient, Rational());
  return {coefficient, product.expr()};
}

ExprPtr scaled(const ExprPtr& term, Rational by) {
  if (by.is_one()) return term;
  if (const std::optional<Term> quick = quick_split(term)) {
    const Rational factor = quick->coefficient * by;
    if (factor.is_one()) return quick->rest;
    if (factor.q == 1 && factor.p != 0) return make(Kind::mul, {integer(factor.p), quick->rest});
  }
  Product product(term);
  product.coefficient = product.coefficient * by;
  return product.expr();
}

std::vector<Term> terms_of(const ExprPtr& expr) {
  if (expr->kind != Kind::add) return {split(expr)};
  std::vector<Term> terms;
  for (const ExprPtr& operand : expr->operands) terms.push_back(split(operand));
  return terms;
}

// A canonical sum times a number; the order of its terms is kept.
ExprPtr scaled_sum(const Expr& sum, Rational by) {
  std::vector<ExprPtr> terms;
  for (const ExprPtr& operand : sum.operands) terms.push_back(scaled(operand, by));
  return make(Kind::add, std::move(terms));
}

Rational content_of(const ExprPtr& sum) {
  const std::vector<Term> terms = terms_of(sum);
  Wide p = 0;
  int64_t q = 1;
  for (const Term& term : terms) {
    p = gcd(p, term.coefficient.p);
    q = narrow(Wide(q) / gcd(q, term.coefficient.q) * term.coefficient.q);
  }
  return Rational::of(terms.front().coefficient.p < 0 ? -p : p, q);
}

void Product::multiply(const ExprPtr& expr, int64_t exponent) {
  if (exponent == 0) return;
  switch (expr->kind) {
    case Kind::integer:
      coefficient = coefficient * Rational{expr->value, 1}.to(exponent);
      return;
    case Kind::mul:
      for (const ExprPtr& operand : expr->operands) multiply(operand, exponent);
      return;
    case Kind::true_div:
      multiply(expr->operands[0], exponent);
      multiply(expr->operands[1], narrow(-Wide(exponent)));
      return;
    case Kind::pow:
      if (is_integer(*expr->operands[1])) {
        multiply(expr->operands[0], narrow(Wide(exponent) * expr->operands[1]->value));
        return;
      }
      break;
    default:
      break;
  }
  ExprPtr factor = expr;
  if (expr->kind == Kind::add) {
    const Rational content = content_of(expr);
    coefficient = coefficient * content.to(exponent);
    if (!content.is_one()) factor = scaled_sum(*expr, content.inverse());
  }
  int64_t& known = factors_[factor];
  known = narrow(Wide(known) + exponent);
  if (known == 0) factors_.erase(factor);
}

ExprPtr Product::positive_part(int sign, int64_t integer_factor) const {
  std::vector<ExprPtr> operands;
  if (integer_factor != 1) operands.push_back(integer(integer_factor));
  for (const auto& [factor, exponent] : factors_) {
    if ((exponent > 0) != (sign > 0)) continue;
    const int64_t magnitude = narrow(Wide(exponent) * sign);
    operands.push_back(magnitude == 1 ? factor : make(Kind::pow, {factor, integer(magnitude)}));
  }
  if (operands.empty()) return integer(1);
  if (operands.size() == 1) return operands.front();
  if (operands.size() == 2 && integer_factor != 1 && operands[1]->kind == Kind::add) {
    return scaled_sum(*operands[1], {integer_factor, 1});
  }
  return make(Kind::mul, std::move(operands));
}

ExprPtr Product::expr() const {
  if (coefficient.p == 0) return integer(0);
  if (factors_.size() == 1) {
    const auto& [factor, exponent] = *factors_.begin();
    if (factor->kind == Kind::add && exponent == 1) {
      return coefficient.is_one() ? factor : scaled_sum(*factor, coefficient);
    }
  }
  ExprPtr below = denominator();
  if (is_integer(*below) && below->value == 1) return numerator();
  return make(Kind::true_div, {numerator(), std::move(below)});
}

// Numerator and denominator, both integral; nothing if a sum contains fractions with symbolic denominators.
std::optional<std::pair<ExprPtr, ExprPtr>> as_fraction(const ExprPtr& expr) {
  ExprPtr above, below;
  if (expr->kind == Kind::add) {
    below = integer(content_of(expr).q);
    above = mul({expr, below});
  } else {
    const Product product(expr);
    above = product.numerator();
    below = product.denominator();
  }
  if (!is_integral(*above) || !is_integral(*below)) return std::nullopt;
  return std::pair(std::move(above), std::move(below));
}

ExprPtr extremum(Kind kind, const std::vector<ExprPtr>& operands) {
  std::set<ExprPtr, Less> distinct;
  std::optional<int64_t> constant;
  const std::function<void(const ExprPtr&)> gather = [&](const ExprPtr& operand) {
    if (operand->kind == kind) {
      for (const ExprPtr& inner : operand->operands) gather(inner);
    } else if (!is_integer(*operand)) {
      distinct.insert(operand);
    } else if (!constant) {
      constant = operand->value;
    } else {
      constant =
          kind == Kind::min ? std::min(*constant, operand->value) : std::max(*constant, operand->value);
    }
  };
  for (const ExprPtr& operand : operands) gather(operand);
  if (constant) distinct.insert(integer(*constant));
  if (distinct.empty())
    throw Error(ErrorCode::invalid_argument, "a dimension is the minimum or maximum of nothing");
  if (distinct.size() == 1) return *distinct.begin();
  return make(kind, {distinct.begin(), distinct.end()});
}

// floor and ceil are monotone, so they commute with a minimum or maximum.
ExprPtr round_operands(const Expr& expr, ExprPtr (*round)(const ExprPtr&)) {
  std::vector<ExprPtr> operands;
  for (const ExprPtr& operand : expr.operands) operands.push_back(round(operand));
  return extremum(expr.kind, operands);
}

}  // namespace

bool is_integral(const Expr& expr) {
  switch (expr.kind) {
    case Kind::true_div:
      return false;
    case Kind::add:
    case Kind::mul:
    case Kind::min:
    case Kind::max:
      for (const ExprPtr& operand : expr.operands) {
        if (!is_integral(*operand)) return false;
      }
      return true;
    default:
      return true;
  }
}

namespace {

// Orders u9 before u10: symbols that a second capture numbers otherwise, but in the same order, keep it.
int compare_names(std::string_view a, std::string_view b) {
  const auto without_number = [](std::string_view name) {
    return name.substr(0, name.find_last_not_of("0123456789") + 1);
  };
  if (const int stems = without_number(a).compare(without_number(b)); stems != 0) return stems;
  return a.size() == b.size() ? a.compare(b) : a.size() < b.size() ? -1 : 1;
}

}  // namespace

int compare(const Expr& a, const Expr& b) {
  if (&a == &b) return 0;
  if (a.kind != b.kind) return a.kind < b.kind ? -1 : 1;
  if (a.value != b.value) return a.value < b.value ? -1 : 1;
  if (const int names = compare_names(a.name, b.name); names != 0) return names;
  for (size_t i = 0; i < a.operands.size() && i < b.operands.size(); ++i) {
    if (const int order = compare(*a.operands[i], *b.operands[i]); order != 0) return order;
  }
  if (a.operands.size() == b.operands.size()) return 0;
  return a.operands.size() < b.operands.size() ? -1 : 1;
}

ExprPtr integer(int64_t value) {
  return std::make_shared<const Expr>(Expr{Kind::integer, value, {}, {}, {}, {}});
}

ExprPtr symbol(std::string name, std::optional<int64_t> least, std::optional<int64_t> most) {
  return std::make_shared<const Expr>(Expr{Kind::symbol, 0, std::move(name), least, most, {}});
}

ExprPtr add(const std::vector<ExprPtr>& terms) {
  std::map<ExprPtr, Rational, Less> sum;
  for (const ExprPtr& summand : terms) {
    for (const Term& term : terms_of(summand)) {
      const auto [entry, inserted] = sum.try_emplace(term.rest, term.coefficient);
      if (!inserted) entry->second = entry->second + term.coefficient;
    }
  }
  std::vector<ExprPtr> operands;
  ExprPtr constant;  // goes last
  for (const auto& [rest, coefficient] : sum) {
    if (coefficient.p == 0) continue;
    ExprPtr term = scaled(rest, coefficient);
    if (is_integer(*rest)) {
      constant = std::move(term);
    } else {
      operands.push_back(std::move(term));
    }
  }
  if (constant) operands.push_back(std::move(constant));
  if (operands.empty()) return integer(0);
  return operands.size() == 1 ? operands.front() : make(Kind::add, std::move(operands));
}

ExprPtr mul(const std::vector<ExprPtr>& factors) {
  Product product;
  for (const ExprPtr& factor : factors) product.multiply(factor, 1);
  return product.expr();
}

ExprPtr negate(const ExprPtr& a) { return mul({integer(-1), a}); }

ExprPtr true_div(const ExprPtr& a, const ExprPtr& b) {
  Product product(a);
  product.multiply(b, -1);
  return product.expr();
}

ExprPtr floor_div(const ExprPtr& a, const ExprPtr& b) {
  const ExprPtr quotient = true_div(a, b);
  if (is_integral(*quotient)) return quotient;
  if (!is_integral(*a) || !is_integral(*b)) return floor(quotient);

  Product fraction(a);
  fraction.multiply(b, -1);
  const ExprPtr above = fraction.numerator();
  const ExprPtr below = fraction.denominator();
  if (!is_integer(*below)) return make(Kind::floor_div, {above, below});
  const int64_t divisor = below->value;
  if (above->kind == Kind::floor_div && is_integer(*above->operands[1]) && above->operands[1]->value > 0) {
    return floor_div(above->operands[0], integer(narrow(Wide(divisor) * above->operands[1]->value)));
  }
  // Multiples of the divisor are taken out: (2*x + y + 3)//2 is x + (y + 1)//2 + 1.
  std::vector<ExprPtr> outside, inside;
  for (const Term& term : terms_of(above)) {
    int64_t whole = 0;
    if (term.coefficient.p % divisor == 0 || is_integer(*term.rest)) {
      whole = floor_div(term.coefficient.p, divisor);
    }
    outside.push_back(mul({integer(whole), term.rest}));
    inside.push_back(mul({integer(narrow(term.coefficient.p - Wide(whole) * divisor)), term.rest}));
  }
  const ExprPtr rest = add(inside);
  if (is_integer(*rest)) {
    outside.push_back(integer(floor_div(rest->value, divisor)));
  } else if (compare(*rest, *above) == 0) {
    outside.push_back(make(Kind::floor_div, {rest, below}));
  } else {
    outside.push_back(floor_div(rest, below));
  }
  return add(outside);
}

ExprPtr mod(const ExprPtr& a, const ExprPtr& b) {
  if (!is_integral(*a) || !is_integral(*b)) {
    throw Error(ErrorCode::invalid_argument, "a dimension takes the remainder of a fraction");
  }
  if (is_integral(*true_div(a, b))) return integer(0);
  if (!is_integer(*b)) return make(Kind::mod, {a, b});
  if (is_integer(*a)) return integer(mod(a->value, b->value));
  if (b->value < 0) return make(Kind::mod, {a, b});
  std::vector<ExprPtr> rest;
  for (const Term& term : terms_of(a)) {
    rest.push_back(mul({integer(mod(term.coefficient.p, b->value)), term.rest}));
  }
  const ExprPtr reduced = add(rest);
  if (is_integer(*reduced)) return integer(mod(reduced->value, b->value));
  return make(Kind::mod, {reduced, b});
}

ExprPtr pow(const ExprPtr& base, const ExprPtr& exponent) {
  if (is_integer(*exponent)) {
    Product product;
    product.multiply(base, exponent->value);
    return product.expr();
  }
  if (!is_integral(*exponent)) {
    throw Error(ErrorCode::invalid_argument, "a dimension has a fraction as exponent");
  }
  if (is_integer(*base) && base->value == 1) return base;
  return make(Kind::pow, {base, exponent});
}

ExprPtr floor(const ExprPtr& a) {
  if (is_integral(*a)) return a;
  if (const auto fraction = as_fraction(a)) return floor_div(fraction->first, fraction->second);
  if (a->kind == Kind::min || a->kind == Kind::max) return round_operands(*a, floor);
  return make(Kind::floor, {a});
}

ExprPtr ceil(const ExprPtr& a) {
  if (is_integral(*a)) return a;
  if (const auto fraction = as_fraction(a)) {
    const auto& [above, below] = *fraction;
    if (is_integer(*below)) return floor_div(add({above, integer(below->value - 1)}), below);
    return negate(floor_div(negate(above), below));
  }
  if (a->kind == Kind::min || a->kind == Kind::max) return round_operands(*a, ceil);
  return make(Kind::ceil, {a});
}

ExprPtr min(const std::vector<ExprPtr>& operands) { return extremum(Kind::min, operands); }
ExprPtr max(const std::vector<ExprPtr>& operands) { return extremum(Kind::max, operands); }

ExprPtr substitute(const Expr& expr, const std::function<ExprPtr(const Expr& symbol)>& replace) {
  std::vector<ExprPtr> operands;
  for (const ExprPtr& operand : expr.operands) operands.push_back(substitute(*operand, replace));
  const auto expect = [&](size_t count) {
    if (operands.size() != count) {
      throw Error(ErrorCode::internal, "an operator of a dimension has the wrong number of operands");
    }
  };
  switch (expr.kind) {
    case Kind::integer:
      return integer(expr.value);
    case Kind::symbol:
      return replace(expr);
    case Kind::add:
      return add(operands);
    case Kind::mul:
      return mul(operands);
    case Kind::min:
      return min(operands);
    case Kind::max:
      return max(operands);
    case Kind::floor_div:
      expect(2);
      return floor_div(operands[0], operands[1]);
    case Kind::mod:
      expect(2);
      return mod(operands[0], operands[1]);
    case Kind::pow:
      expect(2);
      return pow(operands[0], operands[1]);
    case Kind::true_div:
      expect(2);
      return true_div(operands[0], operands[1]);
    case Kind::floor:
      expect(1);
      return floor(operands[0]);
    case Kind::ceil:
      expect(1);
      return ceil(operands[0]);
  }
  throw Error(ErrorCode::internal, "a dimension has an operator of unknown kind");
}

}  // namespace opbridge::dim_expr
