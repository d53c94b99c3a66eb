// Decodes the arguments of a call by the parameter types of a symbolic function. Included by symbolic.h.
#pragma once

#include <array>
#include <span>
#include <string_view>
#include <tuple>
#include <type_traits>

namespace opbridge::symbolic_detail {

// A C++ parameter type, for the check against the schema.
struct Parameter {
  enum class Kind : uint8_t { value, scalar, integer, dim, floating, boolean, string, element_type, ignored };
  Kind kind;
  bool list = false;
  bool optional = false;
  bool optional_elements = false;
};

// One decoder per kind, defined in symbolic_signature.cc. Each throws Error(unsupported) if the value is not
// of that type, such as a symbolic size for int64_t.
Value decode_value(const SymbolicCall& call, size_t index);  // empty for None
std::vector<Value> decode_values(const SymbolicCall& call, size_t index);
std::optional<Scalar> decode_scalar(const SymbolicCall& call, size_t index);
std::optional<int64_t> decode_int(const SymbolicCall& call, size_t index);
std::optional<std::vector<int64_t>> decode_ints(const SymbolicCall& call, size_t index);
std::optional<Dim> decode_dim(const SymbolicCall& call, size_t index);
std::optional<std::vector<Dim>> decode_dims(const SymbolicCall& call, size_t index);
std::optional<double> decode_double(const SymbolicCall& call, size_t index);
std::optional<std::vector<double>> decode_doubles(const SymbolicCall& call, size_t index);
std::optional<bool> decode_bool(const SymbolicCall& call, size_t index);
std::optional<std::vector<bool>> decode_bools(const SymbolicCall& call, size_t index);
std::optional<std::string> decode_string(const SymbolicCall& call, size_t index);
std::optional<ElementType> decode_element_type(const SymbolicCall& call, size_t index);
[[noreturn]] void missing_argument(const SymbolicCall& call, size_t index);

template <class T>
struct Decode;

#define OPBRIDGE_DECODE(T, kind, decoder, ...)                                             \
  template <>                                                                              \
  struct Decode<std::optional<T>> {                                                        \
    static constexpr Parameter parameter{Parameter::Kind::kind, __VA_ARGS__};              \
    static std::optional<T> get(const SymbolicCall& c, size_t i) { return decoder(c, i); } \
  };                                                                                       \
  template <>                                                                              \
  struct Decode<T> {                                                                       \
    static constexpr Parameter parameter = [] {                                            \
      Parameter p = Decode<std::optional<T>>::parameter;                                   \
      p.optional = false;                                                                  \
      return p;                                                                            \
    }();                                                                                   \
    static T get(const SymbolicCall& c, size_t i) {                                        \
      std::optional<T> value = decoder(c, i);                                              \
      if (!value) missing_argument(c, i);                                                  \
      return *std::move(value);                                                            \
    }                                                                                      \
  }

OPBRIDGE_DECODE(Scalar, scalar, decode_scalar, false, true);
OPBRIDGE_DECODE(int64_t, integer, decode_int, false, true);
OPBRIDGE_DECODE(std::vector<int64_t>, integer, decode_ints, true, true);
OPBRIDGE_DECODE(Dim, dim, decode_dim, false, true);
OPBRIDGE_DECODE(std::vector<Dim>, dim, decode_dims, true, true);
OPBRIDGE_DECODE(double, floating, decode_double, false, true);
OPBRIDGE_DECODE(std::vector<double>, floating, decode_doubles, true, true);
OPBRIDGE_DECODE(bool, boolean, decode_bool, false, true);
OPBRIDGE_DECODE(std::vector<bool>, boolean, decode_bools, true, true);
OPBRIDGE_DECODE(std::string, string, decode_string, false, true);
OPBRIDGE_DECODE(ElementType, element_type, decode_element_type, false, true);
#undef OPBRIDGE_DECODE

template <>
struct Decode<Value> {
  static constexpr Parameter parameter{Parameter::Kind::value};
  static Value get(const SymbolicCall& c, size_t i) {
    Value value = decode_value(c, i);
    if (!value) missing_argument(c, i);
    return value;
  }
};
template <>
struct Decode<std::optional<Value>> {
  static constexpr Parameter parameter{Parameter::Kind::value, false, true};
  static std::optional<Value> get(const SymbolicCall& c, size_t i) {
    Value value = decode_value(c, i);
    return value ? std::optional(value) : std::nullopt;
  }
};
template <>
struct Decode<std::vector<Value>> {
  static constexpr Parameter parameter{Parameter::Kind::value, true};
  static std::vector<Value> get(const SymbolicCall& c, size_t i) {
    std::vector<Value> values = decode_values(c, i);
    for (Value value : values) {
      if (!value) missing_argument(c, i);
    }
    return values;
  }
};
template <>
struct Decode<std::vector<std::optional<Value>>> {
  static constexpr Parameter parameter{Parameter::Kind::value, true, false, true};
  static std::vector<std::optional<Value>> get(const SymbolicCall& c, size_t i) {
    std::vector<std::optional<Value>> result;
    for (Value value : decode_values(c, i)) result.push_back(value ? std::optional(value) : std::nullopt);
    return result;
  }
};
template <>
struct Decode<Ignored> {
  static constexpr Parameter parameter{Parameter::Kind::ignored};
  static Ignored get(const SymbolicCall&, size_t) { return {}; }
};

inline std::vector<Value> as_list(Value value) { return {value}; }
inline std::vector<Value> as_list(std::vector<Value> values) { return values; }
template <size_t n>
std::vector<Value> as_list(const std::array<Value, n>& values) {
  return {values.begin(), values.end()};
}

// The call operator of a lambda, or a function: its parameters after GraphBuilder&.
template <class F>
struct Signature : Signature<decltype(&F::operator())> {};
template <class R, class... Args>
struct Signature<R (*)(GraphBuilder&, Args...)> {
  static constexpr std::array<Parameter, sizeof...(Args)> parameters{
      Decode<std::remove_cvref_t<Args>>::parameter...};
  template <class F>
  static SymbolicFunction erase(F function) {
    return [function = std::move(function)](const SymbolicCall& call) {
      return invoke(function, call, std::index_sequence_for<Args...>());
    };
  }

 private:
  template <class F, size_t... i>
  static std::vector<Value> invoke(const F& function, const SymbolicCall& call, std::index_sequence<i...>) {
    return as_list(function(call.g, Decode<std::remove_cvref_t<Args>>::get(call, i)...));
  }
};
template <class C, class R, class... Args>
struct Signature<R (C::*)(GraphBuilder&, Args...) const> : Signature<R (*)(GraphBuilder&, Args...)> {};

template <class F>
std::span<const Parameter> parameters_of(const F&) {
  return Signature<F>::parameters;
}
template <class F>
SymbolicFunction erase(F function) {
  return Signature<F>::erase(std::move(function));
}

}  // namespace opbridge::symbolic_detail
