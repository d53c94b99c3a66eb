// Programs of several ways.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "ir/parse.h"
#include "opbridge/convert.h"
#include "opbridge/frontend.h"
#include "opbridge/registry.h"

namespace opbridge {
namespace {

ir::Graph asks(const std::string& least) {
  return ir::parse(
      "graph main(%x: float32[n, 2]) {\n"
      "  %more: bool = _operator::gt(arg0=n, arg1=" +
      least +
      ")\n"
      "  %condition: bool[] = aten::scalar_tensor(s=%more, dtype=bool)\n"
      "  return %condition\n"
      "}\n");
}

ir::Graph adds_bias(const std::string& size, const std::string& type = "float32") {
  return ir::parse("graph main(%x: float32[" + size +
                   ", 2]) {\n"
                   "  weight %bias: float32[2] = [1.0, 2.0]\n"
                   "  %sum: " +
                   type + "[" + size +
                   ", 2] = aten::add.Tensor(self=%x, other=%bias)\n"
                   "  return %sum\n"
                   "}\n");
}

ir::Graph doubles_first() {
  return ir::parse(
      "graph main(%x: float32[n, 2]) {\n"
      "  weight %bias: float32[2] = [1.0, 2.0]\n"
      "  %sum: float32[n, 2] = aten::add.Tensor(self=%x, other=%bias)\n"
      "  %sum_1: float32[2*n, 2] = aten::cat(tensors=[%sum, %x], dim=0)\n"
      "  return %sum_1\n"
      "}\n");
}

OnnxModel exported(ir::Graph graph, const ConvertOptions& options = {}) {
  return to_onnx(std::move(graph), SymbolicRegistry::with_bundled(), options);
}

TEST(Choice, BecomesAnIfWithOneCopyOfEachWeight) {
  ConvertOptions options;
  options.output_names = {"y"};
  const OnnxModel model = exported(choose(asks("3"), adds_bias("n"), doubles_first()), options);
  ir::verify(model.graph);
  ASSERT_EQ(model.graph.outputs.size(), 1u);
  EXPECT_EQ(model.graph.outputs[0]->name, "y");
  EXPECT_EQ(ir::str(model.graph.outputs[0]->type), "float32[y_dim_0, 2]");
  const ir::Node& last = *model.graph.nodes.back();
  EXPECT_EQ(last.op, "If");
  ASSERT_EQ(last.bodies().size(), 2u);
  for (const ir::GraphPtr& body : last.bodies()) {
    EXPECT_TRUE(body->inputs.empty());
    EXPECT_TRUE(body->initializers.empty());
  }
  EXPECT_EQ(std::ranges::count(model.graph.initializers, "bias", &ir::Value::name), 1);
}

TEST(Choice, ChoosesAmongSeveral) {
  ir::Graph few = choose(asks("3"), adds_bias("n"), doubles_first());
  const OnnxModel model = exported(choose(asks("9"), adds_bias("n"), std::move(few)));
  ir::verify(model.graph);
  EXPECT_EQ(std::ranges::count(model.graph.initializers, "bias", &ir::Value::name), 1);
  EXPECT_NE(ir::print(*model.graph.nodes.back()->bodies()[1]).find("If("), std::string::npos);
}

TEST(Choice, AWayMayFixASizeOfAnInput) {
  const OnnxModel model = exported(choose(asks("1"), adds_bias("n"), adds_bias("1")));
  EXPECT_EQ(ir::str(model.graph.inputs[0]->type), "float32[n, 2]");
  EXPECT_THROW(choose(asks("1"), adds_bias("n"), adds_bias("m")), Error);
}

TEST(Choice, AWayMayHaveOneSymbolForSizesOfSeveralInputs) {
  const auto square = [](const std::string& size, const std::string& body) {
    return ir::parse("graph main(%x: float32[n, " + size + "]) {\n" + body + "}\n");
  };
  const std::string copy = "  %y: float32[n, n] = aten::relu(self=%x)\n  return %y\n";
  const std::string other = "  %y: float32[n, m] = aten::neg(self=%x)\n  return %y\n";
  const std::string asked =
      "  %same: bool = _operator::eq(arg0=n, arg1=m)\n"
      "  %condition: bool[] = aten::scalar_tensor(s=%same, dtype=bool)\n"
      "  return %condition\n";
  const OnnxModel model = exported(choose(square("m", asked), square("n", copy), square("m", other)));
  ir::verify(model.graph);
  EXPECT_EQ(ir::str(model.graph.inputs[0]->type), "float32[n, m]");
}

TEST(Choice, RefusesOutputsOfOtherTypesAndLeavesTheGraphs) {
  ir::Graph condition = asks("3"), one = adds_bias("n"), other = adds_bias("n", "int64");
  try {
    choose(std::move(condition), std::move(one), std::move(other));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_NE(error.message().find("float32 of rank 2 or int64 of rank 2"), std::string::npos);
  }
  EXPECT_EQ(one.nodes.size(), 1u);
  EXPECT_EQ(other.nodes.size(), 1u);
}

}  // namespace
}  // namespace opbridge
