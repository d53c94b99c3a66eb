#include "simplify/folded_weights.h"

#include <algorithm>
#include <memory>

namespace opbridge::simplification {
namespace {

ir::Weight owned(std::shared_ptr<float[]> elements, size_t count, std::vector<int64_t> dims) {
  return {ElementType::float32, std::move(dims), std::as_bytes(std::span(elements.get(), count)), elements};
}

}  // namespace

ir::Weight scaled(const ir::Weight& weight, size_t axis, std::span<const float> factors) {
  const std::span<const float> from = weight.as<float>();
  auto to = std::make_shared_for_overwrite<float[]>(from.size());
  size_t run = 1;  // the number of consecutive elements with the same factor
  for (size_t i = axis + 1; i < weight.dims.size(); ++i) run *= static_cast<size_t>(weight.dims[i]);
  for (size_t start = 0; start < from.size();) {
    for (const float factor : factors) {
      for (const size_t end = start + run; start < end; ++start) to[start] = from[start] * factor;
    }
  }
  return owned(std::move(to), from.size(), weight.dims);
}

ir::Weight transposed_and_scaled(const ir::Weight& matrix, std::span<const float> factors) {
  const std::span<const float> from = matrix.as<float>();
  auto to = std::make_shared_for_overwrite<float[]>(from.size());
  const auto rows = static_cast<size_t>(matrix.dims[0]), columns = static_cast<size_t>(matrix.dims[1]);
  // Process as many rows as fill a cache line of the result; the lines that are read stay in the cache
  // meanwhile.
  constexpr size_t block = 16;
  for (size_t top = 0; top < rows; top += block) {
    const size_t bottom = std::min(top + block, rows);
    for (size_t column = 0; column < columns; ++column) {
      for (size_t row = top; row < bottom; ++row)
        to[column * rows + row] = from[row * columns + column] * factors[row];
    }
  }
  return owned(std::move(to), from.size(), {matrix.dims[1], matrix.dims[0]});
}

}  // namespace opbridge::simplification
