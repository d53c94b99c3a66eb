// Programs so large that algorithms of quadratic time would not finish.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "model_samples.h"
#include "opbridge/convert.h"
#include "opbridge/frontend.h"
#include "opbridge/registry.h"

namespace opbridge {
namespace {

using test::floats;

OnnxModel exported(ProgramBuilder program) {
  return to_onnx(std::move(program).finish(), SymbolicRegistry::with_bundled(), {});
}

class Program : public ProgramBuilder {
 public:
  ir::Value* make(const char* op, std::vector<ir::Attribute> arguments, std::vector<Dim> dims) {
    return result(call(op, std::move(arguments)), fmt::format("v{}", made_++), floats(std::move(dims)));
  }

 private:
  int made_ = 0;
};

TEST(LargePrograms, ChainsOfOperatorsViewsAndWrites) {
  constexpr int length = 50000;
  const Dim n = Dim::symbol("n", 1);
  Program program;
  ir::Value* x = program.input("x", floats({n, 6}));
  ir::Value* y = program.make("aten::clone", {{"self", x}}, {n, 6});
  for (int i = 0; i < length / 5; ++i) {
    x = program.make("aten::add.Tensor", {{"self", x}, {"other", y}}, {n, 6});
    ir::Value* turned = program.make("aten::transpose.int",
                                     {{"self", x}, {"dim0", int64_t{0}}, {"dim1", int64_t{1}}}, {6, n});
    ir::Value* flat =
        program.make("aten::reshape", {{"self", turned}, {"shape", std::vector<Dim>{n * 6}}}, {n * 6});
    x = program.make("aten::reshape", {{"self", flat}, {"shape", std::vector<Dim>{n, 6}}}, {n, 6});
    program.make("aten::add_.Tensor", {{"self", y}, {"other", int64_t{1}}}, {n, 6});
  }
  program.output(x);
  program.output(y, "y");
  EXPECT_GT(exported(std::move(program)).graph.nodes.size(), static_cast<size_t>(length / 5));
}

TEST(LargePrograms, ManyInputsSymbolsAndOutputs) {
  constexpr int count = 5000;
  Program program;
  std::vector<ir::Value*> inputs;
  std::vector<Dim> sizes;
  std::string text;
  for (int i = 0; i < count; ++i) {
    const Dim size = Dim::symbol(fmt::format("s{}", i), 1);
    inputs.push_back(program.input(fmt::format("x{}", i), floats({size, 4})));
    sizes.push_back(size);
    text += fmt::format("{}s{}", i == 0 ? "" : " + ", i);
  }
  const Dim total = Dim::parse(text, [](const std::string& name, auto) { return Dim::symbol(name, 1); });
  ir::Value* all = program.make("aten::cat", {{"tensors", inputs}, {"dim", int64_t{0}}}, {total, 4});
  for (int i = 0; i < 50; ++i) {
    all = program.make("aten::reshape", {{"self", all}, {"shape", std::vector<Dim>{2, total, 2}}},
                       {2, total, 2});
    all = program.make("aten::reshape", {{"self", all}, {"shape", std::vector<Dim>{total, 4}}}, {total, 4});
    all = program.make("aten::neg", {{"self", all}}, {total, 4});
  }
  program.output(all, "all");
  for (int i = 0; i < 4 * count; ++i) {
    const auto at = static_cast<size_t>(i % count);
    program.output(program.make("aten::abs", {{"self", inputs[at]}}, {sizes[at], 4}), "y");
  }
  EXPECT_EQ(exported(std::move(program)).graph.outputs.size(), 4u * count + 1);
}

TEST(LargePrograms, ManyPartsOfASplit) {
  constexpr int count = 20000;
  const Dim n = Dim::symbol("n", 1);
  Program program;
  ir::Value* x = program.input("x", floats({n * count, 2}));
  ir::Value* y = program.make("aten::clone", {{"self", x}}, {n * count, 2});
  ir::Node* split = program.call("aten::split.Tensor", {{"self", y}, {"split_size", n}, {"dim", int64_t{0}}});
  std::vector<ir::Value*> parts;
  for (int i = 0; i < count; ++i)
    parts.push_back(program.result(split, fmt::format("p{}", i), floats({n, 2})));
  program.make("aten::add_.Tensor", {{"self", y}, {"other", int64_t{1}}}, {n * count, 2});
  program.output(program.make("aten::cat", {{"tensors", parts}, {"dim", int64_t{0}}}, {n * count, 2}), "all");
  const OnnxModel model = exported(std::move(program));
  EXPECT_GE(std::ranges::count(model.graph.nodes, "Slice", &ir::Node::op), count);
}

}  // namespace
}  // namespace opbridge
