#include "lowering/formula.h"

#include <utility>

namespace opbridge::lowering {

Formula::Formula(GraphBuilder& g, const Scalar& number) {
  if (number.is_static()) {
    number_ = number.to_double();
  } else {
    g_ = &g;
    tensor_ = g.scalar(number, ElementType::float64);
    is_number_ = true;
  }
}

Scalar Formula::scalar() const {
  if (g_ == nullptr) return number_;
  if (!is_number_) throw Error(ErrorCode::internal, "a formula with a tensor is no number");
  return tensor_;
}

Formula Formula::number(double number, const Formula& like) {
  return {*like.g_, like.g_->scalar_like(like.tensor_, number)};
}

Formula Formula::size(const Dim& dim, const Formula& like) {
  if (dim.is_static()) return static_cast<double>(dim.value());
  return {*like.g_, like.g_->cast(like.g_->size(dim), like.tensor_.element_type())};
}

Formula::operator Value() const {
  if (g_ == nullptr) throw Error(ErrorCode::internal, "a formula of numbers without a tensor");
  return tensor_;
}

Value Formula::like(const Formula& other) const {
  if (g_ != nullptr && !is_number_) return tensor_;
  return other.g_ != nullptr ? other.g_->scalar_like(other.tensor_, scalar()) : tensor_;
}

Formula node(std::string_view op, const Formula& a) {
  Formula made(*a.g_, a.g_->op(op, a.tensor_));
  made.is_number_ = a.is_number_;
  return made;
}

Formula node(std::string_view op, const Formula& a, const Formula& b) {
  if (a.g_ == nullptr && b.g_ == nullptr) {
    if (op == "Add") return a.number_ + b.number_;
    if (op == "Sub") return a.number_ - b.number_;
    if (op == "Mul") return a.number_ * b.number_;
    if (op == "Div") return a.number_ / b.number_;
    throw Error(ErrorCode::internal, "a formula of numbers without a tensor");
  }
  GraphBuilder& g = a.g_ != nullptr ? *a.g_ : *b.g_;
  Formula made(g, g.op(op, a.like(b), b.like(a)));
  made.is_number_ = (a.g_ == nullptr || a.is_number_) && (b.g_ == nullptr || b.is_number_);
  return made;
}

Formula where(const Formula& condition, const Formula& yes, const Formula& no) {
  GraphBuilder& g = *condition.g_;
  return {g, g.op("Where", condition.tensor_, yes.like(no), no.like(yes))};
}

Formula sum(const Formula& a, std::vector<int64_t> axes) {
  return axes.empty() ? a : Formula(*a.g_, a.g_->reduce("ReduceSum", a.tensor_, std::move(axes), true));
}

Formula mean(const Formula& a, std::vector<int64_t> axes) {
  return axes.empty() ? a : Formula(*a.g_, a.g_->reduce("ReduceMean", a.tensor_, std::move(axes), true));
}

}  // namespace opbridge::lowering
