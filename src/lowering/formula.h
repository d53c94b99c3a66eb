// Arithmetic that reads like a formula: `grad * (1 - y * y)`.
#pragma once

#include <optional>
#include <string_view>

#include "lowering/common.h"

namespace opbridge::lowering {

// A tensor or a number. Operations make nodes, except those of two constants. The tensors of one operation
// have the same element type, which a number takes. Numbers are computed in float64, as in Python.
class Formula {
 public:
  Formula(GraphBuilder& g, Value tensor) : g_(&g), tensor_(tensor) {}
  Formula(GraphBuilder& g, const Scalar& number);  // which may be known only when the model runs
  Formula(double number) : number_(number) {}      // NOLINT: a number is a formula
  // A number as a tensor of the element type of `like`.
  static Formula number(double number, const Formula& like);
  // A size, as a number of the element type of `like`.
  static Formula size(const Dim& dim, const Formula& like);

  operator Value() const;  // NOLINT: of a tensor
  Scalar scalar() const;   // of a number
  std::optional<double> constant() const { return g_ ? std::nullopt : std::optional(number_); }

  friend Formula operator+(const Formula& a, const Formula& b) { return node("Add", a, b); }
  friend Formula operator-(const Formula& a, const Formula& b) { return node("Sub", a, b); }
  friend Formula operator*(const Formula& a, const Formula& b) {
    if (a.is(1)) return b;
    return b.is(1) ? a : node("Mul", a, b);
  }
  friend Formula operator/(const Formula& a, const Formula& b) { return b.is(1) ? a : node("Div", a, b); }
  friend Formula operator-(const Formula& a) { return node("Neg", a); }

  friend Formula operator<(const Formula& a, const Formula& b) { return node("Less", a, b); }
  friend Formula operator>(const Formula& a, const Formula& b) { return node("Greater", a, b); }
  friend Formula operator<=(const Formula& a, const Formula& b) { return node("LessOrEqual", a, b); }
  friend Formula operator>=(const Formula& a, const Formula& b) { return node("GreaterOrEqual", a, b); }
  friend Formula operator==(const Formula& a, const Formula& b) { return node("Equal", a, b); }
  friend Formula operator&&(const Formula& a, const Formula& b) { return node("And", a, b); }
  friend Formula operator||(const Formula& a, const Formula& b) { return node("Or", a, b); }
  friend Formula operator!(const Formula& a) { return node("Not", a); }

  friend Formula where(const Formula& condition, const Formula& yes, const Formula& no);
  friend Formula node(std::string_view op, const Formula& a);
  friend Formula node(std::string_view op, const Formula& a, const Formula& b);

  // Over these axes, which are kept with size 1. No axes: over none.
  friend Formula sum(const Formula& a, std::vector<int64_t> axes);
  friend Formula mean(const Formula& a, std::vector<int64_t> axes);

 private:
  bool is(double number) const { return g_ == nullptr && number_ == number; }
  Value like(const Formula& other) const;

  GraphBuilder* g_ = nullptr;
  Value tensor_;
  bool is_number_ = false;  // of a tensor: whether it is a number known only when the model runs
  double number_ = 0;
};

inline Formula abs(const Formula& a) { return node("Abs", a); }
inline Formula erf(const Formula& a) { return node("Erf", a); }
inline Formula exp(const Formula& a) { return node("Exp", a); }
inline Formula log(const Formula& a) { return node("Log", a); }
inline Formula sign(const Formula& a) { return node("Sign", a); }
inline Formula sigmoid(const Formula& a) { return node("Sigmoid", a); }
inline Formula sqrt(const Formula& a) { return node("Sqrt", a); }
inline Formula tanh(const Formula& a) { return node("Tanh", a); }
inline Formula max(const Formula& a, const Formula& b) { return node("Max", a, b); }

}  // namespace opbridge::lowering
