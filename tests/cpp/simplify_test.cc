// Single passes on malformed and on large graphs. golden/ tests the results of the passes.
#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "graph_evaluator.h"
#include "ir/dead_code.h"
#include "model_samples.h"
#include "opbridge/symbolic.h"
#include "runtimes/onnxruntime/legalize.h"
#include "simplify/passes.h"
#include "tensor/evaluate.h"

namespace opbridge {
namespace {

using test::floats;

ir::Value* call(ir::Graph& graph, std::string op, std::vector<ir::Value*> inputs, std::string output,
                std::vector<Dim> dims, std::vector<ir::Attribute> attributes = {}) {
  return test::add(graph, std::move(op), std::move(inputs), std::move(output), floats(std::move(dims)),
                   std::move(attributes));
}

ir::Value* ints(ir::Graph& graph, std::string name, std::vector<int64_t> values) {
  return graph.add_initializer(std::move(name),
                               ir::Weight::of<int64_t>(values, {static_cast<int64_t>(values.size())}));
}

size_t count(const ir::Graph& graph, std::string_view op) {
  return static_cast<size_t>(
      std::ranges::count_if(graph.nodes, [&](const ir::Node* node) { return node->op == op; }));
}

TEST(Simplify, ABodyWithoutNodesUsesWhatItReturns) {
  ir::Graph g;
  ir::Value* condition = g.add_input("c", ir::TensorType{ElementType::boolean, std::vector<Dim>{}});
  ir::Value* x = g.add_input("x", floats({2}));
  ir::Value* sum = call(
      g, "Add", {x, g.add_initializer("zero", ir::Weight::of<float>(std::vector<float>{0}, {}))}, "sum", {2});
  const auto branch = std::make_shared<ir::Graph>();
  branch->outputs = {sum};
  g.outputs = {call(g, "If", {condition}, "y", {2}, {{"then_branch", branch}, {"else_branch", branch}})};
  simplification::remove_identities(g);
  ir::remove_dead_code(g);
  EXPECT_NO_THROW(ir::verify(g));
}

TEST(Simplify, APadOutsideABodyIsKeptFromThePoolInside) {
  for (const int opset : {17, 21}) {
    ir::Graph g;
    ir::Value* condition = g.add_input("c", ir::TensorType{ElementType::boolean, std::vector<Dim>{}});
    ir::Value* x = g.add_input("x", floats({1, 1, 4, 4}));
    ir::Value* padded =
        call(g, "Pad", {x, ints(g, "pads", {0, 0, 1, 1, 0, 0, 1, 1})}, "padded", {1, 1, 6, 6});
    const auto branch = std::make_shared<ir::Graph>();
    branch->outputs = {call(*branch, "MaxPool", {padded}, "pooled", {1, 1, 5, 5},
                            {{"kernel_shape", std::vector<int64_t>{2, 2}}})};
    g.outputs = {call(g, "If", {condition}, "y", {1, 1, 5, 5}, {{"then_branch", branch}})};
    onnxruntime::legalize(g, opset, [](const ir::Node&, const Error& error) { throw error; });
    EXPECT_NO_THROW(ir::verify(g)) << opset;
    EXPECT_EQ(padded->producer->inputs.size() == 4, opset >= 18);
  }
}

// Large graphs, for which passes once took quadratic time or exhausted the stack.

void run_all(ir::Graph& graph) {
  simplify(graph);
  onnxruntime::legalize(graph, default_opset, [](const ir::Node&, const Error& error) { throw error; });
  ir::verify(graph);
}

TEST(Simplify, GoesOverABodyOnceHoweverDeepItLies) {
  ir::Graph g;
  ir::Value* condition = g.add_input("c", ir::TensorType{ElementType::boolean, std::vector<Dim>{}});
  ir::Value* x = g.add_input("x", floats({2}));
  ir::GraphPtr body = std::make_shared<ir::Graph>();
  body->outputs = {call(*body, "Neg", {x}, "innermost", {2})};
  for (int depth = 0; depth < 60; ++depth) {
    const auto outer = std::make_shared<ir::Graph>();
    outer->outputs = {
        call(*outer, "If", {condition}, fmt::format("y{}", depth), {2}, {{"then_branch", body}})};
    call(*outer, "Abs", {x}, fmt::format("dead{}", depth), {2});
    body = outer;
  }
  g.outputs = {call(g, "If", {condition}, "y", {2}, {{"then_branch", body}})};
  run_all(g);
  size_t nodes = 0;
  ir::for_each_node(g, [&](ir::Graph&, ir::Node&) { ++nodes; });
  EXPECT_EQ(nodes, 62u);
}

TEST(Simplify, TakesDeepDiamonds) {
  ir::Graph g;
  const ir::TensorType half{ElementType::float16, std::vector<Dim>{4, 2, 2}};
  const std::vector<uint16_t> zeros(16);
  ir::Weight weight = ir::Weight::of<uint16_t>(zeros, {4, 2, 2});
  weight.element_type = ElementType::float16;
  ir::Value* sum = g.add_initializer("w", weight);
  for (int i = 0; i < 60; ++i) sum = test::add(g, "Add", {sum, sum}, fmt::format("sum{}", i), half);
  ir::Value* x = g.add_input("x", ir::TensorType{ElementType::float16, std::vector<Dim>{2, 2, 4}});
  ir::Value* turned =
      test::add(g, "Transpose", {x}, "turned", half, {{"perm", std::vector<int64_t>{1, 2, 0}}});
  turned->type = ir::TensorType{ElementType::float16, std::vector<Dim>{2, 4, 2}};
  g.outputs = {test::add(g, "MatMul", {turned, sum}, "y", half)};
  onnxruntime::legalize(g, default_opset, [](const ir::Node&, const Error& error) { throw error; });
  ir::verify(g);
  EXPECT_EQ(count(g, "Cast"), 3u);
}

TEST(Simplify, TakesLongChains) {
  constexpr int length = 100000;
  ir::Graph g;
  ir::Value* constant = g.add_initializer("w", test::iota(1, 6));
  ir::Value* x = g.add_input("x", floats({2, 3}));
  ir::Value* shape = ints(g, "shape", {2, 3});
  const std::vector<int64_t> turn{1, 0};
  for (int i = 0; i < length; ++i) {
    constant = call(g, "Sin", {constant}, fmt::format("c{}", i), {1, 6});
    switch (i % 4) {
      case 0:
        x = call(g, "Neg", {x}, fmt::format("x{}", i), {2, 3});
        break;
      case 1:
        x = call(g, "Reshape", {x, shape}, fmt::format("x{}", i), {2, 3});
        break;
      case 2:
        x = call(g, "Transpose", {x}, fmt::format("x{}", i), {3, 2}, {{"perm", turn}});
        break;
      default:
        x = call(g, "Transpose", {x}, fmt::format("x{}", i), {2, 3}, {{"perm", turn}});
        break;
    }
  }
  ir::Value* table = call(g, "Reshape", {constant, shape}, "table", {2, 3});
  g.outputs = {call(g, "Add", {x, table}, "y", {2, 3})};
  run_all(g);
  EXPECT_EQ(g.nodes.size(), length / 4 + 1);
}

TEST(Simplify, TakesAValueWithManyReaders) {
  constexpr int readers = 20000;
  ir::Graph g;
  ir::Value* x = g.add_input("x", floats({2, 3}));
  ir::Value* one = g.add_initializer("one", ir::Weight::of<float>(std::vector<float>{1}, {}));
  std::vector<ir::Value*> parts;
  for (int i = 0; i < readers; ++i) {
    ir::Value* same = call(g, "Mul", {x, one}, fmt::format("same{}", i), {2, 3});
    parts.push_back(call(g, "Add", {same, x}, fmt::format("part{}", i), {2, 3}));
  }
  g.outputs = {call(g, "Concat", parts, "y", {2 * readers, 3}, {{"axis", int64_t{0}}})};
  run_all(g);
  EXPECT_EQ(g.nodes.size(), 2u);
}

// Altered files may contain such graphs.
TEST(Simplify, ConstantsThatDoNotFitTogetherStay) {
  const std::vector<int64_t> none{};
  for (const auto& [op, dims, attribute] :
       {std::tuple{"Concat", std::vector<int64_t>{1, 3}, ir::Attribute{"axis", int64_t{0}}},
        std::tuple{"Concat", std::vector<int64_t>{2, 2}, ir::Attribute{"axis", int64_t{-3}}},
        std::tuple{"Transpose", none, ir::Attribute{"perm", std::vector<int64_t>{0, 2}}},
        std::tuple{"Transpose", none, ir::Attribute{"perm", std::vector<int64_t>{0, -1}}},
        std::tuple{"Gather", std::vector<int64_t>{2}, ir::Attribute{"axis", int64_t{-3}}}}) {
    ir::Graph g;
    std::vector<ir::Value*> inputs{
        g.add_initializer("x", ir::Weight::of<int64_t>(std::vector<int64_t>{1, 2, 3, 4}, {2, 2}))};
    if (!dims.empty()) {
      const std::vector<int64_t> zeros(static_cast<size_t>(tensor::count_of(dims)), 0);
      inputs.push_back(g.add_initializer("other", ir::Weight::of<int64_t>(zeros, dims)));
    }
    ir::Value* made = call(g, op, inputs, "made", {2, 2}, {attribute});
    g.outputs = {call(g, "Neg", {made}, "y", {2, 2})};
    EXPECT_FALSE(simplification::fold_constants(g)) << op;
  }
}

TEST(Simplify, ANormalizationOfOtherChannelsThanItsConvolutionStays) {
  for (const int64_t odd : {0, 1, 2, 3, 4, 5}) {
    ir::Graph g;
    const auto weight = [&](int64_t i, std::vector<int64_t> dims) {
      if (i == odd) dims[0] = 1;
      const std::vector<float> ones(static_cast<size_t>(tensor::count_of(dims)), 1);
      return g.add_initializer("w" + std::to_string(i), ir::Weight::of<float>(ones, dims));
    };
    ir::Value* x = g.add_input("x", floats({1, 3, 4, 4}));
    ir::Value* y = call(g, "Conv", {x, weight(0, {3, 3, 1, 1}), weight(1, {3})}, "y", {1, 3, 4, 4});
    g.outputs = {call(g, "BatchNormalization",
                      {y, weight(2, {3}), weight(3, {3}), weight(4, {3}), weight(5, {3})}, "z",
                      {1, 3, 4, 4})};
    EXPECT_FALSE(simplification::fold_batch_normalization(g)) << odd;
  }
}

}  // namespace
}  // namespace opbridge
