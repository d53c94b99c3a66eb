// Broadcasting of two tensors.
#pragma once

#include <span>
#include <vector>

#include "opbridge/operator.h"

namespace opbridge::op {

// NumPy's rule: aligned at the last dim, sizes must be equal or one of them 1.
inline Shape broadcast(const Shape& a, const Shape& b) {
  const auto message = [&] {
    return "the shapes " + to_string(a) + " and " + to_string(b) + " do not broadcast";
  };
  Shape result = a.size() >= b.size() ? a : b;
  const Shape& shorter = a.size() >= b.size() ? b : a;
  const auto is_one = [](const Dim& dim) { return dim.is_number() && dim.number() == 1; };
  const std::size_t offset = result.size() - shorter.size();
  for (std::size_t i = 0; i < shorter.size(); ++i) {
    Dim& size = result[offset + i];
    if (is_one(size)) {
      size = shorter[i];
    } else if (!is_one(shorter[i])) {
      require(size == shorter[i], message);
    }
  }
  return result;
}

// Maps the index of an element of the result to that of the operand's element.
class BroadcastIndex {
 public:
  BroadcastIndex(std::span<const std::int64_t> operand, std::span<const std::int64_t> result) {
    std::int64_t stride = 1, divisor = 1;
    for (std::size_t i = 1; i <= result.size(); ++i) {
      const std::int64_t size = result[result.size() - i];
      const std::int64_t own = i <= operand.size() ? operand[operand.size() - i] : 1;
      if (own > 1) dims_.push_back({divisor, size, stride});
      stride *= own;
      divisor *= size;
    }
    is_whole_ = stride == divisor;
  }

  std::int64_t operator()(std::int64_t i) const {
    if (is_whole_) return i;
    std::int64_t offset = 0;
    for (const Dimension& dim : dims_) offset += i / dim.divisor % dim.size * dim.stride;
    return offset;
  }

 private:
  struct Dimension {
    std::int64_t divisor, size, stride;
  };
  std::vector<Dimension> dims_;
  bool is_whole_ = false;
};

}  // namespace opbridge::op
