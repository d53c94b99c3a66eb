#include "tensor/constants.h"

#include <cmath>
#include <cstring>

#include "opbridge/operator/tensor.h"
#include "tensor/shape.h"

namespace opbridge::tensor {
namespace {

// One element in the widest type of its kind: int64 for integers and bool, double for floating point.
struct Element {
  bool integral;
  int64_t integer = 0;
  double floating = 0;
};

template <class T>
T load(const std::byte* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

// ONNX packs two 4-bit elements in a byte, the first in the low bits.
int shift_of(size_t index) { return index % 2 == 0 ? 0 : 4; }

std::optional<Element> load_element(ElementType type, const std::byte* start, size_t index) {
  const std::byte* bytes = start + index * bits_of(type) / 8;
  auto integer = [](int64_t value) { return Element{true, value, static_cast<double>(value)}; };
  auto floating = [](double value) { return Element{false, 0, value}; };
  switch (type) {
    case ElementType::boolean:
      return integer(load<uint8_t>(bytes) != 0);
    case ElementType::uint8:
      return integer(load<uint8_t>(bytes));
    case ElementType::int8:
      return integer(load<int8_t>(bytes));
    case ElementType::uint16:
      return integer(load<uint16_t>(bytes));
    case ElementType::int16:
      return integer(load<int16_t>(bytes));
    case ElementType::uint32:
      return integer(load<uint32_t>(bytes));
    case ElementType::int32:
      return integer(load<int32_t>(bytes));
    case ElementType::int64:
      return integer(load<int64_t>(bytes));
    case ElementType::uint4:
      return integer(load<uint8_t>(bytes) >> shift_of(index) & 0xf);
    case ElementType::int4:
      return integer(((load<uint8_t>(bytes) >> shift_of(index) & 0xf) ^ 8) - 8);
    case ElementType::float16:
      return floating(load<op::Half>(bytes));
    case ElementType::bfloat16:
      return floating(load<op::BFloat16>(bytes));
    case ElementType::float32:
      return floating(load<float>(bytes));
    case ElementType::float64:
      return floating(load<double>(bytes));
    default:
      return std::nullopt;
  }
}

template <class T>
void store(std::byte* bytes, T value) {
  std::memcpy(bytes, &value, sizeof(T));
}

template <class T>
void store_integer(std::byte* bytes, const Element& element) {
  // Converts through int64. Beyond its range, neither C++ nor ONNX defines the result.
  const bool fits = std::abs(element.floating) < 0x1p63;
  const int64_t value = element.integral ? element.integer
                        : fits           ? static_cast<int64_t>(element.floating)
                                         : INT64_MIN;
  store(bytes, static_cast<T>(value));
}

// The bytes of 4-bit elements must be 0 before.
bool store_element(ElementType type, const Element& element, std::byte* start, size_t index) {
  std::byte* bytes = start + index * bits_of(type) / 8;
  switch (type) {
    case ElementType::boolean:
      store<uint8_t>(bytes, element.integral ? element.integer != 0 : element.floating != 0);
      break;
    case ElementType::uint8:
      store_integer<uint8_t>(bytes, element);
      break;
    case ElementType::int8:
      store_integer<int8_t>(bytes, element);
      break;
    case ElementType::uint16:
      store_integer<uint16_t>(bytes, element);
      break;
    case ElementType::int16:
      store_integer<int16_t>(bytes, element);
      break;
    case ElementType::uint32:
      store_integer<uint32_t>(bytes, element);
      break;
    case ElementType::int32:
      store_integer<int32_t>(bytes, element);
      break;
    case ElementType::int64:
      store_integer<int64_t>(bytes, element);
      break;
    case ElementType::uint4:
    case ElementType::int4: {
      std::byte low{};
      store_integer<int8_t>(&low, element);
      *bytes |= (low & std::byte{0xf}) << shift_of(index);
      break;
    }
    case ElementType::float16:
      store(bytes,
            op::Half(static_cast<float>(element.floating)));  // through float32, as PyTorch does
      break;
    case ElementType::bfloat16:
      store(bytes, op::BFloat16(static_cast<float>(element.floating)));
      break;
    case ElementType::float32:
      store(bytes, static_cast<float>(element.floating));
      break;
    case ElementType::float64:
      store(bytes, element.floating);
      break;
    default:
      return false;
  }
  return true;
}

// Whether truncation gives an integer of the type. Otherwise C++ and ONNX leave the result of a cast
// undefined.
bool is_in_range(ElementType type, double value) {
  const auto bits = static_cast<int>(bits_of(type));
  const double end = std::ldexp(1, is_unsigned(type) ? bits : bits - 1);
  return std::trunc(value) >= (is_unsigned(type) ? 0 : -end) && value < end;
}

}  // namespace

ir::Weight owned_weight(ElementType type, std::vector<int64_t> dims, std::vector<std::byte> bytes) {
  auto owner = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  return ir::Weight{type, std::move(dims), std::span(*owner), owner};
}

ir::Weight scalar_weight(const Scalar& value, ElementType type) {
  std::vector<std::byte> bytes(is_complex(type) ? size_of(type) : 8);
  bool stored = true;
  if (is_complex(type)) {
    const std::complex<double> number = value.to_complex();
    if (type == ElementType::complex64) {
      store(bytes.data(), std::complex<float>(number));
    } else {
      store(bytes.data(), number);
    }
  } else {
    const bool floating = std::holds_alternative<double>(value.get());
    const Element element =
        floating ? Element{false, 0, value.to_double()} : Element{true, value.to_int(), value.to_double()};
    stored = store_element(type, element, bytes.data(), 0);
  }
  if (!stored) {
    throw Error(ErrorCode::unsupported,
                "a constant of element type " + std::string(name(type)) + " cannot be made from a number");
  }
  bytes.resize(size_of(type));
  return owned_weight(type, {}, std::move(bytes));
}

std::optional<ir::Weight> convert_weight(const ir::Weight& weight, ElementType type) {
  if (weight.element_type == type) return weight;
  if (bits_of(weight.element_type) == 0 || bits_of(type) == 0) return std::nullopt;
  const auto count = static_cast<size_t>(weight.element_count());
  std::vector<std::byte> converted(storage_bytes(type, count));
  for (size_t i = 0; i < count; ++i) {
    std::optional<Element> element = load_element(weight.element_type, weight.bytes.data(), i);
    if (!element || (!element->integral && is_integral(type) && !is_in_range(type, element->floating)))
      return std::nullopt;
    if (!store_element(type, *element, converted.data(), i)) return std::nullopt;
  }
  return owned_weight(type, weight.dims, std::move(converted));
}

bool converts_exactly(const ir::Weight& weight, ElementType type) {
  const std::optional<ir::Weight> there = convert_weight(weight, type);
  if (!there) return false;
  const std::optional<ir::Weight> back = convert_weight(*there, weight.element_type);
  return back && std::equal(back->bytes.begin(), back->bytes.end(), weight.bytes.begin(), weight.bytes.end());
}

bool is_unsigned(ElementType type) { return name(type).starts_with("uint"); }

std::optional<double> number_of(const ir::Weight& weight) {
  if (weight.element_count() != 1) return std::nullopt;
  const std::optional<ir::Weight> number = convert_weight(weight, ElementType::float64);
  return number ? std::optional(number->as<double>()[0]) : std::nullopt;
}

std::optional<std::vector<int64_t>> constant_reshape(std::span<const Dim> from, std::span<const Dim> to) {
  std::vector<int64_t> shape;
  bool others_may_be_zero = false;  // Reshape could not resolve -1 then
  for (size_t i = 0; i < to.size(); ++i) {
    if (to[i].is(0)) return std::nullopt;
    const bool copied = !to[i].is_static() && i < from.size() && from[i] == to[i];
    shape.push_back(to[i].is_static() ? to[i].value() : copied ? 0 : -1);
    others_may_be_zero |= copied && may_be_zero(to[i]);
  }
  const auto open = std::ranges::count(shape, -1);
  if (open > 1 || (open == 1 && others_may_be_zero)) return std::nullopt;
  return shape;
}

}  // namespace opbridge::tensor
