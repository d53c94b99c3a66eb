#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace opbridge {

// How a tensor lies in its storage: sizes, strides and offset count elements; none is negative.
struct StridedView {
  size_t element_size = 0;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  int64_t offset = 0;

  // Bytes that the tensor takes when it is contiguous; nothing where that passes 2^63.
  std::optional<uint64_t> byte_size() const;
  // Whether every element lies inside a storage of that many bytes, and there are as many strides as sizes.
  bool fits(uint64_t storage_bytes) const;
  // Whether the elements lie in row-major order without gaps.
  bool contiguous() const;
};

// Writes the elements of `view` in row-major order to `target`, which holds view.byte_size() bytes. The view
// must fit the storage.
void strided_copy(const StridedView& view, std::span<const std::byte> storage, std::byte* target);

}  // namespace opbridge
