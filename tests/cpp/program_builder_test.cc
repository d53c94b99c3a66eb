#include <gtest/gtest.h>

#include "opbridge/frontend.h"

namespace opbridge {
namespace {

ir::TensorType floats(std::vector<Dim> dims) { return {ElementType::float32, std::move(dims)}; }

TEST(ProgramBuilder, BuildsAGraphCallByCall) {
  ProgramBuilder b;
  ir::Value* x = b.input("x", floats({4, 3}));
  ir::Value* w = b.weight("fc.weight", ir::Weight::of<float>(std::vector<float>(6), {2, 3}));
  ir::Node* n = b.call("aten::linear", {{"input", x}, {"weight", w}}, {"fc", "model.py:3"});
  b.output(b.result(n, "linear", floats({4, 2})), "y");
  const ir::Graph graph = std::move(b).finish();
  EXPECT_EQ(ir::print(graph),
            "graph main(%x: float32[4, 3]) {\n"
            "  weight %fc.weight: float32[2, 3] = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0]\n"
            "  %y: float32[4, 2] = aten::linear(input=%x, weight=%fc.weight)  # fc\n"
            "  return %y\n"
            "}\n");
  EXPECT_EQ(graph.nodes.front()->source.line, "model.py:3");
}

TEST(ProgramBuilder, TiedWeightsAreOne) {
  ProgramBuilder b;
  const ir::Weight weight = ir::Weight::of<float>(std::vector<float>(6), {2, 3});
  ir::Weight transposed = weight;
  transposed.dims = {3, 2};
  ir::Weight integers = weight;
  integers.element_type = ElementType::int32;
  ir::Value* first = b.weight("encoder.weight", weight);
  EXPECT_EQ(b.weight("decoder.weight", weight), first);
  EXPECT_NE(b.weight("transposed", transposed), first);
  EXPECT_NE(b.weight("integers", integers), first);
  EXPECT_NE(b.weight("copy", ir::Weight::of<float>(std::vector<float>(6), {2, 3})), first);
  EXPECT_EQ(first->name, "encoder.weight");
  EXPECT_EQ(std::move(b).finish().initializers.size(), 4u);
}

TEST(ProgramBuilder, OutputsRenameOnlyWhatNodesMake) {
  ProgramBuilder b;
  ir::Value* x = b.input("x", floats({}));
  ir::Value* y = b.result(b.call("aten::relu", {{"self", x}}), "relu", floats({}));
  b.output(x, "same");
  b.output(y, "first");
  b.output(y, "second");
  EXPECT_EQ(x->name, "x");
  EXPECT_EQ(y->name, "first");
  EXPECT_EQ(std::move(b).finish().outputs, (std::vector{x, y, y}));
}

TEST(ProgramBuilder, FinishChecksTheGraph) {
  ProgramBuilder b;
  ir::Value* x = b.input("x", floats({}));
  ir::Node* early = b.call("aten::add.Tensor", {{"self", x}});
  ir::Value* late = b.result(b.call("aten::relu", {{"self", x}}), "late", floats({}));
  early->set("other", late);
  EXPECT_THROW(std::move(b).finish(), Error);
}

}  // namespace
}  // namespace opbridge
