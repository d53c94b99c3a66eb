// The call of an operator that has a mapping of its own for complex tensors.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "lowering/common.h"
#include "lowering/complex/complex.h"

namespace opbridge::lowering {

inline constexpr std::string_view unsupported_complex =
    "complex numbers are not supported here; compute with real and imaginary part";

bool is_complex_value(const ir::Value* value);  // of a torch-level graph

// Visits the tensors of an argument: one, those of a list, or none.
void for_each_tensor(const ir::AttributeValue& argument, const std::function<void(const ir::Value*)>& visit);

class ComplexLowering::Call {
 public:
  Call(const ComplexLowering& lowering, GraphBuilder& g, const ir::Node& node)
      : g(g), lowering_(lowering), node_(node) {
    type = part_type(g.result().element_type);
    if (is_complex(g.result().element_type)) return;
    for (const ir::Attribute& attribute : node.attributes) {
      for_each_tensor(attribute.value, [&](const ir::Value* value) {
        if (!is_complex_value(value)) return;
        const ElementType part = part_type(value->tensor_type().element_type);
        if (is_integral(type) || type == ElementType::boolean || part == ElementType::float64) type = part;
      });
    }
  }

  // An argument that is a tensor or a number, converted to `type`.
  Complex operator[](std::string_view argument) const {
    const ir::AttributeValue* value = node_.find(argument);
    if (!value) g.refuse(std::string(unsupported_complex));
    if (ir::Value* const* tensor = std::get_if<ir::Value*>(value)) {
      const Complex given = lowering_.parts(*tensor);
      return {g.cast(given.re, type), given.im ? g.cast(given.im, type) : Value()};
    }
    if (const auto* number = std::get_if<std::complex<double>>(value))
      return {g.scalar(number->real(), type), g.scalar(number->imag(), type)};
    if (const auto* number = std::get_if<double>(value)) return {g.scalar(*number, type), {}};
    if (const auto* number = std::get_if<int64_t>(value)) return {g.scalar(*number, type), {}};
    if (const auto* number = std::get_if<bool>(value)) return {g.scalar(*number ? 1 : 0, type), {}};
    if (const auto* size = std::get_if<Dim>(value)) return {g.cast(g.size(*size), type), {}};
    g.refuse(std::string(unsupported_complex));
  }
  Complex get(std::string_view argument, double otherwise) const {
    return node_.find(argument) ? (*this)[argument] : Complex{g.scalar(otherwise, type), {}};
  }
  bool flag(std::string_view argument) const {
    const ir::AttributeValue* value = node_.find(argument);
    const bool* set = value ? std::get_if<bool>(value) : nullptr;
    return set && *set;
  }
  std::optional<int64_t> integer(std::string_view argument) const {
    const ir::AttributeValue* value = node_.find(argument);
    const auto* number = value ? std::get_if<int64_t>(value) : nullptr;
    return number ? std::optional(*number) : std::nullopt;
  }
  bool is_tensor(std::string_view argument) const {
    const ir::AttributeValue* value = node_.find(argument);
    return value && std::holds_alternative<ir::Value*>(*value);
  }
  // The element type of the tensor as it is given, or of its parts.
  ElementType part_type_of(std::string_view argument) const {
    const ir::AttributeValue* value = node_.find(argument);
    ir::Value* const* tensor = value ? std::get_if<ir::Value*>(value) : nullptr;
    return tensor ? part_type((*tensor)->tensor_type().element_type) : type;
  }
  double number(std::string_view argument, double otherwise) const {
    const ir::AttributeValue* value = node_.find(argument);
    if (value == nullptr || std::holds_alternative<std::monostate>(*value)) return otherwise;
    if (const auto* number = std::get_if<double>(value)) return *number;
    if (const auto* number = std::get_if<int64_t>(value)) return static_cast<double>(*number);
    g.refuse(std::string(unsupported_complex));
  }
  std::vector<int64_t> integers(std::string_view argument) const {
    const ir::AttributeValue* value = node_.find(argument);
    const auto* list = value ? std::get_if<std::vector<int64_t>>(value) : nullptr;
    return list ? *list : std::vector<int64_t>();
  }
  // The same with an imaginary part of zeros for a real tensor.
  Complex full(std::string_view argument) const {
    Complex z = (*this)[argument];
    if (!z.im) z.im = filled(g, z.re.dims(), 0, z.re.element_type());
    return z;
  }

  GraphBuilder& g;
  ElementType type;

 private:
  const ComplexLowering& lowering_;
  const ir::Node& node_;
};

struct ComplexLowering::Special {
  Complex (*function)(const Call& call);
};

// An operator that is linear in each of its factors. It may add a tensor to the product; if `is_scaled`, the
// product is scaled by the argument `alpha` and the addend by `beta`.
struct ComplexLowering::Product {
  std::string_view op;
  std::vector<std::string_view> factors;
  std::string_view addend;  // empty if there is none
  bool is_scaled = false;
  bool conjugates_first = false;
};

}  // namespace opbridge::lowering
