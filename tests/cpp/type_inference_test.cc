#include "onnx/type_inference.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace opbridge::onnx {
namespace {

using Types = std::vector<std::optional<ElementType>>;
constexpr auto f32 = ElementType::float32;
constexpr auto i64 = ElementType::int64;

struct Outcome {
  std::optional<ElementType> type;  // of the first output
  std::string conflict;
};

Outcome run(std::string_view op, int opset, const Types& inputs,
            std::optional<ElementType> type_attribute = std::nullopt) {
  const OpSchema& schema = *find_schema("", op, opset);
  const TypeResolution result = resolve(schema, inputs, type_attribute);
  if (result.conflict()) return {std::nullopt, describe(schema, *result.conflict())};
  return {result.output(0), ""};
}

TEST(TypeInference, OutputsFollowTheVariables) {
  EXPECT_EQ(run("Mul", 13, {i64, i64}).type, i64);
  EXPECT_EQ(run("Mul", 13, {std::nullopt, f32}).type, f32);
  EXPECT_EQ(run("Mul", 13, {std::nullopt, std::nullopt}).type, std::nullopt);
  EXPECT_EQ(run("Less", 13, {f32, f32}).type, ElementType::boolean);
  EXPECT_EQ(run("Shape", 13, {std::nullopt}).type, i64);
  EXPECT_EQ(run("Where", 16, {ElementType::boolean, i64, i64}).type, i64);
  EXPECT_EQ(run("Concat", 13, {f32, f32, f32, f32}).type, f32);
  EXPECT_EQ(run("OneHot", 11, {i64, i64, f32}).type, f32);

  const TypeResolution top = resolve(*find_schema("", "TopK", 11), Types{f32, i64});
  EXPECT_EQ(top.output(0), f32);
  EXPECT_EQ(top.output(1), i64);
  EXPECT_EQ(top.output(2), std::nullopt);
}

TEST(TypeInference, ConflictsNameTheInput) {
  EXPECT_EQ(run("Add", 14, {f32, i64}).conflict, "input 1 (B) is int64, but T is float as in input 0 (A)");
  EXPECT_EQ(run("Asinh", 9, {i64}).conflict,
            "input 0 (input) is int64, but T is one of {float, float16, double}");
  EXPECT_EQ(run("Reshape", 14, {f32, f32}).conflict, "input 1 (shape) is float, but must be int64");
  EXPECT_EQ(run("Concat", 13, {f32, f32, i64}).conflict,
            "input 2 (inputs) is int64, but T is float as in input 0 (inputs)");
  EXPECT_EQ(
      run("Add", 6, {ElementType::bfloat16, ElementType::bfloat16}).conflict.find("input 0 (A) is bfloat16"),
      0u);

  const TypeResolution result = resolve(*find_schema("", "Add", 14), Types{f32, i64});
  ASSERT_TRUE(result.conflict());
  EXPECT_EQ(result.conflict()->input, 1u);
  EXPECT_EQ(result.conflict()->as_input, 0u);
  EXPECT_EQ(result.conflict()->found, i64);
  EXPECT_EQ(result.conflict()->expected, TypeSet::of(f32));
}

TEST(TypeInference, MixedVariadicParametersDoNotBind) {
  EXPECT_EQ(run("Loop", 13, {i64, ElementType::boolean, f32, i64}).conflict, "");
  EXPECT_EQ(run("Loop", 13, {i64, ElementType::boolean, f32}).type, std::nullopt);
  EXPECT_EQ(run("If", 13, {ElementType::boolean}).type, std::nullopt);
  EXPECT_NE(run("Loop", 11, {i64, ElementType::boolean, ElementType::bfloat16}).conflict, "");
}

TEST(TypeInference, TypeAttributes) {
  EXPECT_EQ(type_attribute_of(*find_schema("", "Cast", 13)), "to");
  EXPECT_EQ(type_attribute_of(*find_schema("", "Cast", 1)), "") << "a string there";
  EXPECT_EQ(type_attribute_of(*find_schema("", "QuantizeLinear", 13)), "")
      << "output_dtype came with opset 21";
  EXPECT_EQ(type_attribute_of(*find_schema("", "Add", 14)), "");

  EXPECT_EQ(run("Cast", 13, {f32}, i64).type, i64);
  EXPECT_EQ(run("Cast", 13, {f32}).type, std::nullopt);
  EXPECT_EQ(run("Cast", 9, {f32}, ElementType::bfloat16)
                .conflict.find("attribute to is bfloat16, but T2 is one of {"),
            0u);
  EXPECT_EQ(run("ConstantOfShape", 9, {i64}).type, f32);
  EXPECT_EQ(run("ConstantOfShape", 9, {i64}, i64).type, i64);
  EXPECT_EQ(run("Constant", 13, {}, i64).type, i64);
  EXPECT_EQ(run("RandomNormal", 1, {}).type, f32);
  EXPECT_EQ(run("RandomNormalLike", 1, {ElementType::float64}).type, ElementType::float64);
  EXPECT_EQ(run("RandomNormalLike", 1, {ElementType::float64}, f32).type, f32);
  EXPECT_EQ(run("RandomNormalLike", 1, {i64}).conflict.find("input 0 (input) is int64"), 0u);
  EXPECT_EQ(run("EyeLike", 9, {i64}).type, i64);
  EXPECT_EQ(run("Multinomial", 7, {f32}).type, ElementType::int32);
  EXPECT_EQ(run("HannWindow", 17, {i64}).type, f32);
}

TEST(TypeInference, Quantization) {
  EXPECT_EQ(run("QuantizeLinear", 13, {f32, f32}).type, ElementType::uint8);
  EXPECT_EQ(run("QuantizeLinear", 13, {f32, f32, ElementType::int8}).type, ElementType::int8);
  EXPECT_EQ(run("QuantizeLinear", 21, {f32, f32}, ElementType::int4).type, ElementType::int4);
  EXPECT_EQ(run("QuantizeLinear", 21, {f32, f32, ElementType::int8}, ElementType::int4).conflict,
            "attribute output_dtype is int4, but T2 is int8 as in input 2 (y_zero_point)");
  EXPECT_EQ(run("DequantizeLinear", 13, {ElementType::int8, f32}).type, f32);
  EXPECT_EQ(run("DequantizeLinear", 19, {ElementType::int8, ElementType::float16}).type,
            ElementType::float16);
  EXPECT_EQ(run("DequantizeLinear", 23, {ElementType::int8, ElementType::float16}).type,
            ElementType::float16);
  EXPECT_EQ(run("DequantizeLinear", 23, {ElementType::int8, ElementType::float16}, f32).type, f32);
}

TEST(TypeInference, LayerNormalizationStatistics) {
  const OpSchema& schema = *find_schema("", "LayerNormalization", 17);
  const TypeResolution result = resolve(schema, Types{ElementType::float16, ElementType::float16});
  EXPECT_EQ(result.output(0), ElementType::float16);
  EXPECT_EQ(result.output(1), f32);
  EXPECT_EQ(resolve(schema, Types{f32, f32}, ElementType::bfloat16).output(2), ElementType::bfloat16);
}

TEST(TypeInference, AnySignatureTakesAnything) {
  for (const OpSchema& schema : all_schemas()) {
    for (unsigned type = 0; type < 256; ++type) {
      const Types inputs(12, static_cast<ElementType>(type));
      const TypeResolution result = resolve(schema, inputs, static_cast<ElementType>(type));
      if (result.conflict()) {
        EXPECT_FALSE(describe(schema, *result.conflict()).empty());
      }
      for (std::size_t i = 0; i < 10; ++i) (void)result.output(i);
    }
  }
}

}  // namespace
}  // namespace opbridge::onnx
