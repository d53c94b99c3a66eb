// The checks of `g.op`, at every opset.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <set>

#include "builder/stage.h"
#include "onnx/schema_table.h"
#include "opbridge/symbolic.h"

namespace opbridge {
namespace {

constexpr int oldest_opset = 9;

// The error of g.op with as many inputs and outputs as the operator needs, all of unknown type; empty if the
// node is made.
std::string refusal(int opset, std::string_view op, size_t inputs, size_t outputs,
                    std::optional<Attr> attribute = std::nullopt) {
  ir::Graph graph;
  GraphBuilder g(graph, opset);
  std::vector<Operand> operands(inputs, Value(graph.add_input("x", ir::TensorType())));
  if (attribute) operands.emplace_back(*attribute);
  try {
    g.op_list(op, outputs, operands);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_node) << error.what();
    return error.message();
  }
  return {};
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::set<std::string_view> operators() {
  std::set<std::string_view> names;
  for (const onnx::OpSchema& schema : onnx::all_schemas()) {
    if (schema.domain().empty()) names.insert(schema.name());
  }
  return names;
}

TEST(GraphBuilder, AnOperatorIsRefusedBeforeTheOpsetThatBringsIt) {
  size_t refused = 0;
  for (const std::string_view op : operators()) {
    const int first = onnx::first_version("", op);
    for (int opset = oldest_opset; opset < first; ++opset, ++refused) {
      const std::string told = fmt::format("since opset {}, but the target is opset {}", first, opset);
      EXPECT_TRUE(contains(refusal(opset, op, 1, 1), told)) << op << " at " << opset;
    }
  }
  EXPECT_GT(refused, 400u);
}

TEST(GraphBuilder, AnAttributeIsRefusedWhereTheOpsetLacksIt) {
  size_t lacking = 0, known = 0;
  for (const std::string_view op : operators()) {
    std::set<std::string_view> names;  // of all versions
    for (const onnx::OpSchema& schema : onnx::all_schemas()) {
      if (!schema.domain().empty() || schema.name() != op) continue;
      for (const onnx::AttributeSchema& attribute : schema.attributes()) names.insert(attribute.name());
    }
    for (int opset = oldest_opset; opset <= onnx::newest_opset(); ++opset) {
      const onnx::OpSchema* schema = onnx::find_schema("", op, opset);
      if (schema == nullptr || schema->deprecated) continue;
      for (const std::string_view name : names) {
        const auto inputs = static_cast<size_t>(schema->min_inputs);
        const auto outputs = static_cast<size_t>(schema->min_outputs);
        const std::string message = refusal(opset, op, inputs, outputs, attr(std::string(name), 1));
        const bool has = schema->attribute(name) != nullptr;
        EXPECT_EQ(contains(message, "no attribute \"" + std::string(name) + '"'), !has)
            << op << " at " << opset << ": " << message;
        ++(has ? known : lacking);
      }
    }
  }
  EXPECT_GT(lacking, 500u);
  EXPECT_GT(known, 5000u);
}

TEST(GraphBuilder, TellsWhatMovedBetweenOpsets) {
  const auto axes = attr("axes", std::vector<int64_t>{0});
  EXPECT_TRUE(
      contains(refusal(13, "Squeeze", 1, 1, axes), "no attribute \"axes\"; it is an input since opset 13"));
  EXPECT_TRUE(contains(refusal(18, "ReduceMean", 1, 1, axes), "it is an input since opset 18"));
  EXPECT_EQ(refusal(17, "ReduceMean", 1, 1, axes), "");
  EXPECT_TRUE(contains(refusal(12, "Squeeze", 2, 1),
                       "2 inputs given, 1 expected; axes is an attribute up to opset 12"));
  EXPECT_TRUE(contains(refusal(13, "Reshape", 2, 1, attr("allowzero", 1)), "ONNX has it since opset 14"));
  EXPECT_TRUE(
      contains(refusal(14, "BatchNormalization", 5, 1, attr("spatial", 1)), "ONNX has it up to opset 8"));
  EXPECT_TRUE(contains(refusal(10, "Clip", 2, 1), "min is an attribute up to opset 10"));
  EXPECT_TRUE(contains(refusal(9, "Slice", 3, 1), "starts is an attribute up to opset 9"));
  EXPECT_TRUE(contains(refusal(13, "Relu", 2, 1), "2 inputs given, 1 expected\n"));
}

TEST(GraphBuilder, TellsSinceWhenATypeIsTaken) {
  ir::Graph graph;
  GraphBuilder g(graph, 18);
  const Value x(graph.add_input("x", ir::TensorType{ElementType::float8e4m3fn, std::vector<Dim>{2, 3}}));
  try {
    g.op("Transpose", x);
    FAIL() << "Transpose takes 8-bit floats since opset 21";
  } catch (const Error& error) {
    EXPECT_TRUE(contains(error.message(), "; ONNX takes it since opset 21")) << error.message();
  }
}

// g.op with tensors of these ranks.
std::string refusal_of_ranks(std::string_view op, std::initializer_list<size_t> ranks, Attr attribute) {
  ir::Graph graph;
  GraphBuilder g(graph, 20);
  std::vector<Operand> operands{attribute};
  for (const size_t rank : ranks) {
    operands.emplace_back(
        Value(graph.add_input("x", ir::TensorType{ElementType::int64, std::vector<Dim>(rank, 3)})));
  }
  try {
    g.op_list(op, 1, operands);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_node) << error.what();
    return error.message();
  }
  return {};
}

TEST(GraphBuilder, AxesThatDoNotExistAreRefused) {
  EXPECT_TRUE(contains(refusal_of_ranks("Concat", {0, 0}, attr("axis", 0)), "a 0-d tensor has no axes"));
  EXPECT_TRUE(contains(refusal_of_ranks("Concat", {1, 0}, attr("axis", 0)), "0-d"));
  EXPECT_TRUE(contains(refusal_of_ranks("Gather", {0, 1}, attr("axis", 0)), "a 0-d tensor has no axes"));
  EXPECT_TRUE(contains(refusal_of_ranks("Concat", {2, 2}, attr("axis", 2)), "axis 2"));
  for (const std::vector<int64_t>& perm : {std::vector<int64_t>{0, 5}, {0}, {0, 0}, {1, 0, 2}}) {
    EXPECT_TRUE(
        contains(refusal_of_ranks("Transpose", {2}, attr("perm", perm)), "is not a permutation of 2 axes"));
  }
  EXPECT_EQ(refusal_of_ranks("Transpose", {2}, attr("perm", std::vector<int64_t>{1, 0})), "");
}

TEST(GraphBuilder, PadsForOtherAxesAreRefused) {
  for (const size_t count : {0, 2, 6}) {
    ir::Graph graph;
    GraphBuilder g(graph, 20);
    const Value x = graph.add_input("x", ir::TensorType{ElementType::float32, std::vector<Dim>{3, 3}});
    const Value pads = g.ints(std::vector<int64_t>(count, 1));
    EXPECT_THROW(g.op("Pad", x, pads), Error);
  }
}

TEST(GraphBuilder, OnlyOptionalInputsMayBeLeftOut) {
  ir::Graph graph;
  GraphBuilder g(graph, 20);
  const Value x = graph.add_input("x", ir::TensorType{ElementType::float32, std::vector<Dim>{3}});
  EXPECT_THROW(g.op("Max", x, Value(), x), Error);
  EXPECT_THROW(g.op("Concat", x, Value(), x, attr("axis", 0)), Error);
  EXPECT_NO_THROW(g.op("Clip", x, Value(), g.scalar(1.0, ElementType::float32)));
}

TEST(GraphBuilder, TheDomainOfOnnxMayBeWritten) {
  ir::Graph graph;
  GraphBuilder g(graph, 20);
  const Value x = graph.add_input("x", ir::TensorType{ElementType::float32, std::vector<Dim>{3}});
  for (const char* name : {"Asinh", "onnx::Asinh", "ai.onnx::Asinh"}) {
    EXPECT_EQ(g.op(name, x).get()->producer->op, "Asinh");
  }
}

TEST(GraphBuilder, ASizeThatNothingTellsEqualsNoOther) {
  ir::Graph graph;
  GraphBuilder g(graph, 20);
  BuilderStage(g).reserve_symbol("size");
  const Dim first = g.unknown_size("size"), second = g.unknown_size("size");
  EXPECT_FALSE(first == Dim::symbol("size") || first == second);
  EXPECT_EQ(first.least(), 0);
}

TEST(GraphBuilder, DivisionOfNumbersThatMayBeNegativeRoundsDown) {
  ir::Graph graph;
  GraphBuilder g(graph, 20);
  const Value x =
      graph.add_input("x", ir::TensorType{ElementType::float32, std::vector<Dim>{Dim::symbol("n")}});
  const Value number = graph.add_input("k", ir::TensorType{ElementType::int64, std::vector<Dim>{}});
  g.bind_dims(x);
  g.bind_symbol("k", number);
  g.size(floor_div(Dim::symbol("n"), 2));
  EXPECT_TRUE(std::ranges::none_of(graph.nodes, [](const ir::Node* node) { return node->op == "Mod"; }));
  g.size(floor_div(Dim::symbol("k", std::nullopt), 2));
  EXPECT_TRUE(std::ranges::any_of(graph.nodes, [](const ir::Node* node) { return node->op == "Mod"; }));
}

}  // namespace
}  // namespace opbridge
