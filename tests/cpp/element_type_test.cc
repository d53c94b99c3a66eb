#include "opbridge/element_type.h"

#include <gtest/gtest.h>

namespace opbridge {
namespace {

TEST(ElementType, NumbersAreThoseOfTensorProto) {
  EXPECT_EQ(static_cast<int>(ElementType::float32), 1);
  EXPECT_EQ(static_cast<int>(ElementType::float64), 11);
  EXPECT_EQ(static_cast<int>(ElementType::bfloat16), 16);
  EXPECT_EQ(static_cast<int>(ElementType::float8e8m0), 24);
  EXPECT_EQ(static_cast<int>(ElementType::float6e3m2), 28);
}

TEST(ElementType, EveryNameReadsBackAsItsType) {
  for (std::size_t i = 1; i < detail::element_type_count; ++i) {
    const auto type = static_cast<ElementType>(i);
    EXPECT_EQ(parse_element_type(name(type)), type) << name(type);
    EXPECT_EQ(parse_element_type(onnx_name(type)), type) << onnx_name(type);
  }
  EXPECT_EQ(name(ElementType::float32), "float32");
  EXPECT_EQ(onnx_name(ElementType::float64), "double");
  EXPECT_FALSE(parse_element_type("undefined"));
  EXPECT_FALSE(parse_element_type("unknown"));
  EXPECT_FALSE(parse_element_type(""));
  EXPECT_FALSE(parse_element_type("complex32"));
}

TEST(ElementType, Sizes) {
  EXPECT_EQ(size_of(ElementType::float32), 4u);
  EXPECT_EQ(size_of(ElementType::boolean), 1u);
  EXPECT_EQ(size_of(ElementType::complex128), 16u);
  EXPECT_EQ(size_of(ElementType::string), 0u);
  EXPECT_EQ(size_of(ElementType::int4), 0u);
  EXPECT_EQ(bits_of(ElementType::int4), 4u);
  EXPECT_EQ(storage_bytes(ElementType::int4, 5), 3u);
  EXPECT_EQ(storage_bytes(ElementType::uint2, 4), 1u);
  EXPECT_EQ(storage_bytes(ElementType::float6e2m3, 5), 4u);
  EXPECT_EQ(storage_bytes(ElementType::float64, 3), 24u);
  EXPECT_EQ(storage_bytes(ElementType::float64, 0), 0u);
}

TEST(ElementType, Kinds) {
  EXPECT_TRUE(is_floating_point(ElementType::bfloat16));
  EXPECT_TRUE(is_floating_point(ElementType::float4e2m1));
  EXPECT_FALSE(is_floating_point(ElementType::complex64));
  EXPECT_TRUE(is_complex(ElementType::complex64));
  EXPECT_TRUE(is_integral(ElementType::uint2));
  EXPECT_FALSE(is_integral(ElementType::boolean));
  EXPECT_FALSE(is_integral(ElementType::string));
}

TEST(ElementType, OfCppTypes) {
  static_assert(element_type_of<bool>() == ElementType::boolean);
  static_assert(element_type_of<float>() == ElementType::float32);
  static_assert(element_type_of<double>() == ElementType::float64);
  static_assert(element_type_of<std::int64_t>() == ElementType::int64);
  static_assert(element_type_of<long long>() == ElementType::int64);
  static_assert(element_type_of<std::uint8_t>() == ElementType::uint8);
  static_assert(element_type_of<std::int16_t>() == ElementType::int16);
}

TEST(ElementType, NumberNewerThanTheHeader) {
  const auto type = static_cast<ElementType>(200);
  EXPECT_EQ(name(type), "unknown");
  EXPECT_EQ(size_of(type), 0u);
  EXPECT_FALSE(is_floating_point(type));
}

TEST(ElementType, FromTorchExport) {
  EXPECT_EQ(element_type_from_torch_export(1), ElementType::uint8);
  EXPECT_EQ(element_type_from_torch_export(7), ElementType::float32);
  EXPECT_EQ(element_type_from_torch_export(13), ElementType::bfloat16);
  EXPECT_EQ(element_type_from_torch_export(35), ElementType::uint64);
  EXPECT_FALSE(element_type_from_torch_export(0));
  EXPECT_FALSE(element_type_from_torch_export(9)) << "ONNX has no complex32";
  EXPECT_FALSE(element_type_from_torch_export(14));
  EXPECT_FALSE(element_type_from_torch_export(-1));
}

}  // namespace
}  // namespace opbridge
