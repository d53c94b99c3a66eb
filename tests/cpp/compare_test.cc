#include "tensor/compare.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "opbridge/error.h"

namespace opbridge::tensor {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

template <class T>
ir::Weight vector_of(const std::vector<T>& values) {
  return ir::Weight::of<T>(values, {static_cast<int64_t>(values.size())});
}

bool agree(const std::vector<double>& actual, const std::vector<double>& expected) {
  return compare(vector_of(actual), vector_of(expected), {1e-3, 1e-3}).mismatch.empty();
}

TEST(Compare, TellsTheLargestDifferences) {
  const Difference difference =
      compare(vector_of<float>({1.5F, 2, -8}), vector_of<float>({1, 2, -10}), {1, 1});
  EXPECT_EQ(difference.mismatch, "");
  EXPECT_DOUBLE_EQ(difference.max_absolute, 2);
  EXPECT_DOUBLE_EQ(difference.max_relative, 0.5);
}

TEST(Compare, TheDifferenceFromZeroAndOfNanIsInfinite) {
  const Difference from_zero = compare(vector_of<float>({0.5F, 1}), vector_of<float>({0, 1}), {});
  EXPECT_EQ(from_zero.max_absolute, 0.5);
  EXPECT_EQ(from_zero.max_relative, kInfinity);
  EXPECT_EQ(compare(vector_of<float>({0}), vector_of<float>({0}), {}).max_relative, 0);
  const Difference of_nan = compare(vector_of<double>({kNan, 1}), vector_of<double>({2, 1}), {});
  EXPECT_EQ(of_nan.max_absolute, kInfinity);
  EXPECT_EQ(of_nan.max_relative, kInfinity);
  EXPECT_EQ(compare(vector_of<double>({kInfinity}), vector_of<double>({-kInfinity}), {}).max_relative,
            kInfinity);
}

TEST(Compare, RefusesTolerancesBelowZero) {
  for (const double wrong : {-1.0, kNan}) {
    EXPECT_THROW(compare(vector_of<float>({1}), vector_of<float>({1}), {wrong, 0}), Error);
    EXPECT_THROW(compare(vector_of<float>({1}), vector_of<float>({1}), {0, wrong}), Error);
  }
}

TEST(Compare, CountsMismatchesAndMeasuresTheAngle) {
  const Difference turned = compare(vector_of<float>({3, 4}), vector_of<float>({4, -3}), {});
  EXPECT_EQ(turned.mismatches, 2);
  EXPECT_NEAR(turned.cosine, 0, 1e-12);
  const Difference scaled = compare(vector_of<float>({2, 4, 0}), vector_of<float>({1, 2, 0}), {});
  EXPECT_EQ(scaled.mismatches, 2);
  EXPECT_NEAR(scaled.cosine, 1, 1e-12);
  EXPECT_EQ(compare(vector_of<float>({0, 0}), vector_of<float>({0, 0}), {}).cosine, 1);
  EXPECT_EQ(compare(vector_of<float>({0, 0}), vector_of<float>({0, 1}), {}).cosine, 0);
  const Difference with_nan = compare(vector_of<double>({1, kNan}), vector_of<double>({1, kNan}), {});
  EXPECT_EQ(with_nan.cosine, 1);
  const Difference other_shape = compare(vector_of<float>({1}), vector_of<float>({1, 2, 3}), {});
  EXPECT_EQ(other_shape.mismatches, 3);
  EXPECT_TRUE(std::isnan(other_shape.cosine));
}

TEST(Compare, NamesTheFirstElementThatDiffers) {
  const ir::Weight actual = ir::Weight::of<int64_t>(std::vector<int64_t>{0, 1, 2, 3, 5, 6}, {2, 3});
  const ir::Weight expected = ir::Weight::of<int64_t>(std::vector<int64_t>{0, 1, 2, 3, 4, 5}, {2, 3});
  EXPECT_EQ(compare(actual, expected, {}).mismatch,
            "2 of 6 elements differ by more than 0 + 0 * |expected|; the first at [1, 1]: 5 instead of 4");
}

TEST(Compare, ToleratesRelativeAndAbsoluteErrors) {
  EXPECT_TRUE(agree({1000.9}, {1000}));
  EXPECT_FALSE(agree({1002}, {1000}));
  EXPECT_TRUE(agree({0.0009}, {0}));
  EXPECT_FALSE(agree({0.0011}, {0}));
}

TEST(Compare, InfinitiesAndNanAgreeWithThemselvesAlone) {
  EXPECT_TRUE(agree({kInfinity, -kInfinity, kNan}, {kInfinity, -kInfinity, kNan}));
  EXPECT_FALSE(agree({1}, {kInfinity}));
  EXPECT_FALSE(agree({kInfinity}, {1}));
  EXPECT_FALSE(agree({-kInfinity}, {kInfinity}));
  EXPECT_FALSE(agree({kNan}, {1}));
  EXPECT_FALSE(agree({1}, {kNan}));
}

TEST(Compare, ToleratesNoErrorOfLargeIntegers) {
  const int64_t large = int64_t{1} << 62;
  const Tolerance tolerance = Tolerance::of(ElementType::int64);
  EXPECT_FALSE(
      compare(vector_of<int64_t>({large}), vector_of<int64_t>({large + 1}), tolerance).mismatch.empty());
}

TEST(Compare, WantsTheSameShapeAndElementType) {
  EXPECT_EQ(compare(vector_of<float>({1}), vector_of<double>({1}), {}).mismatch,
            "element type float32, expected float64");
  EXPECT_EQ(compare(vector_of<float>({1}), vector_of<float>({1, 1}), {}).mismatch, "shape [1], expected [2]");
}

TEST(Compare, EmptyTensorsAgree) {
  EXPECT_EQ(compare(vector_of<float>({}), vector_of<float>({}), {}).mismatch, "");
}

TEST(Compare, RefusesWhatItCannotRead) {
  ir::Weight packed{ElementType::int4, {0}, {}, nullptr};
  EXPECT_THROW(compare(packed, packed, {}), Error);
}

}  // namespace
}  // namespace opbridge::tensor
