#include "lowering/term.h"

#include <algorithm>
#include <cmath>

namespace opbridge::lowering {

constexpr ElementType wide = ElementType::float64;

Term::Term(GraphBuilder& g, Value tensor) : g_(&g), tensor_(g.cast(tensor, wide)) {}

Term Term::size(GraphBuilder& g, const Dim& dim) {
  return dim.is_static() ? Term(static_cast<double>(dim.value())) : Term(g, g.size(dim));
}

Term Term::range(GraphBuilder& g, const Term& count, const Dim& dim) {
  const auto scalar = [&](int64_t value) { return g.scalar(value, ElementType::int64); };
  Value range = g.op("Range", scalar(0), g.cast(count.value(g), ElementType::int64), scalar(1));
  return {g, g.typed(range, std::vector{dim})};
}

Value Term::value(GraphBuilder& g) const { return is_number() ? g.scalar(number_, wide) : tensor_; }

Term Term::combine(std::string_view op, double (*of_numbers)(double, double), const Term& a, const Term& b) {
  if (a.is_number() && b.is_number()) return of_numbers(a.number_, b.number_);
  GraphBuilder& g = a.is_number() ? *b.g_ : *a.g_;
  return {g, g.op(op, a.value(g), b.value(g))};
}

Term::Condition Term::compare(std::string_view op, bool known, const Term& a, const Term& b) {
  if (a.is_number() && b.is_number()) return {known, {}};
  GraphBuilder& g = a.is_number() ? *b.g_ : *a.g_;
  return {false, g.op(op, a.value(g), b.value(g))};
}

Term operator+(const Term& a, const Term& b) {
  return Term::combine(
      "Add", [](double x, double y) { return x + y; }, a, b);
}

Term operator-(const Term& a, const Term& b) {
  return Term::combine(
      "Sub", [](double x, double y) { return x - y; }, a, b);
}

Term operator*(const Term& a, const Term& b) {
  return Term::combine(
      "Mul", [](double x, double y) { return x * y; }, a, b);
}

Term operator/(const Term& a, const Term& b) {
  return Term::combine(
      "Div", [](double x, double y) { return x / y; }, a, b);
}

Term max(const Term& a, const Term& b) {
  return Term::combine(
      "Max", [](double x, double y) { return std::max(x, y); }, a, b);
}

Term min(const Term& a, const Term& b) {
  return Term::combine(
      "Min", [](double x, double y) { return std::min(x, y); }, a, b);
}

Term abs(const Term& a) {
  if (a.is_number()) return std::abs(a.number_);
  return {*a.g_, a.g_->op("Abs", a.tensor_)};
}

Term sin(const Term& a) {
  if (a.is_number()) return std::sin(a.number_);
  return {*a.g_, a.g_->op("Sin", a.tensor_)};
}

Term floor(const Term& a) {
  if (a.is_number()) return std::floor(a.number_);
  return {*a.g_, a.g_->op("Floor", a.tensor_)};
}

Term to_float32(const Term& a) {
  if (a.is_number()) return static_cast<double>(static_cast<float>(a.number_));
  return {*a.g_, a.g_->cast(a.tensor_, ElementType::float32)};
}

Term::Condition less(const Term& a, const Term& b) {
  return Term::compare("Less", a.number_ < b.number_, a, b);
}

Term::Condition equal(const Term& a, const Term& b) {
  return Term::compare("Equal", a.number_ == b.number_, a, b);
}

Term choose(GraphBuilder& g, const Term::Condition& condition, const Term& yes, const Term& no) {
  if (!condition.tensor) return condition.known ? yes : no;
  return {g, g.op("Where", condition.tensor, yes.value(g), no.value(g))};
}

}  // namespace opbridge::lowering
