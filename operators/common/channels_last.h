// Images with their channels side by side: what reads a pixel of all channels then reads one run of memory.
#pragma once

#include <algorithm>
#include <cstdint>

#include "best_cpu.h"
#include "opbridge/operator.h"

namespace opbridge::op {

// Channels are followed by zeros up to whole vectors.
template <class T>
std::int64_t padded_channels(std::int64_t channels) {
  constexpr std::int64_t kLanes = Simd<T>::lanes;
  return (channels + kLanes - 1) / kLanes * kLanes;
}

// Rows [begin, end) of `image`, (channels, height, width), to `pixels`, [height][width][padded_channels].
template <class T>
void to_channels_last(TensorView<const T> image, std::int64_t begin, std::int64_t end, T* pixels) {
  constexpr std::int64_t kBlock = 16;  // the channels of a block stay in the first-level cache
  const std::int64_t channels = image.dim(0), height = image.dim(1), width = image.dim(2);
  const std::int64_t padded = padded_channels<T>(channels);
  for (std::int64_t y = begin; y < end; ++y) {
    T* const row = pixels + y * width * padded;
    for (std::int64_t first = 0; first < padded; first += kBlock) {
      const std::int64_t last = std::min(first + kBlock, padded);
      for (std::int64_t x = 0; x < width; ++x) {
        const T* const from = image.data() + y * width + x;
        T* const to = row + x * padded;
        for (std::int64_t c = first; c < last; ++c) to[c] = c < channels ? from[c * height * width] : T(0);
      }
    }
  }
}

}  // namespace opbridge::op
