#include <cmath>

#include "builder/not_constant.h"
#include "opbridge/symbolic.h"

namespace opbridge {

int64_t Value::rank() const { return static_cast<int64_t>(dims().size()); }

const std::vector<Dim>& Value::dims() const {
  const ir::TensorType& tensor = type();
  if (!tensor.ranked()) {
    throw Error(ErrorCode::unsupported,
                "the rank of " + value_->name + " is unknown; declare its type with g.typed");
  }
  return *tensor.dims;
}

const Dim& Value::dim(int64_t axis) const {
  if (rank() == 0) throw Error(ErrorCode::invalid_argument, value_->name + " is 0-d and has no axes");
  return dims()[wrap_axis(axis, rank())];
}

Scalar::Scalar(bool v) : value_(v) {}
Scalar::Scalar(int64_t v) : value_(v) {}
Scalar::Scalar(double v) : value_(v) {}
Scalar::Scalar(std::complex<double> v) : value_(v) {}
Scalar::Scalar(Value v) : value_(v) {}
Scalar::Scalar(Dim v) {
  if (v.is_static()) {
    value_ = v.value();
  } else {
    value_ = std::move(v);
  }
}
Scalar::Scalar(const Scalar& other) = default;
Scalar::Scalar(Scalar&& other) noexcept = default;
Scalar& Scalar::operator=(const Scalar& other) = default;
Scalar& Scalar::operator=(Scalar&& other) noexcept = default;
Scalar::~Scalar() = default;

Operand::Operand(Value value) : item_(value) {}
Operand::Operand(std::optional<Value> value) : item_(value.value_or(Value())) {}
Operand::Operand(std::nullopt_t) : item_(Value()) {}
Operand::Operand(std::vector<Value> values) : item_(std::move(values)) {}
Operand::Operand(Attr attribute) : item_(std::move(attribute)) {}
Operand::Operand(const Operand& other) = default;
Operand::Operand(Operand&& other) noexcept = default;
Operand& Operand::operator=(const Operand& other) = default;
Operand& Operand::operator=(Operand&& other) noexcept = default;
Operand::~Operand() = default;

bool Scalar::is_integral() const {
  if (const Value* value = std::get_if<Value>(&value_)) return !is_floating_point(value->element_type());
  return is_bool() || std::holds_alternative<int64_t>(value_) || std::holds_alternative<Dim>(value_);
}

bool Scalar::is_floating() const {
  if (const Value* value = std::get_if<Value>(&value_)) return is_floating_point(value->element_type());
  return std::holds_alternative<double>(value_);
}

bool Scalar::is_static() const {
  return !std::holds_alternative<Dim>(value_) && !std::holds_alternative<Value>(value_);
}

double Scalar::to_double() const {
  if (const bool* v = std::get_if<bool>(&value_)) return *v ? 1.0 : 0.0;
  if (const int64_t* v = std::get_if<int64_t>(&value_)) return static_cast<double>(*v);
  if (const double* v = std::get_if<double>(&value_)) return *v;
  if (!is_static()) throw NotConstant(*this);
  throw Error(ErrorCode::unsupported, "a complex number is given where a real one is needed");
}

int64_t Scalar::to_int() const {
  if (const bool* v = std::get_if<bool>(&value_)) return *v ? 1 : 0;
  if (const int64_t* v = std::get_if<int64_t>(&value_)) return *v;
  if (const double* v = std::get_if<double>(&value_); v && std::abs(*v) < 0x1p63)
    return static_cast<int64_t>(*v);
  if (!is_static()) throw NotConstant(*this);
  throw Error(ErrorCode::unsupported,
              "an integer constant is needed; the given number is not real or too large");
}

std::complex<double> Scalar::to_complex() const {
  if (const auto* v = std::get_if<std::complex<double>>(&value_)) return *v;
  return to_double();
}

int64_t wrap_axis(int64_t axis, int64_t rank) {
  const int64_t axes = std::max<int64_t>(rank, 1);
  if (axis < -axes || axis >= axes) {
    throw Error(ErrorCode::invalid_argument, "axis " + std::to_string(axis) + " of a tensor of rank " +
                                                 std::to_string(rank) + " does not exist");
  }
  return axis < 0 ? axis + axes : axis;
}

std::vector<int64_t> wrap_axes(std::span<const int64_t> axes, int64_t rank) {
  std::vector<int64_t> wrapped;
  for (int64_t axis : axes) wrapped.push_back(wrap_axis(axis, rank));
  return wrapped;
}

}  // namespace opbridge
