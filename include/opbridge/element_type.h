#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>

namespace opbridge {

// The element type of a tensor. The numbers are those of onnx.TensorProto.DataType, so a value can be written
// to and read from a model as it is. A number that this enum does not list (a type newer than this header) is
// a legal value: every function below treats it as a type without name and size.
enum class ElementType : std::uint8_t {
  undefined = 0,
  float32 = 1,
  uint8 = 2,
  int8 = 3,
  uint16 = 4,
  int16 = 5,
  int32 = 6,
  int64 = 7,
  string = 8,
  boolean = 9,
  float16 = 10,
  float64 = 11,
  uint32 = 12,
  uint64 = 13,
  complex64 = 14,
  complex128 = 15,
  bfloat16 = 16,
  float8e4m3fn = 17,
  float8e4m3fnuz = 18,
  float8e5m2 = 19,
  float8e5m2fnuz = 20,
  uint4 = 21,
  int4 = 22,
  float4e2m1 = 23,
  float8e8m0 = 24,
  uint2 = 25,
  int2 = 26,
  float6e2m3 = 27,
  float6e3m2 = 28,
};

namespace detail {

enum class ElementKind : std::uint8_t { other, boolean, integral, floating_point, complex };

struct ElementTypeRow {
  std::string_view name;
  std::string_view onnx_name;
  std::uint8_t bits;
  ElementKind kind;
};

// Indexed by the number of the ElementType.
inline constexpr ElementTypeRow element_type_rows[] = {
    {"undefined", "undefined", 0, ElementKind::other},
    {"float32", "float", 32, ElementKind::floating_point},
    {"uint8", "uint8", 8, ElementKind::integral},
    {"int8", "int8", 8, ElementKind::integral},
    {"uint16", "uint16", 16, ElementKind::integral},
    {"int16", "int16", 16, ElementKind::integral},
    {"int32", "int32", 32, ElementKind::integral},
    {"int64", "int64", 64, ElementKind::integral},
    {"string", "string", 0, ElementKind::other},
    {"bool", "bool", 8, ElementKind::boolean},
    {"float16", "float16", 16, ElementKind::floating_point},
    {"float64", "double", 64, ElementKind::floating_point},
    {"uint32", "uint32", 32, ElementKind::integral},
    {"uint64", "uint64", 64, ElementKind::integral},
    {"complex64", "complex64", 64, ElementKind::complex},
    {"complex128", "complex128", 128, ElementKind::complex},
    {"bfloat16", "bfloat16", 16, ElementKind::floating_point},
    {"float8_e4m3fn", "float8e4m3fn", 8, ElementKind::floating_point},
    {"float8_e4m3fnuz", "float8e4m3fnuz", 8, ElementKind::floating_point},
    {"float8_e5m2", "float8e5m2", 8, ElementKind::floating_point},
    {"float8_e5m2fnuz", "float8e5m2fnuz", 8, ElementKind::floating_point},
    {"uint4", "uint4", 4, ElementKind::integral},
    {"int4", "int4", 4, ElementKind::integral},
    {"float4_e2m1fn", "float4e2m1", 4, ElementKind::floating_point},
    {"float8_e8m0fnu", "float8e8m0", 8, ElementKind::floating_point},
    {"uint2", "uint2", 2, ElementKind::integral},
    {"int2", "int2", 2, ElementKind::integral},
    {"float6_e2m3fn", "float6e2m3", 6, ElementKind::floating_point},
    {"float6_e3m2fn", "float6e3m2", 6, ElementKind::floating_point},
};
inline constexpr std::size_t element_type_count = sizeof(element_type_rows) / sizeof(element_type_rows[0]);

constexpr ElementTypeRow row_of(ElementType type) {
  const auto index = static_cast<std::size_t>(type);
  return index < element_type_count ? element_type_rows[index]
                                    : ElementTypeRow{"unknown", "unknown", 0, ElementKind::other};
}

}  // namespace detail

// The name that torch.dtype and numpy.dtype use: "float32", "bool", "float8_e4m3fn".
constexpr std::string_view name(ElementType type) { return detail::row_of(type).name; }

// The name inside ONNX's "tensor(...)" type strings: "float", "double", "float8e4m3fn".
constexpr std::string_view onnx_name(ElementType type) { return detail::row_of(type).onnx_name; }

// Bits that one element takes in raw data: 0 for string, undefined and unknown numbers.
constexpr unsigned bits_of(ElementType type) { return detail::row_of(type).bits; }

// Bytes of one element: 0 where an element has no size of its own (string, undefined) or is a fraction of a
// byte; ask storage_bytes for those.
constexpr std::size_t size_of(ElementType type) { return bits_of(type) % 8 == 0 ? bits_of(type) / 8 : 0; }

// Bytes that `count` elements take in TensorProto.raw_data, where elements below a byte are packed without
// gaps. 0 for types without a size. `count` times the size must not exceed 2^64.
constexpr std::uint64_t storage_bytes(ElementType type, std::uint64_t count) {
  const unsigned bits = bits_of(type);
  if (bits % 8 == 0) return count * (bits / 8);
  return count / 8 * bits + (count % 8 * bits + 7) / 8;
}

constexpr bool is_floating_point(ElementType type) {
  return detail::row_of(type).kind == detail::ElementKind::floating_point;
}

// Signed and unsigned integers of every width; not bool.
constexpr bool is_integral(ElementType type) {
  return detail::row_of(type).kind == detail::ElementKind::integral;
}

constexpr bool is_complex(ElementType type) {
  return detail::row_of(type).kind == detail::ElementKind::complex;
}

// The element type of the C++ type T: bool, an integer of 8 to 64 bits, float or double.
template <class T>
constexpr ElementType element_type_of() {
  static_assert(std::is_same_v<T, bool> || std::is_same_v<T, float> || std::is_same_v<T, double> ||
                    (std::is_integral_v<T> && sizeof(T) <= 8),
                "no element type for this C++ type");
  if constexpr (std::is_same_v<T, bool>) {
    return ElementType::boolean;
  } else if constexpr (std::is_same_v<T, float>) {
    return ElementType::float32;
  } else if constexpr (std::is_same_v<T, double>) {
    return ElementType::float64;
  } else if constexpr (sizeof(T) == 1) {
    return std::is_signed_v<T> ? ElementType::int8 : ElementType::uint8;
  } else if constexpr (sizeof(T) == 2) {
    return std::is_signed_v<T> ? ElementType::int16 : ElementType::uint16;
  } else if constexpr (sizeof(T) == 4) {
    return std::is_signed_v<T> ? ElementType::int32 : ElementType::uint32;
  } else {
    return std::is_signed_v<T> ? ElementType::int64 : ElementType::uint64;
  }
}

// The inverse of name() and onnx_name(): reads "float32" and "float", "float8_e4m3fn" and "float8e4m3fn".
// Returns nothing for any other text, "undefined" included.
constexpr std::optional<ElementType> parse_element_type(std::string_view text) {
  for (std::size_t i = 1; i < detail::element_type_count; ++i) {
    if (text == detail::element_type_rows[i].name || text == detail::element_type_rows[i].onnx_name) {
      return static_cast<ElementType>(i);
    }
  }
  return std::nullopt;
}

// Converts the ScalarType number in a torch.export archive (torch/_export/serde/schema.py, schema version 8;
// c10::ScalarType has other numbers). Returns nothing for unknown numbers and for types that ONNX lacks
// (complex32).
constexpr std::optional<ElementType> element_type_from_torch_export(std::int64_t scalar_type) {
  switch (scalar_type) {
    case 1:
      return ElementType::uint8;
    case 2:
      return ElementType::int8;
    case 3:
      return ElementType::int16;
    case 4:
      return ElementType::int32;
    case 5:
      return ElementType::int64;
    case 6:
      return ElementType::float16;
    case 7:
      return ElementType::float32;
    case 8:
      return ElementType::float64;
    case 10:
      return ElementType::complex64;
    case 11:
      return ElementType::complex128;
    case 12:
      return ElementType::boolean;
    case 13:
      return ElementType::bfloat16;
    case 28:
      return ElementType::uint16;
    case 29:
      return ElementType::float8e4m3fn;
    case 30:
      return ElementType::float8e5m2;
    case 31:
      return ElementType::float8e4m3fnuz;
    case 32:
      return ElementType::float8e5m2fnuz;
    case 33:
      return ElementType::float8e8m0;
    case 34:
      return ElementType::uint32;
    case 35:
      return ElementType::uint64;
    default:
      return std::nullopt;
  }
}

}  // namespace opbridge
