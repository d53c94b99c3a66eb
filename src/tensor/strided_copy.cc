#include "tensor/strided_copy.h"

#include <algorithm>
#include <cstring>

namespace opbridge::tensor {
namespace {

template <size_t size>
void copy_row(const std::byte* source, size_t step, size_t count, std::byte* target) {
  for (size_t i = 0; i < count; ++i) std::memcpy(target + i * size, source + i * step, size);
}

}  // namespace

std::optional<uint64_t> StridedView::byte_size() const {
  if (std::ranges::find(sizes, 0) != sizes.end()) return 0;
  int64_t bytes = static_cast<int64_t>(element_size);
  for (int64_t size : sizes) {
    if (__builtin_mul_overflow(bytes, size, &bytes)) return std::nullopt;
  }
  return static_cast<uint64_t>(bytes);
}

bool StridedView::fits(uint64_t storage_bytes) const {
  if (strides.size() != sizes.size()) return false;
  if (std::ranges::find(sizes, 0) != sizes.end()) return true;
  int64_t last = offset;
  for (size_t i = 0; i < sizes.size(); ++i) {
    int64_t reach = 0;
    if (__builtin_mul_overflow(sizes[i] - 1, strides[i], &reach)) return false;
    if (__builtin_add_overflow(last, reach, &last)) return false;
  }
  return static_cast<uint64_t>(last) < storage_bytes / element_size;
}

bool StridedView::contiguous() const {
  if (std::ranges::find(sizes, 0) != sizes.end()) return true;
  int64_t expected = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    if (sizes[i] != 1 && strides[i] != expected) return false;
    expected *= sizes[i];
  }
  return true;
}

void strided_copy(const StridedView& view, std::span<const std::byte> storage, std::byte* target) {
  if (view.byte_size() == 0) return;
  const size_t size = view.element_size;
  const std::byte* source = storage.data() + static_cast<size_t>(view.offset) * size;
  const size_t rank = view.sizes.size();
  const auto row = static_cast<size_t>(rank == 0 ? 1 : view.sizes[rank - 1]);
  const size_t step = (rank == 0 ? 1 : static_cast<size_t>(view.strides[rank - 1])) * size;

  std::vector<int64_t> index(rank, 0);  // of the row's first element: its last entry stays 0
  for (;;) {
    switch (size) {
      case 1:
        copy_row<1>(source, step, row, target);
        break;
      case 2:
        copy_row<2>(source, step, row, target);
        break;
      case 4:
        copy_row<4>(source, step, row, target);
        break;
      case 8:
        copy_row<8>(source, step, row, target);
        break;
      default:
        copy_row<16>(source, step, row, target);
        break;
    }
    target += row * size;
    size_t axis = rank < 2 ? 0 : rank - 1;
    for (;;) {
      if (axis == 0) return;
      --axis;
      const size_t stride = static_cast<size_t>(view.strides[axis]) * size;
      if (++index[axis] < view.sizes[axis]) {
        source += stride;
        break;
      }
      source -= static_cast<size_t>(view.sizes[axis] - 1) * stride;
      index[axis] = 0;
    }
  }
}

}  // namespace opbridge::tensor
