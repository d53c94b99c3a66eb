// Sizes and shapes as shape rules see them. Included by opbridge/operator.h.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <string>
#include <vector>

#include "opbridge/error.h"
#include "opbridge/operator_abi.h"

namespace opbridge::op {

// A size: an integer when the operator runs, a symbolic expression while a model is exported with dynamic
// shapes. Arithmetic and comparison work on both. A comparison of symbolic sizes that decides a branch
// restricts the exported model to that branch, as in a Python function under torch.export.
class Dim {
 public:
  template <std::integral T>
  Dim(T value) : handle_{static_cast<std::int64_t>(value), 0} {}  // NOLINT: a Dim is a number in most cases
  Dim(opbridge_dim handle, const opbridge_shape_host* host) : handle_(handle), host_(host) {}

  // A size that depends on the data, such as the number of boxes that survive. It can only be a dim of an
  // output that the kernel takes as Output<T>; arithmetic on it is an error.
  static Dim from_data() { return Dim(opbridge_dim{0, kFromData}, nullptr); }

  bool is_number() const { return handle_.symbolic == 0; }
  bool is_from_data() const { return handle_.symbolic == kFromData; }
  std::int64_t number() const {
    if (!is_number()) throw Error(ErrorCode::invalid_argument, "a size is symbolic where a number is needed");
    return handle_.value;
  }
  opbridge_dim handle() const { return handle_; }
  const opbridge_shape_host* host() const { return host_; }

 private:
  static constexpr std::int64_t kFromData = 2;
  opbridge_dim handle_;
  const opbridge_shape_host* host_ = nullptr;
};

using Shape = std::vector<Dim>;

// The result of `a == b`: it converts to bool, and require() passes it to the host as a condition.
struct Comparison {
  opbridge_comparison what;
  Dim a, b;

  explicit operator bool() const;
};

namespace detail {

inline const opbridge_shape_host& host_of(const Dim& a, const Dim& b) {
  const opbridge_shape_host* host = a.host() != nullptr ? a.host() : b.host();
  if (host == nullptr || a.is_from_data() || b.is_from_data()) {
    throw Error(ErrorCode::invalid_argument, "the shape rule computes with a size that depends on the data");
  }
  return *host;
}

// The host reports its own error if it has one; otherwise this text is shown.
inline void check_host(int status) {
  if (status != 0) throw Error(ErrorCode::invalid_argument, "the shape rule cannot be run on symbolic sizes");
}

// Both round towards minus infinity.
inline std::int64_t floor_mod(std::int64_t a, std::int64_t b) { return b == -1 ? 0 : (a % b + b) % b; }
inline std::int64_t floor_div(std::int64_t a, std::int64_t b) {
  std::int64_t quotient;
  if (b == -1) {
    if (__builtin_sub_overflow(std::int64_t{0}, a, &quotient)) {
      throw Error(ErrorCode::invalid_argument, "a size overflows");
    }
    return quotient;
  }
  quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

inline std::int64_t compute(opbridge_arithmetic what, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  bool overflow = false;
  switch (what) {
    case OPBRIDGE_ADD:
      overflow = __builtin_add_overflow(a, b, &result);
      break;
    case OPBRIDGE_SUB:
      overflow = __builtin_sub_overflow(a, b, &result);
      break;
    case OPBRIDGE_MUL:
      overflow = __builtin_mul_overflow(a, b, &result);
      break;
    case OPBRIDGE_FLOOR_DIV:
    case OPBRIDGE_MOD:
      if (b == 0) throw Error(ErrorCode::invalid_argument, "a size is divided by zero");
      result = what == OPBRIDGE_MOD ? floor_mod(a, b) : floor_div(a, b);
      break;
    case OPBRIDGE_MIN:
      result = std::min(a, b);
      break;
    case OPBRIDGE_MAX:
      result = std::max(a, b);
      break;
  }
  if (overflow) throw Error(ErrorCode::invalid_argument, "a size overflows");
  return result;
}

inline Dim arithmetic(opbridge_arithmetic what, const Dim& a, const Dim& b) {
  if (a.is_number() && b.is_number()) return compute(what, a.number(), b.number());
  const opbridge_shape_host& host = host_of(a, b);
  const opbridge_dim x = a.handle(), y = b.handle();
  opbridge_dim result{};
  check_host(host.arithmetic(host.user, what, &x, &y, &result));
  return Dim(result, &host);
}

inline bool compare(opbridge_comparison what, std::int64_t a, std::int64_t b) {
  switch (what) {
    case OPBRIDGE_EQ:
      return a == b;
    case OPBRIDGE_NE:
      return a != b;
    case OPBRIDGE_LT:
      return a < b;
    case OPBRIDGE_LE:
      return a <= b;
  }
  return false;
}

}  // namespace detail

inline Dim operator+(const Dim& a, const Dim& b) { return detail::arithmetic(OPBRIDGE_ADD, a, b); }
inline Dim operator-(const Dim& a, const Dim& b) { return detail::arithmetic(OPBRIDGE_SUB, a, b); }
inline Dim operator*(const Dim& a, const Dim& b) { return detail::arithmetic(OPBRIDGE_MUL, a, b); }
// Division and remainder round towards minus infinity, as in Python.
inline Dim operator/(const Dim& a, const Dim& b) { return detail::arithmetic(OPBRIDGE_FLOOR_DIV, a, b); }
inline Dim operator%(const Dim& a, const Dim& b) { return detail::arithmetic(OPBRIDGE_MOD, a, b); }
inline Dim min(const Dim& a, const Dim& b) { return detail::arithmetic(OPBRIDGE_MIN, a, b); }
inline Dim max(const Dim& a, const Dim& b) { return detail::arithmetic(OPBRIDGE_MAX, a, b); }

inline Comparison operator==(const Dim& a, const Dim& b) { return {OPBRIDGE_EQ, a, b}; }
inline Comparison operator!=(const Dim& a, const Dim& b) { return {OPBRIDGE_NE, a, b}; }
inline Comparison operator<(const Dim& a, const Dim& b) { return {OPBRIDGE_LT, a, b}; }
inline Comparison operator<=(const Dim& a, const Dim& b) { return {OPBRIDGE_LE, a, b}; }
inline Comparison operator>(const Dim& a, const Dim& b) { return {OPBRIDGE_LT, b, a}; }
inline Comparison operator>=(const Dim& a, const Dim& b) { return {OPBRIDGE_LE, b, a}; }

inline Comparison::operator bool() const {
  if (a.is_number() && b.is_number()) return detail::compare(what, a.number(), b.number());
  const opbridge_shape_host& host = detail::host_of(a, b);
  const opbridge_dim x = a.handle(), y = b.handle();
  std::int32_t result = 0;
  detail::check_host(host.compare(host.user, what, &x, &y, &result));
  return result != 0;
}

namespace detail {

// The text of an error, or a function that makes it. Holds a reference to its argument.
class Message {
 public:
  Message(const char* text)
      : from_(text), text_([](const void* from) -> std::string { return static_cast<const char*>(from); }) {}
  Message(const std::string& text)
      : from_(&text), text_([](const void* from) { return *static_cast<const std::string*>(from); }) {}
  template <std::invocable Make>
  Message(const Make& make)
      : from_(&make),
        text_([](const void* from) -> std::string { return (*static_cast<const Make*>(from))(); }) {}

  std::string text() const { return text_(from_); }

 private:
  const void* from_;
  std::string (*text_)(const void* from);
};

}  // namespace detail

// Ends the operator with `message` as the host's error unless the condition holds. A condition on symbolic
// sizes becomes a condition of the exported model instead. `message` is a text, or a function without
// arguments that returns one and is called only on failure, so that it costs nothing in a loop.
inline void require(bool condition, detail::Message message) {
  if (!condition) throw Error(ErrorCode::invalid_argument, message.text());
}
inline void require(const Comparison& c, detail::Message message) {
  if (c.a.is_number() && c.b.is_number()) return require(static_cast<bool>(c), message);
  const opbridge_shape_host& host = detail::host_of(c.a, c.b);
  const opbridge_dim a = c.a.handle(), b = c.b.handle();
  detail::check_host(host.require(host.user, c.what, &a, &b, message.text().c_str()));
}

// "(2, 3)"; a symbolic size reads "?".
inline std::string to_string(const Shape& shape) {
  std::string text = "(";
  for (const Dim& dim : shape) {
    if (text.size() > 1) text += ", ";
    text += dim.is_number() ? std::to_string(dim.number()) : "?";
  }
  return text + ")";
}

// Requires that two tensors have the same shape; `what` names them: "a and b".
inline void require_same_shape(const Shape& a, const Shape& b, const std::string& what) {
  const auto message = [&] {
    return what + " must have the same shape, not " + to_string(a) + " and " + to_string(b);
  };
  require(a.size() == b.size(), message);
  for (std::size_t i = 0; i < a.size(); ++i) require(a[i] == b[i], message);
}

}  // namespace opbridge::op
