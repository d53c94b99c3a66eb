#include "opbridge/dim.h"

#include <gtest/gtest.h>

#include "ir/dim_expr.h"
#include "opbridge/error.h"

namespace opbridge {
namespace {

const Dim s0 = Dim::symbol("s0");
const Dim s1 = Dim::symbol("s1");

TEST(Dim, IntegersAreStatic) {
  EXPECT_TRUE(Dim(7).is_static());
  EXPECT_EQ(Dim(7).value(), 7);
  EXPECT_TRUE(Dim(7).is(7));
  EXPECT_FALSE(s0.is(7));
  EXPECT_THROW(s0.value(), Error);
}

TEST(Dim, SumsFold) {
  EXPECT_TRUE((s0 - s0).is(0));
  EXPECT_EQ(s0 + s0 - s0, s0);
  EXPECT_EQ(s0 + 0, s0);
  EXPECT_EQ((s0 + s1 + 1 + s0 + 2).str(), "2*s0 + s1 + 3");
  EXPECT_EQ((Dim(1) - s0).str(), "-s0 + 1");
  EXPECT_EQ(Dim(1) + s0 * 2, s0 * 2 + 1);
}

TEST(Dim, ProductsFold) {
  EXPECT_EQ(s0 * 1, s0);
  EXPECT_TRUE((s0 * 0).is(0));
  EXPECT_EQ((s0 * s1 * 3 * s0).str(), "3*s0**2*s1");
  EXPECT_EQ((s0 + 1) * 2, s0 * 2 + 2);
  EXPECT_EQ((s0 * 2 + 2) * s1, (s0 + 1) * s1 * 2);
}

TEST(Dim, FloorDivisionFolds) {
  EXPECT_TRUE(floor_div(7, 2).is(3));
  EXPECT_TRUE(floor_div(-7, 2).is(-4));
  EXPECT_EQ(floor_div(s0, 1), s0);
  EXPECT_EQ(floor_div(s0 * 6, 3), s0 * 2);
  EXPECT_EQ(floor_div(s0 * s1, s1), s0);
  EXPECT_EQ(floor_div(s0 * 2 + 2, s0 + 1), Dim(2));
  EXPECT_EQ(floor_div(s0 * 2, 4), floor_div(s0, 2));
  EXPECT_EQ(floor_div(s0 - 1, 2) + 1, floor_div(s0 + 1, 2));
  EXPECT_EQ(floor_div(s0 * 2 + s1 + 3, 2).str(), "s0 + (s1 + 1)//2 + 1");
  EXPECT_EQ(floor_div(floor_div(s0, 2), 3), floor_div(s0, 6));
  EXPECT_THROW(floor_div(s0, 0), Error);
}

TEST(Dim, ModuloFolds) {
  EXPECT_TRUE(mod(7, 3).is(1));
  EXPECT_TRUE(mod(-7, 3).is(2));
  EXPECT_TRUE(mod(7, -3).is(-2));
  EXPECT_TRUE(mod(s0 * 4, 2).is(0));
  EXPECT_TRUE(mod(s0 * s1, s0).is(0));
  EXPECT_EQ(mod(s0 * 3 + 5, 2), mod(s0 + 1, 2));
  EXPECT_EQ(mod(s0, s1).str(), "Mod(s0, s1)");
  EXPECT_THROW(mod(s0, 0), Error);
}

TEST(Dim, ExtremaFold) {
  EXPECT_TRUE(min(3, 5).is(3));
  EXPECT_EQ(max(s0, s0), s0);
  EXPECT_EQ(max(max(s0, 1), max(2, s1)).str(), "Max(2, s0, s1)");
}

TEST(Dim, OverflowIsRefused) {
  const Dim big(int64_t{1} << 62);
  EXPECT_THROW(big * 2, Error);
  EXPECT_THROW(s0 * big * 2, Error);
  EXPECT_THROW(big + big, Error);
}

TEST(Dim, EvaluatesAsPythonDoes) {
  const auto value = [](const std::string& name) -> int64_t { return name == "s0" ? 7 : 3; };
  EXPECT_EQ((s0 * 2 + s1).evaluate(value), 17);
  EXPECT_EQ(floor_div(s0 - 10, 2).evaluate(value), -2);
  EXPECT_EQ(mod(s0, s1).evaluate(value), 1);
  EXPECT_EQ(max(s0, s1 * 3).evaluate(value), 9);
  EXPECT_THROW(Dim(dim_expr::true_div(s0.expr(), s1.expr())).evaluate(value), Error);
}

TEST(Dim, Renames) {
  EXPECT_EQ(
      (s0 * 2 + s1).renamed([](const std::string& name) { return name == "s0" ? "batch" : name; }).str(),
      "2*batch + s1");
  EXPECT_EQ((s0 + s1).renamed([](const std::string&) { return "n"; }).str(), "2*n");
  EXPECT_EQ((s0 * s1 + s0).symbols(), (std::vector<std::string>{"s0", "s1"}));
}

}  // namespace
}  // namespace opbridge
