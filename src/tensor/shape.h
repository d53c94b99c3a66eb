#pragma once

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "opbridge/dim.h"

namespace opbridge::tensor {

inline Dim element_count(std::span<const Dim> dims) {
  Dim count(1);
  for (const Dim& dim : dims) count = count * dim;
  return count;
}

// Whether the least values of the symbols leave it possible that a symbolic dim is 0.
inline bool may_be_zero(const Dim& dim) { return !dim.is_static() && dim.least().value_or(0) < 1; }

// Whether an axis has no elements, or may have none.
inline bool may_be_empty(const Dim& dim) { return dim.is(0) || may_be_zero(dim); }

// The same of any of several axes.
inline bool may_be_empty(std::span<const Dim> dims) {
  return std::ranges::any_of(dims, [](const Dim& dim) { return may_be_empty(dim); });
}

// The number of elements from one index along each axis to the next.
inline std::vector<Dim> row_major_strides(std::span<const Dim> dims) {
  std::vector<Dim> strides(dims.size(), Dim(1));
  for (size_t i = dims.size(); i-- > 1;) strides[i - 1] = strides[i] * dims[i];
  return strides;
}

// The shape to which `a` and `b` broadcast, by NumPy's rule: shapes are aligned at their last dims. `merge`
// gives the size for two sizes that are aligned.
template <class Size, class Merge>
std::vector<Size> broadcast_shape(std::span<const Size> a, std::span<const Size> b, const Merge& merge) {
  if (a.size() < b.size()) std::swap(a, b);
  std::vector<Size> shape(a.begin(), a.end());
  const size_t offset = a.size() - b.size();
  for (size_t i = 0; i < b.size(); ++i) shape[offset + i] = merge(shape[offset + i], b[i]);
  return shape;
}

}  // namespace opbridge::tensor
