// The dims that GraphBuilder infers for intermediate values of a lowering.
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "opbridge/symbolic.h"

namespace opbridge {
namespace {

class ShapeInference : public ::testing::Test {
 protected:
  // A float32 input. `n` is a symbol of at least 1.
  Value input(std::vector<Dim> dims) {
    Value value = graph.add_input("x", ir::TensorType{ElementType::float32, std::move(dims)});
    g.bind_dims(value);
    return value;
  }
  static std::string dims(Value value) {
    if (!value.ranked()) return "unranked";
    std::vector<std::string> texts;
    for (const Dim& dim : value.dims()) texts.push_back(dim.str());
    return fmt::format("{}", fmt::join(texts, ", "));
  }

  ir::Graph graph;
  GraphBuilder g{graph, 21};
  const Dim n = Dim::symbol("n", 1);
};

TEST_F(ShapeInference, Pad) {
  Value x = input({n, 3, 4});
  EXPECT_EQ(dims(g.op("Pad", x, g.ints({0, 0, 1, 0, 0, 2}))), "n, 3, 7");
  EXPECT_EQ(dims(g.op("Pad", x, g.ints({1, 2}), std::nullopt, g.ints({-1}))), "n, 3, 7");
  EXPECT_EQ(dims(g.op("Pad", x, g.sizes({0, 0, 0, n, 0, 0}))), "2*n, 3, 4");
  Value computed = graph.add_input("pads", ir::TensorType{ElementType::int64, std::vector{Dim(6)}});
  EXPECT_EQ(dims(g.op("Pad", x, computed)), "unranked");
}

TEST_F(ShapeInference, AsManyAsTheDataHave) {
  EXPECT_EQ(dims(g.op("NonZero", input({n, 10}))), "2, size");
  EXPECT_EQ(dims(g.op("NonMaxSuppression", input({1, n, 4}), input({1, 2, n}))), "size_1, 3");
}

TEST_F(ShapeInference, Slice) {
  Value x = input({n, 10});
  const auto sliced = [&](int64_t start, int64_t end, int64_t step) {
    return dims(g.op("Slice", x, g.ints({start}), g.ints({end}), g.ints({1}), g.ints({step})));
  };
  EXPECT_EQ(sliced(2, 7, 1), "n, 5");
  EXPECT_EQ(sliced(2, 7, 2), "n, 3");
  EXPECT_EQ(sliced(-3, INT64_MAX, 1), "n, 3");
  EXPECT_EQ(sliced(7, 2, 1), "n, 0");
  EXPECT_EQ(sliced(-1, INT64_MIN, -1), "n, 10");
  EXPECT_EQ(sliced(-1, 0, -4), "n, 3");
  EXPECT_EQ(dims(g.op("Slice", x, g.ints({0}), g.ints({2}))), "unranked");  // of n elements
}

TEST_F(ShapeInference, Reduce) {
  Value x = input({n, 3, 4});
  EXPECT_EQ(dims(g.op("ReduceSum", x, g.ints({-1}), attr("keepdims", 0))), "n, 3");
  EXPECT_EQ(dims(g.op("ReduceMax", x, g.ints({0, 1}))), "1, 1, 4");
  EXPECT_EQ(dims(g.op("ReduceSum", x)), "1, 1, 1");
  EXPECT_EQ(dims(g.op("ReduceSum", x, std::nullopt, attr("noop_with_empty_axes", 1))), "n, 3, 4");
  EXPECT_EQ(dims(g.op("ArgMax", x, attr("axis", 1), attr("keepdims", 0))), "n, 4");
}

TEST_F(ShapeInference, SizesThatAreValues) {
  Value x = input({n, 3});
  EXPECT_EQ(dims(g.op("Reshape", x, g.sizes({3, n}))), "3, n");
  EXPECT_EQ(dims(g.op("Reshape", x, g.ints({0, 3, 1}))), "n, 3, 1");
  EXPECT_EQ(dims(g.op("Reshape", x, g.ints({-1}))), "unranked");
  EXPECT_EQ(dims(g.op("Expand", x, g.sizes({5, n, 1}))), "5, n, 3");
  EXPECT_EQ(dims(g.op("ConstantOfShape", g.sizes({n, 2}))), "n, 2");
  const auto number = [&](int64_t value) { return g.scalar(value, ElementType::int64); };
  EXPECT_EQ(dims(g.op("Range", number(0), g.size(n), number(1))), "n");
  EXPECT_EQ(dims(g.op("Range", number(5), g.size(n), number(1))), "unranked");  // n may be less
  EXPECT_EQ(dims(g.ops<2>("TopK", x, g.sizes({n}), attr("axis", 0))[1]), "n, 3");
  EXPECT_EQ(dims(g.ops<2>("TopK", x, g.ints({2}))[0]), "n, 2");
}

TEST_F(ShapeInference, Windows) {
  Value x = input({n, 3, 9, 8}), weight = input({6, 3, 3, 2});
  EXPECT_EQ(dims(g.op("Conv", x, weight)), "n, 6, 7, 7");
  EXPECT_EQ(dims(g.op("Conv", x, weight, attr("strides", std::vector<int64_t>{2, 3}),
                      attr("pads", std::vector<int64_t>{1, 0, 1, 1}),
                      attr("dilations", std::vector<int64_t>{2, 1}))),
            "n, 6, 4, 3");
  EXPECT_EQ(dims(g.op("Conv", x, weight, attr("auto_pad", "SAME_UPPER"))), "unranked");
  const Value back = input({3, 2, 3, 2});
  EXPECT_EQ(dims(g.op("ConvTranspose", x, back)), "n, 2, 11, 9");
  EXPECT_EQ(dims(g.op("ConvTranspose", x, back, attr("strides", std::vector<int64_t>{2, 3}),
                      attr("pads", std::vector<int64_t>{1, 0, 1, 1}), attr("group", 3),
                      attr("output_padding", std::vector<int64_t>{0, 2}),
                      attr("dilations", std::vector<int64_t>{2, 1}))),
            "n, 6, 19, 24");
  EXPECT_EQ(dims(g.op("ConvTranspose", x, back, attr("output_shape", std::vector<int64_t>{20, 20}))),
            "unranked");
  const Attr kernel = attr("kernel_shape", std::vector<int64_t>{2, 2});
  EXPECT_EQ(dims(g.op("MaxPool", x, kernel)), "n, 3, 8, 7");
  EXPECT_EQ(dims(g.op("AveragePool", x, kernel, attr("ceil_mode", 1))), "unranked");
  EXPECT_EQ(dims(g.op("GlobalAveragePool", x)), "n, 3, 1, 1");
}

}  // namespace
}  // namespace opbridge
