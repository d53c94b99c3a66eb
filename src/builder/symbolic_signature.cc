#include <fmt/format.h>

#include "opbridge/symbolic.h"

namespace opbridge::symbolic_detail {
namespace {

const ir::AttributeValue& argument(const SymbolicCall& call, size_t index) { return *call.arguments[index]; }

bool is_none(const ir::AttributeValue& value) { return std::holds_alternative<std::monostate>(value); }

[[noreturn]] void unexpected(const SymbolicCall& call, size_t index, std::string_view expected) {
  call.g.refuse(fmt::format("argument {} is not {}", index, expected));
}

int64_t constant_size(const SymbolicCall& call, const Dim& dim) {
  if (!dim.is_static()) {
    call.g.refuse(fmt::format(
        "the size {} is known only when the model runs, but this mapping needs a constant", dim.str()));
  }
  return dim.value();
}

std::optional<Scalar> as_scalar(const SymbolicCall& call, const ir::AttributeValue& value) {
  if (const bool* v = std::get_if<bool>(&value)) return Scalar(*v);
  if (const int64_t* v = std::get_if<int64_t>(&value)) return Scalar(*v);
  if (const double* v = std::get_if<double>(&value)) return Scalar(*v);
  if (const auto* v = std::get_if<std::complex<double>>(&value)) return Scalar(*v);
  if (const Dim* v = std::get_if<Dim>(&value)) return Scalar(*v);
  if (ir::Value* const* v = std::get_if<ir::Value*>(&value)) return Scalar(call.values[*v]);
  return std::nullopt;
}

}  // namespace

void missing_argument(const SymbolicCall& call, size_t index) {
  call.g.refuse(fmt::format("argument {} is None, but this mapping needs a value", index));
}

Value decode_value(const SymbolicCall& call, size_t index) {
  const ir::AttributeValue& value = argument(call, index);
  if (is_none(value)) return {};
  if (ir::Value* const* v = std::get_if<ir::Value*>(&value)) return call.values[*v];
  // PyTorch records `x + 1` as a call of add.Tensor with a number instead of a tensor.
  if (std::optional<Scalar> scalar = as_scalar(call, value)) return call.g.number(*scalar);
  unexpected(call, index, "a tensor");
}

std::vector<Value> decode_values(const SymbolicCall& call, size_t index) {
  const ir::AttributeValue& value = argument(call, index);
  if (is_none(value)) return {};
  const auto* list = std::get_if<std::vector<ir::Value*>>(&value);
  if (!list) {
    const auto* none = std::get_if<std::vector<int64_t>>(&value);
    if (none && none->empty()) return {};
    unexpected(call, index, "a list of tensors");
  }
  std::vector<Value> values;
  for (ir::Value* element : *list) values.push_back(element ? call.values[element] : Value());
  return values;
}

std::optional<Scalar> decode_scalar(const SymbolicCall& call, size_t index) {
  const ir::AttributeValue& value = argument(call, index);
  if (is_none(value)) return std::nullopt;
  std::optional<Scalar> scalar = as_scalar(call, value);
  if (!scalar) unexpected(call, index, "a number");
  return scalar;
}

std::optional<int64_t> decode_int(const SymbolicCall& call, size_t index) {
  const std::optional<Dim> dim = decode_dim(call, index);
  return dim ? std::optional(constant_size(call, *dim)) : std::nullopt;
}

std::optional<std::vector<int64_t>> decode_ints(const SymbolicCall& call, size_t index) {
  const std::optional<std::vector<Dim>> dims = decode_dims(call, index);
  if (!dims) return std::nullopt;
  std::vector<int64_t> values;
  for (const Dim& dim : *dims) values.push_back(constant_size(call, dim));
  return values;
}

std::optional<Dim> decode_dim(const SymbolicCall& call, size_t index) {
  const ir::AttributeValue& value = argument(call, index);
  if (is_none(value)) return std::nullopt;
  if (const bool* v = std::get_if<bool>(&value)) return Dim(*v);
  if (const int64_t* v = std::get_if<int64_t>(&value)) return Dim(*v);
  if (const Dim* v = std::get_if<Dim>(&value)) return *v;
  unexpected(call, index, "an integer");
}

std::optional<std::vector<Dim>> decode_dims(const SymbolicCall& call, size_t index) {
  const ir::AttributeValue& value = argument(call, index);
  if (is_none(value)) return std::nullopt;
  if (const auto* v = std::get_if<std::vector<int64_t>>(&value))
    return std::vector<Dim>(v->begin(), v->end());
  if (const auto* v = std::get_if<std::vector<Dim>>(&value)) return *v;
  if (const auto* v = std::get_if<std::vector<bool>>(&value)) return std::vector<Dim>(v->begin(), v->end());
  if (const auto* v = std::get_if<std::vector<ir::Value*>>(&value); v && v->empty())
    return std::vector<Dim>();
  if (const int64_t* v = std::get_if<int64_t>(&value)) return std::vector<Dim>{*v};
  if (const Dim* v = std::get_if<Dim>(&value)) return std::vector<Dim>{*v};
  unexpected(call, index, "a list of integers");
}

std::optional<double> decode_double(const SymbolicCall& call, size_t index) {
  const std::optional<Scalar> scalar = decode_scalar(call, index);
  if (!scalar) return std::nullopt;
  return scalar->to_double();
}

std::optional<std::vector<double>> decode_doubles(const SymbolicCall& call, size_t index) {
  const ir::AttributeValue& value = argument(call, index);
  if (is_none(value)) return std::nullopt;
  if (const auto* v = std::get_if<std::vector<double>>(&value)) return *v;
  if (const auto* v = std::get_if<std::vector<int64_t>>(&value))
    return std::vector<double>(v->begin(), v->end());
  if (std::optional<Scalar> scalar = as_scalar(call, value)) return std::vector<double>{scalar->to_double()};
  unexpected(call, index, "a list of numbers");
}

std::optional<bool> decode_bool(const SymbolicCall& call, size_t index) {
  const ir::AttributeValue& value = argument(call, index);
  if (is_none(value)) return std::nullopt;
  if (const bool* v = std::get_if<bool>(&value)) return *v;
  if (const int64_t* v = std::get_if<int64_t>(&value)) return *v != 0;
  unexpected(call, index, "a bool");
}

std::optional<std::vector<bool>> decode_bools(const SymbolicCall& call, size_t index) {
  const ir::AttributeValue& value = argument(call, index);
  if (is_none(value)) return std::nullopt;
  if (const auto* v = std::get_if<std::vector<bool>>(&value)) return *v;
  unexpected(call, index, "a list of bools");
}

std::optional<std::string> decode_string(const SymbolicCall& call, size_t index) {
  const ir::AttributeValue& value = argument(call, index);
  if (is_none(value)) return std::nullopt;
  if (const auto* v = std::get_if<std::string>(&value)) return *v;
  unexpected(call, index, "a string");
}

std::optional<ElementType> decode_element_type(const SymbolicCall& call, size_t index) {
  const ir::AttributeValue& value = argument(call, index);
  if (is_none(value)) return std::nullopt;
  if (const auto* v = std::get_if<ElementType>(&value)) return *v;
  unexpected(call, index, "an element type");
}

}  // namespace opbridge::symbolic_detail
