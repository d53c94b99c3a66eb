#include "tensor/compare.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "opbridge/error.h"
#include "opbridge/operator/tensor.h"

namespace opbridge::tensor {
namespace {

// Reads the elements in sequence. The bytes may be unaligned.
class Elements {
 public:
  explicit Elements(const ir::Weight& tensor)
      : bytes_(tensor.bytes.data()), size_(size_of(tensor.element_type)) {}

  template <class T>
  T at(int64_t index) const {
    T value;
    std::memcpy(static_cast<void*>(&value), bytes_ + static_cast<size_t>(index) * size_, sizeof(T));
    return value;
  }

 private:
  const std::byte* bytes_;
  size_t size_;
};

std::vector<int64_t> indices_of(int64_t index, const std::vector<int64_t>& dims) {
  std::vector<int64_t> indices(dims.size());
  for (size_t axis = dims.size(); axis-- > 0;) {
    indices[axis] = index % dims[axis];
    index /= dims[axis];
  }
  return indices;
}

// long double represents every int64, uint64 and double exactly, so that no difference is lost to rounding.
using Number = long double;

template <class T>
Difference compare_as(const ir::Weight& actual, const ir::Weight& expected, Tolerance tolerance) {
  const Elements a(actual), e(expected);
  Difference difference;
  // The parts of a complex number are compared separately.
  const int64_t count = static_cast<int64_t>(expected.bytes.size() / sizeof(T));
  const int64_t parts = count == 0 ? 1 : count / expected.element_count();
  int64_t wrong = 0;
  int64_t first = 0;
  Number product = 0, actual_square = 0, expected_square = 0;
  for (int64_t i = 0; i < count; ++i) {
    const Number value = a.at<T>(i), wanted = e.at<T>(i);
    if (std::isfinite(value) && std::isfinite(wanted)) {
      product += value * wanted;
      actual_square += value * value;
      expected_square += wanted * wanted;
    }
    if (value == wanted || (std::isnan(value) && std::isnan(wanted))) continue;
    // NaN differs from a number by more than any amount.
    constexpr Number infinity = std::numeric_limits<Number>::infinity();
    const Number error = std::isnan(value - wanted) ? infinity : std::fabs(value - wanted);
    const Number size = std::fabs(wanted);
    const Number relative = size > 0 && std::isfinite(error) ? error / size : infinity;
    difference.max_absolute = std::max(difference.max_absolute, static_cast<double>(error));
    difference.max_relative = std::max(difference.max_relative, static_cast<double>(relative));
    // An infinity agrees only with itself, although the tolerance of an infinite expected value is infinite.
    if (std::isfinite(error) && error <= tolerance.absolute + tolerance.relative * size) continue;
    if (wrong++ == 0) first = i;
  }
  if (actual_square != expected_square || product != actual_square) {
    const Number lengths = std::sqrt(actual_square) * std::sqrt(expected_square);
    difference.cosine = lengths > 0 ? static_cast<double>(product / lengths) : 0;
  }
  difference.mismatches = wrong;
  if (wrong > 0) {
    difference.mismatch = fmt::format(
        "{} of {} elements differ by more than {:g} + {:g} * |expected|; the first at [{}]: {} instead of {}",
        wrong, count, tolerance.absolute, tolerance.relative,
        fmt::join(indices_of(first / parts, expected.dims), ", "), static_cast<double>(a.at<T>(first)),
        static_cast<double>(e.at<T>(first)));
  }
  return difference;
}

}  // namespace

Tolerance Tolerance::of(ElementType type) {
  switch (type) {
    case ElementType::float64:
    case ElementType::complex128:
      return {1e-6, 1e-6};
    case ElementType::float32:
    case ElementType::complex64:
      return {1e-4, 1e-4};
    case ElementType::float16:
      return {1e-2, 1e-2};
    case ElementType::bfloat16:
      return {5e-2, 5e-2};
    default:
      return {};
  }
}

Difference compare(const ir::Weight& actual, const ir::Weight& expected, Tolerance tolerance) {
  const auto incomparable = [&](std::string mismatch) {
    const double unknown = std::numeric_limits<double>::quiet_NaN();
    return Difference{unknown, unknown, unknown, expected.element_count(), std::move(mismatch)};
  };
  for (const double part : {tolerance.relative, tolerance.absolute}) {
    if (!(part >= 0))
      throw Error(ErrorCode::invalid_argument, fmt::format("a tolerance is at least 0, not {:g}", part));
  }
  if (actual.element_type != expected.element_type) {
    return incomparable(
        fmt::format("element type {}, expected {}", name(actual.element_type), name(expected.element_type)));
  }
  if (actual.dims != expected.dims) {
    return incomparable(fmt::format("shape [{}], expected [{}]", fmt::join(actual.dims, ", "),
                                    fmt::join(expected.dims, ", ")));
  }
  switch (expected.element_type) {
    case ElementType::boolean:
    case ElementType::uint8:
      return compare_as<uint8_t>(actual, expected, tolerance);
    case ElementType::int8:
      return compare_as<int8_t>(actual, expected, tolerance);
    case ElementType::int16:
      return compare_as<int16_t>(actual, expected, tolerance);
    case ElementType::uint16:
      return compare_as<uint16_t>(actual, expected, tolerance);
    case ElementType::int32:
      return compare_as<int32_t>(actual, expected, tolerance);
    case ElementType::uint32:
      return compare_as<uint32_t>(actual, expected, tolerance);
    case ElementType::int64:
      return compare_as<int64_t>(actual, expected, tolerance);
    case ElementType::uint64:
      return compare_as<uint64_t>(actual, expected, tolerance);
    case ElementType::float16:
      return compare_as<op::Half>(actual, expected, tolerance);
    case ElementType::bfloat16:
      return compare_as<op::BFloat16>(actual, expected, tolerance);
    case ElementType::float32:
    case ElementType::complex64:
      return compare_as<float>(actual, expected, tolerance);
    case ElementType::float64:
    case ElementType::complex128:
      return compare_as<double>(actual, expected, tolerance);
    default:
      throw Error(ErrorCode::unsupported,
                  fmt::format("tensors of {} cannot be compared", name(expected.element_type)));
  }
}

}  // namespace opbridge::tensor
