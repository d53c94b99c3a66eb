#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace opbridge::tensor {

// The layout of a tensor in its storage. Sizes, strides and offset count elements; none is negative.
struct StridedView {
  size_t element_size = 0;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  int64_t offset = 0;

  // The size of the tensor once it is contiguous; nothing if it exceeds 2^63.
  std::optional<uint64_t> byte_size() const;
  // Whether every element lies within a storage of this size, and sizes and strides have equal length.
  bool fits(uint64_t storage_bytes) const;
  // Whether the elements are in row-major order without gaps.
  bool contiguous() const;
};

// Writes the elements of `view` to `target` in row-major order. `target` has view.byte_size() bytes, and the
// view must fit the storage.
void strided_copy(const StridedView& view, std::span<const std::byte> storage, std::byte* target);

}  // namespace opbridge::tensor
