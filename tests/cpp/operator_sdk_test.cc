// The compile-time reader of schema lines in the operator SDK against the core's parser, and other parts of
// its headers.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <string>

#include "opbridge/operator/schema.h"
#include "opbridge/operator/shape.h"
#include "opbridge/operator/tensor.h"
#include "opbridge/schema.h"

namespace {

using opbridge::op::detail::Kind;
using opbridge::op::detail::Schema;
using opbridge::op::detail::SchemaReader;

constexpr std::string_view kLines[] = {
    "custom::my_add(Tensor a, Tensor b) -> Tensor",
    "ns::all(Tensor x, Tensor? mask, int i, SymInt n, float f, bool b, str t) -> (Tensor, Tensor)",
    "ns::lists(int[] a, SymInt[] b, float[] c, bool[] d, str[] e, int[2] pair, Tensor[] xs) -> Tensor[]",
    "ns::optionals(int? a=None, float? b=None, bool? c=None, str? d=None, int[]? e=None) -> Tensor",
    "ns::defaults(Tensor x, int a=-1, float b=1e-05, bool c=True, str d=\"a, (b)\", int[2] e=1, int[] f=[1, "
    "2], *, "
    "int g=3) -> Tensor",
    "ns::named(Tensor x) -> (Tensor values, Tensor indices)",
};

opbridge::SchemaType::Kind core_kind(Kind kind) {
  using Core = opbridge::SchemaType::Kind;
  switch (kind) {
    case Kind::tensor:
      return Core::tensor;
    case Kind::integer:
      return Core::integer;
    case Kind::sym_int:
      return Core::sym_int;
    case Kind::floating:
      return Core::floating;
    case Kind::boolean:
      return Core::boolean;
    case Kind::string:
      return Core::string;
  }
  return Core::opaque;
}

TEST(OperatorSchema, ReadsWhatTheCoreParserReads) {
  for (const std::string_view line : kLines) {
    SCOPED_TRACE(line);
    const Schema schema = SchemaReader(line).read();
    const opbridge::OperatorSchema core = opbridge::parse_schema(line);
    EXPECT_EQ(std::string(schema.domain) + "::" + std::string(schema.name), core.name);
    ASSERT_EQ(schema.argument_count, core.arguments.size());
    for (std::size_t i = 0; i < schema.argument_count; ++i) {
      const auto& argument = schema.arguments[i];
      const opbridge::SchemaArgument& expected = core.arguments[i];
      EXPECT_EQ(argument.name, expected.name);
      EXPECT_EQ(core_kind(argument.type.kind), expected.type.kind) << expected.name;
      EXPECT_EQ(argument.type.list, expected.type.list) << expected.name;
      EXPECT_EQ(argument.type.optional, expected.type.optional) << expected.name;
      EXPECT_EQ(argument.list_size, static_cast<std::size_t>(expected.type.fixed_size)) << expected.name;
      EXPECT_EQ(argument.has_default, expected.default_value.has_value()) << expected.name;
    }
    ASSERT_EQ(schema.return_count, core.returns.size());
    for (std::size_t i = 0; i < schema.return_count; ++i) {
      EXPECT_EQ(schema.returns[i].list, core.returns[i].type.list);
    }
  }
}

TEST(OperatorSchema, KeepsDefaultsAsTheyAreWritten) {
  constexpr Schema schema = SchemaReader(kLines[4]).read();
  EXPECT_EQ(schema.arguments[1].default_text, "-1");
  EXPECT_EQ(schema.arguments[2].default_text, "1e-05");
  EXPECT_EQ(schema.arguments[4].default_text, "\"a, (b)\"");
  EXPECT_EQ(schema.arguments[6].default_text, "[1, 2]");
  EXPECT_EQ(schema.arguments[7].default_text, "3");
}

TEST(OperatorRequire, MakesAMessageOnlyWhereItIsShown) {
  using opbridge::op::Dim, opbridge::op::require;
  int made = 0;
  const auto message = [&] { return "made " + std::to_string(++made); };
  require(true, message);
  require(Dim(2) == Dim(2), message);
  EXPECT_EQ(made, 0);
  const auto refused = [](const auto& condition, const auto& text) -> std::string {
    try {
      require(condition, text);
    } catch (const opbridge::Error& error) {
      return error.message();
    }
    return "nothing";
  };
  EXPECT_EQ(refused(false, message), "made 1");
  EXPECT_EQ(refused(Dim(2) == Dim(3), message), "made 2");
  EXPECT_EQ(refused(false, "a text"), "a text");
  EXPECT_EQ(refused(Dim(2) == Dim(3), std::string("another")), "another");
  EXPECT_EQ(refused(false, [] { return "text of a function"; }), "text of a function");
}

// Compares with the conversion that IEEE 754 defines: every half, and every float that is at, just below or
// just above the midpoint of two halves.
TEST(OperatorHalf, RoundsToNearestEven) {
  using opbridge::op::Half;
  float previous = 0;
  for (std::uint32_t bits = 0; bits < 0x7c00; ++bits) {
    const auto half = std::bit_cast<Half>(static_cast<std::uint16_t>(bits));
    const float value = half;
    const int exponent = static_cast<int>(bits >> 10);
    const float expected = exponent == 0
                               ? std::ldexp(static_cast<float>(bits), -24)
                               : std::ldexp(static_cast<float>(1024 + (bits & 1023)), exponent - 25);
    ASSERT_EQ(value, expected);
    ASSERT_EQ(std::bit_cast<std::uint16_t>(Half(value)), bits);
    ASSERT_EQ(std::bit_cast<std::uint16_t>(Half(-value)), bits | 0x8000u);
    if (bits > 0) {
      const float middle = (previous + value) / 2;
      const std::uint32_t even = bits % 2 == 0 ? bits : bits - 1;
      ASSERT_EQ(std::bit_cast<std::uint16_t>(Half(middle)), even);
      ASSERT_EQ(std::bit_cast<std::uint16_t>(Half(std::nextafter(middle, 1e9f))), bits);
      ASSERT_EQ(std::bit_cast<std::uint16_t>(Half(std::nextafter(middle, -1e9f))), bits - 1);
    }
    previous = value;
  }
  EXPECT_EQ(std::bit_cast<std::uint16_t>(Half(65519.996f)), 0x7bffu);
  EXPECT_EQ(std::bit_cast<std::uint16_t>(Half(65520.0f)), 0x7c00u);
  EXPECT_EQ(static_cast<float>(Half(INFINITY)), INFINITY);
  EXPECT_TRUE(std::isnan(static_cast<float>(Half(NAN))));
}

TEST(OperatorHalf, BFloat16RoundsToNearestEven) {
  using opbridge::op::BFloat16;
  EXPECT_EQ(static_cast<float>(BFloat16(1.0f)), 1.0f);
  EXPECT_EQ(static_cast<float>(BFloat16(1.00390625f)), 1.0f);       // a tie, to even
  EXPECT_EQ(static_cast<float>(BFloat16(1.01171875f)), 1.015625f);  // a tie, to even
  EXPECT_EQ(static_cast<float>(BFloat16(1.005f)), 1.0078125f);
  EXPECT_EQ(static_cast<float>(BFloat16(INFINITY)), INFINITY);
  EXPECT_TRUE(std::isnan(static_cast<float>(BFloat16(NAN))));
  EXPECT_TRUE(std::isnan(static_cast<float>(BFloat16(std::bit_cast<float>(0x7f800001u)))));
}

}  // namespace
