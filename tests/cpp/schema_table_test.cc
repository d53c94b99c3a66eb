#include "onnx/schema_table.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace opbridge::onnx {
namespace {

TEST(SchemaTable, FindsTheVersionInForce) {
  EXPECT_EQ(find_schema("", "Clip", 13)->since_version, 13);
  EXPECT_EQ(find_schema("", "Clip", 20)->since_version, 13);
  EXPECT_EQ(find_schema("", "Clip", 12)->since_version, 12);
  EXPECT_EQ(find_schema("", "Clip", 10)->since_version, 6);
  EXPECT_EQ(find_schema("", "Clip", 1)->since_version, 1);
  EXPECT_EQ(find_schema("", "Clip", 0), nullptr);
  EXPECT_EQ(find_schema("ai.onnx", "Clip", 13), find_schema("", "Clip", 13));
  EXPECT_EQ(find_schema("", "Asinh", 8), nullptr);
  EXPECT_EQ(find_schema("", "Asinh", 9)->since_version, 9);
  EXPECT_EQ(find_schema("", "Asinhh", 13), nullptr);
  EXPECT_EQ(find_schema("", "", 13), nullptr);
  EXPECT_EQ(find_schema("com.example", "Clip", 13), nullptr);
  EXPECT_EQ(find_schema("ai.onnx.ml", "LabelEncoder", 2)->domain(), "ai.onnx.ml");
}

TEST(SchemaTable, FindsEverySchemaByItsOwnKey) {
  ASSERT_GT(all_schemas().size(), 500u);
  for (const OpSchema& schema : all_schemas()) {
    EXPECT_EQ(find_schema(schema.domain(), schema.name(), schema.since_version), &schema) << describe(schema);
  }
}

TEST(SchemaTable, Versions) {
  EXPECT_EQ(first_version("", "Asinh"), 9);
  EXPECT_EQ(first_version("", "DeformConv"), 19);
  EXPECT_EQ(first_version("", "Asinhh"), 0);
  EXPECT_GE(newest_opset(), 21);
  EXPECT_EQ(newest_opset("com.example"), 0);
  EXPECT_EQ(ir_version_for(13), 7);
  EXPECT_EQ(ir_version_for(20), 9);
  EXPECT_EQ(ir_version_for(21), 10);
  EXPECT_EQ(ir_version_for(2), 3);
  EXPECT_EQ(ir_version_for(-5), 3);
  EXPECT_EQ(ir_version_for(10000), ir_version_for(newest_opset()));
  EXPECT_EQ(ir_version_for(3, "ai.onnx.ml"), 8);
  EXPECT_EQ(ir_version_for(3, "com.example"), 3);
}

TEST(SchemaTable, Parameters) {
  const OpSchema& clip = *find_schema("", "Clip", 13);
  ASSERT_EQ(clip.inputs().size(), 3u);
  EXPECT_EQ(clip.input(1)->name(), "min");
  EXPECT_EQ(clip.input(1)->option, ParameterOption::optional);
  EXPECT_EQ(clip.input(3), nullptr);
  EXPECT_EQ(clip.output(0)->name(), "output");
  EXPECT_FALSE(clip.accepts_inputs(0));
  EXPECT_TRUE(clip.accepts_inputs(1));
  EXPECT_TRUE(clip.accepts_inputs(3));
  EXPECT_FALSE(clip.accepts_inputs(4));
  EXPECT_TRUE(clip.accepts_outputs(1));
  EXPECT_FALSE(clip.accepts_outputs(2));
  EXPECT_TRUE(clip.types()[clip.input(0)->type].allowed.contains(ElementType::bfloat16));
  EXPECT_FALSE(clip.types()[clip.input(0)->type].allowed.contains(ElementType::boolean));

  const OpSchema& concat = *find_schema("", "Concat", 13);
  EXPECT_EQ(concat.input(0), concat.input(99));
  EXPECT_EQ(concat.max_inputs, OpSchema::unbounded);
  EXPECT_TRUE(concat.accepts_inputs(1000));
  EXPECT_FALSE(concat.accepts_inputs(0));
  EXPECT_TRUE(concat.input(0)->homogeneous);
  EXPECT_FALSE(find_schema("", "Loop", 13)->input(5)->homogeneous);

  const OpSchema& reshape = *find_schema("", "Reshape", 14);
  const TypeParameter& shape_type = reshape.types()[reshape.input(1)->type];
  EXPECT_EQ(shape_type.name(), "tensor(int64)");
  EXPECT_EQ(shape_type.allowed.only(), ElementType::int64);
}

TEST(SchemaTable, Attributes) {
  const OpSchema& conv = *find_schema("", "Conv", 11);
  EXPECT_EQ(conv.attribute("strides")->kind, AttributeKind::ints);
  EXPECT_FALSE(conv.attribute("strides")->has_default);
  EXPECT_EQ(conv.attribute("group")->default_ints()[0], 1);
  EXPECT_EQ(conv.attribute("auto_pad")->default_strings()[0].view(), "NOTSET");
  EXPECT_TRUE(conv.attribute("auto_pad")->default_ints().empty());
  EXPECT_EQ(conv.attribute("stride"), nullptr);
  EXPECT_TRUE(find_schema("", "Cast", 13)->attribute("to")->required);
  EXPECT_EQ(find_schema("", "LeakyRelu", 16)->attribute("alpha")->default_floats()[0], 0.01F);
  EXPECT_EQ(find_schema("", "Clip", 6)->attribute("max")->default_floats()[0],
            std::numeric_limits<float>::max());
}

TEST(SchemaTable, Deprecated) {
  EXPECT_FALSE(find_schema("", "Upsample", 9)->deprecated);
  EXPECT_TRUE(find_schema("", "Upsample", 13)->deprecated);
}

TEST(SchemaTable, TypeSets) {
  const OpSchema& sequence_at = *find_schema("", "SequenceAt", 11);
  const TypeSet sequences = sequence_at.types()[sequence_at.input(0)->type].allowed;
  EXPECT_TRUE(sequences.has(TypeSet::sequence));
  EXPECT_FALSE(sequences.contains(ElementType::float32));
  EXPECT_FALSE(sequences.only());
  EXPECT_EQ(sequences.str(), "sequence");
  EXPECT_EQ(TypeSet::of(ElementType::float64).str(), "double");
  EXPECT_EQ(TypeSet{}.str(), "{}");
  EXPECT_FALSE(TypeSet{TypeSet::map}.contains(static_cast<ElementType>(63)));
}

TEST(SchemaTable, SuggestsNames) {
  const auto first = [](const auto& names) { return names.empty() ? std::string_view() : names.front(); };
  EXPECT_EQ(first(suggest_names("Asinhh")), "Asinh");
  EXPECT_EQ(first(suggest_names("asinh")), "Asinh");
  EXPECT_EQ(first(suggest_names("Concta")), "Concat");
  EXPECT_EQ(first(suggest_names("LayerNormalisation")), "LayerNormalization");
  EXPECT_EQ(first(suggest_names("BatchNorm")), "BatchNormalization");
  EXPECT_EQ(first(suggest_names("LabelEncodr", "ai.onnx.ml")), "LabelEncoder");
  EXPECT_NE(first(suggest_names("DeformConvv", "", 13)), "DeformConv") << "it exists from opset 19 on";
  EXPECT_NE(first(suggest_names("Upsampl")), "Upsample") << "it is deprecated";
  EXPECT_TRUE(suggest_names("").empty());
  EXPECT_TRUE(suggest_names("frobnicate").empty());
  EXPECT_TRUE(suggest_names(std::string(100000, 'A')).empty());
  EXPECT_TRUE(suggest_names("Asinhh", "com.example").empty());
  EXPECT_LE(suggest_names("ReduceSun").size(), 3u);
}

TEST(SchemaTable, Describes) {
  EXPECT_EQ(describe(*find_schema("", "Asinh", 9)),
            "Asinh-9(T input) -> T output; T in {float, float16, double}; no attributes");
  EXPECT_EQ(describe(*find_schema("", "Gelu", 20)),
            "Gelu-20(T X) -> T Y; T in {float, float16, double, bfloat16}; attributes: string approximate = "
            "\"none\"");
  EXPECT_EQ(describe(*find_schema("", "Upsample", 10))
                .find("Upsample-10(T X, tensor(float) scales) -> T Y; T in {"),
            0u);
  const std::string loop = describe(*find_schema("", "Loop", 13));
  EXPECT_NE(loop.find("optional I M, optional B cond, variadic mixed V v_initial"), std::string::npos)
      << loop;
  EXPECT_NE(loop.find("; I = int64; B = bool;"), std::string::npos) << loop;
  EXPECT_NE(loop.find("graph body (required)"), std::string::npos) << loop;
  const std::string rnn = describe(*find_schema("", "RNN", 14));
  EXPECT_NE(rnn.find("strings activations = [\"Tanh\", \"Tanh\"]"), std::string::npos) << rnn;
  EXPECT_EQ(describe(*find_schema("ai.onnx.ml", "Binarizer", 1)).find("ai.onnx.ml::Binarizer-1("), 0u);
}

}  // namespace
}  // namespace opbridge::onnx
