// Channels-last images: all channels of a pixel are contiguous in memory.
#pragma once

#include <algorithm>
#include <cstdint>

#include "best_cpu.h"
#include "opbridge/operator.h"

namespace opbridge::op {

// Pads the channels with zeros to whole vectors.
template <class T>
std::int64_t padded_channels(std::int64_t channels) {
  constexpr std::int64_t kLanes = Simd<T>::lanes;
  return (channels + kLanes - 1) / kLanes * kLanes;
}

// Transposes a square of vectors: the rows of `from`, `from_stride` apart, become the columns of `to`.
template <class T>
OPBRIDGE_INLINE void transpose_vectors(const T* from, std::int64_t from_stride, T* to,
                                       std::int64_t to_stride) {
  using Vector = typename Simd<T>::Vector;
  constexpr int kLanes = Simd<T>::lanes;
  static_assert(kLanes == 4 || kLanes == 8);
  Vector rows[kLanes], merged[kLanes];
  for (int i = 0; i < kLanes; ++i) rows[i] = *reinterpret_cast<const Vector*>(from + i * from_stride);
  // Merging rows that are half the lanes apart rotates the bits of an element's index by one.
  for (int merge = 1; merge < kLanes; merge *= 2) {
    for (int i = 0; i < kLanes / 2; ++i) {
      const Vector a = rows[i], b = rows[i + kLanes / 2];
      if constexpr (kLanes == 8) {
        merged[2 * i] = __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
        merged[2 * i + 1] = __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
      } else {
        merged[2 * i] = __builtin_shufflevector(a, b, 0, 4, 1, 5);
        merged[2 * i + 1] = __builtin_shufflevector(a, b, 2, 6, 3, 7);
      }
    }
    std::copy_n(merged, kLanes, rows);
  }
  for (int i = 0; i < kLanes; ++i) *reinterpret_cast<Vector*>(to + i * to_stride) = rows[i];
}

// Transposes a matrix with strided rows. Must be inlined into on_best_cpu.
template <class T>
OPBRIDGE_INLINE void transpose(const T* from, std::int64_t from_stride, std::int64_t rows,
                               std::int64_t columns, T* to, std::int64_t to_stride) {
  constexpr std::int64_t kLanes = Simd<T>::lanes;
  const auto one_by_one = [&](std::int64_t i, std::int64_t j) {
    to[j * to_stride + i] = from[i * from_stride + j];
  };
  std::int64_t i = 0;
  for (; i + kLanes <= rows; i += kLanes) {
    std::int64_t j = 0;
    for (; j + kLanes <= columns; j += kLanes) {
      transpose_vectors(from + i * from_stride + j, from_stride, to + j * to_stride + i, to_stride);
    }
    for (; j < columns; ++j) {
      for (std::int64_t k = i; k < i + kLanes; ++k) one_by_one(k, j);
    }
  }
  for (; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) one_by_one(i, j);
  }
}

// Copies rows [begin, end) of `image`, (channels, height, width), to `pixels`,
// [height][width][padded_channels].
template <class T>
void to_channels_last(TensorView<const T> image, std::int64_t begin, std::int64_t end, T* pixels) {
  const std::int64_t channels = image.dim(0), height = image.dim(1), width = image.dim(2);
  const std::int64_t padded = padded_channels<T>(channels);
  on_best_cpu([&]() __attribute__((always_inline)) {
    for (std::int64_t y = begin; y < end; ++y) {
      T* const row = pixels + y * width * padded;
      transpose(image.data() + y * width, height * width, channels, width, row, padded);
      for (std::int64_t x = 0; x < width; ++x)
        std::fill(row + x * padded + channels, row + (x + 1) * padded, T(0));
    }
  });
}

}  // namespace opbridge::op
