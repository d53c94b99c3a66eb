// Arithmetic for formulas whose operands are constants or tensors.
#pragma once

#include "opbridge/symbolic.h"

namespace opbridge::lowering {

// A number, or a float64 tensor. Operations on numbers are evaluated at export; others make nodes.
class Term {
 public:
  Term(double number) : number_(number) {}  // NOLINT: a number is a term
  Term(GraphBuilder& g, Value tensor);      // converted to float64
  static Term size(GraphBuilder& g, const Dim& dim);
  // 0, 1, …, count - 1. `dim` is `count` as a Dim.
  static Term range(GraphBuilder& g, const Term& count, const Dim& dim);

  bool is_number() const { return g_ == nullptr; }
  double number() const { return number_; }  // valid if is_number()
  Value value(GraphBuilder& g) const;        // float64

  friend Term operator+(const Term& a, const Term& b);
  friend Term operator-(const Term& a, const Term& b);
  friend Term operator*(const Term& a, const Term& b);
  friend Term operator/(const Term& a, const Term& b);
  friend Term max(const Term& a, const Term& b);
  friend Term min(const Term& a, const Term& b);
  friend Term abs(const Term& a);
  friend Term sin(const Term& a);
  friend Term floor(const Term& a);
  friend Term to_float32(const Term& a);  // rounds to float32

  struct Condition {
    bool known;
    Value tensor;  // bool; if it is set, `known` is unused
  };
  friend Condition less(const Term& a, const Term& b);
  friend Condition equal(const Term& a, const Term& b);
  friend Term choose(GraphBuilder& g, const Condition& condition, const Term& yes, const Term& no);

 private:
  static Term combine(std::string_view op, double (*of_numbers)(double, double), const Term& a,
                      const Term& b);
  static Condition compare(std::string_view op, bool known, const Term& a, const Term& b);

  GraphBuilder* g_ = nullptr;
  Value tensor_;
  double number_ = 0;
};

}  // namespace opbridge::lowering
