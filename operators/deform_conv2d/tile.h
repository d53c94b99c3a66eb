// Computes deform_conv2d on a tile of output pixels: bilinear samples form the rows of a matrix, which is
// multiplied by the weights while it is in the cache.
//
// Images are channels-last, so that a sample reads four runs of channels. A border of zeros makes bounds
// checks unnecessary. All functions are always_inline and use GCC's vector types, so that the caller's target
// attribute selects the instructions. Measured on the layer shapes of detectors, the product is as fast as
// OpenBLAS and Eigen or faster, and it needs no packed copy of the samples.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "../common/best_cpu.h"
#include "geometry.h"

namespace opbridge::op::deform_conv2d {

// Weights are packed in panels of output channels, 64 bytes wide, the width of the widest vectors.
template <class C>
inline constexpr std::int64_t kPanel = 64 / sizeof(C);

// Output channels of one group, rounded up to whole panels.
template <class C>
std::int64_t padded_group(const Geometry& g) {
  return (g.out_group() + kPanel<C> - 1) / kPanel<C> * kPanel<C>;
}

// Rows of the product that stay in registers, two vectors each: AVX-512 has 32 registers, other targets have
// 16.
template <class C, int lanes>
inline constexpr int kRows = lanes * sizeof(C) == 64 ? 12 : 6;

// Pixels are processed in groups of the largest number of rows. A tile has up to kTileGroups groups, and at
// least kFewestGroups if there are enough pixels, because each tile reads all weights. A block has few enough
// taps for a tile's samples to fit into the second-level cache.
inline constexpr std::int64_t kGroupPixels = 12;
inline constexpr std::int64_t kTileGroups = 16, kFewestGroups = 8;
inline constexpr std::int64_t kTilePixels = kTileGroups * kGroupPixels;
inline std::int64_t taps_per_block(const Geometry& g) {
  return std::clamp<std::int64_t>(288 / g.channels, 1, g.taps());
}

// Data shared by the tiles of an image. T is the element type of the tensors, C that of the computation.
template <class T, class C>
struct Image {
  const Geometry* geometry;
  const C* pixels;   // [padded_height][padded_width][channels]
  const C* weights;  // [group][panel][tap][channel of the group][kPanel]
  const C* bias;     // [group][padded_group]
  const T* offset;   // [offset group][tap][y, x][pixel]
  const T* mask;     // [offset group][tap][pixel], or null
  T* out;            // [out channel][pixel]
};

// Scratch memory for one tile.
template <class C>
struct Workspace {
  C* samples;  // [kTilePixels][group][tap of the block][channel of the group]
  C* sums;     // [kTilePixels][group][padded_group]
};

// The samples of one tap for each pixel of a tile: the upper left of four neighbours in the padded image, and
// the weights of all four.
template <class C>
struct Neighbours {
  alignas(64) std::int32_t y[kTilePixels], x[kTilePixels];
  alignas(64) C weight[4][kTilePixels];
  alignas(64) C mask[kTilePixels];
};

template <class T, class C>
OPBRIDGE_INLINE void locate(const Image<T, C>& image, std::int64_t offset_group, std::int64_t tap,
                            std::int64_t first, std::int64_t count, Neighbours<C>& n) {
  const Geometry& g = *image.geometry;
  const std::int64_t pixels = g.pixels(), plane = offset_group * g.taps() + tap;
  const T* const offset_y = image.offset + plane * 2 * pixels + first;
  const T* const offset_x = offset_y + pixels;
  const std::int64_t tap_y = tap / g.kernel_w * g.dilation_h - g.pad_h;
  const std::int64_t tap_x = tap % g.kernel_w * g.dilation_w - g.pad_w;
  alignas(64) C base_y[kTilePixels], base_x[kTilePixels];
  for (std::int64_t p = 0, row = first / g.out_width, column = first % g.out_width; p < count; ++p) {
    base_y[p] = static_cast<C>(row * g.stride_h + tap_y);
    base_x[p] = static_cast<C>(column * g.stride_w + tap_x);
    if (++column == g.out_width) column = 0, ++row;
  }
  const auto height = static_cast<C>(g.height), width = static_cast<C>(g.width);
  // An integer: C could round the height of a large image up.
  const auto outside_row = static_cast<std::int32_t>(g.height + 1);
  for (std::int64_t p = 0; p < count; ++p) {
    C y = base_y[p] + static_cast<C>(offset_y[p]), x = base_x[p] + static_cast<C>(offset_x[p]);
    // Samples outside are zero. A sample that is neither inside nor outside has NaN coordinates and is NaN.
    const bool inside = y > -1 && y < height && x > -1 && x < width;
    const bool outside = y <= -1 || y >= height || x <= -1 || x >= width;
    const C unit = inside ? C(1) : outside ? C(0) : std::numeric_limits<C>::quiet_NaN();
    y = inside ? y : C(0);
    x = inside ? x : C(0);
    const C low_y = std::floor(y), low_x = std::floor(x);
    const C dy = y - low_y, dx = x - low_x;
    n.y[p] = inside ? static_cast<std::int32_t>(low_y) + 1 : outside_row;
    n.x[p] = inside ? static_cast<std::int32_t>(low_x) + 1 : 0;
    n.weight[0][p] = (1 - dy) * (1 - dx) * unit;
    n.weight[1][p] = (1 - dy) * dx * unit;
    n.weight[2][p] = dy * (1 - dx) * unit;
    n.weight[3][p] = dy * dx * unit;
  }
  if (image.mask == nullptr) {
    std::fill_n(n.mask, count, C(1));
  } else {
    const T* const mask = image.mask + plane * pixels + first;
    for (std::int64_t p = 0; p < count; ++p) n.mask[p] = static_cast<C>(mask[p]);
  }
}

// Interpolates `count` channels of one sample. `right` and `below` are the offsets of neighbouring pixels.
template <class C, int lanes>
OPBRIDGE_INLINE void interpolate(const C* from, std::int64_t right, std::int64_t below, const C (&w)[4],
                                 C mask, C* to, std::int64_t count) {
  typedef C Vector __attribute__((vector_size(lanes * sizeof(C)), aligned(alignof(C)), may_alias));
  std::int64_t c = 0;
  for (; c + lanes <= count; c += lanes) {
    const auto at = [&](std::int64_t i) __attribute__((always_inline))->const Vector& {
      return *reinterpret_cast<const Vector*>(from + c + i);
    };
    *reinterpret_cast<Vector*>(to + c) =
        (at(0) * w[0] + at(right) * w[1] + at(below) * w[2] + at(below + right) * w[3]) * mask;
  }
  for (; c < count; ++c) {
    const C* const at = from + c;
    to[c] = (at[0] * w[0] + at[right] * w[1] + at[below] * w[2] + at[below + right] * w[3]) * mask;
  }
}

// Fills `samples` for taps [tap_begin, tap_end).
template <class T, class C, int lanes>
OPBRIDGE_INLINE void sample(const Image<T, C>& image, std::int64_t first, std::int64_t count,
                            std::int64_t tap_begin, std::int64_t tap_end, C* samples) {
  const Geometry& g = *image.geometry;
  const std::int64_t in_group = g.in_group(), in_offset_group = g.channels / g.offset_groups;
  const std::int64_t row = (tap_end - tap_begin) * g.channels, below = g.padded_width() * g.channels;
  Neighbours<C> n;
  for (std::int64_t tap = tap_begin; tap < tap_end; ++tap) {
    for (std::int64_t offset_group = 0; offset_group < g.offset_groups; ++offset_group) {
      locate(image, offset_group, tap, first, count, n);
      // Runs of channels that belong to one group and one offset group.
      const std::int64_t channel_end = (offset_group + 1) * in_offset_group;
      for (std::int64_t channel = offset_group * in_offset_group, end = 0; channel < channel_end;
           channel = end) {
        const std::int64_t group = channel / in_group;
        end = std::min(channel_end, (group + 1) * in_group);
        C* const to =
            samples + (group * (tap_end - tap_begin) + tap - tap_begin) * in_group + channel % in_group;
        for (std::int64_t p = 0; p < count; ++p) {
          const C* const from = image.pixels + (n.y[p] * g.padded_width() + n.x[p]) * g.channels + channel;
          const C w[4] = {n.weight[0][p], n.weight[1][p], n.weight[2][p], n.weight[3][p]};
          interpolate<C, lanes>(from, g.channels, below, w, n.mask[p], to + p * row, end - channel);
        }
      }
    }
  }
}

// sums[rows][vectors * lanes] += samples[rows][depth] * weights[depth][vectors * lanes]. A row of weights has
// kPanel elements; `next` is the offset of the next panel.
template <class C, int lanes, int rows, int vectors>
OPBRIDGE_INLINE void multiply(const C* samples, std::int64_t samples_stride, const C* weights,
                              std::int64_t next, std::int64_t depth, C* sums, std::int64_t sums_stride) {
  typedef C Vector __attribute__((vector_size(lanes * sizeof(C)), aligned(alignof(C)), may_alias));
  Vector sum[rows][vectors];
  for (int r = 0; r < rows; ++r) {
    for (int v = 0; v < vectors; ++v)
      sum[r][v] = *reinterpret_cast<const Vector*>(sums + r * sums_stride + v * lanes);
  }
  for (std::int64_t k = 0; k < depth; ++k) {
    Vector weight[vectors];
    for (int v = 0; v < vectors; ++v) {
      const std::int64_t at = v * lanes / kPanel<C> * next + v * lanes % kPanel<C>;
      weight[v] = *reinterpret_cast<const Vector*>(weights + k * kPanel<C> + at);
    }
    for (int r = 0; r < rows; ++r) {
      const Vector value =
          samples[r * samples_stride + k] - Vector{};  // broadcasts; `+` would cost an addition
      for (int v = 0; v < vectors; ++v) sum[r][v] += value * weight[v];
    }
  }
  for (int r = 0; r < rows; ++r) {
    for (int v = 0; v < vectors; ++v)
      *reinterpret_cast<Vector*>(sums + r * sums_stride + v * lanes) = sum[r][v];
  }
}

// Like multiply, for `count` rows.
template <class C, int lanes, int vectors>
OPBRIDGE_INLINE void multiply_rows(std::int64_t count, const C* samples, std::int64_t samples_stride,
                                   const C* weights, std::int64_t next, std::int64_t depth, C* sums,
                                   std::int64_t sums_stride) {
  constexpr int rows = kRows<C, lanes>;
  std::int64_t p = 0;
  for (; p + rows <= count; p += rows) {
    multiply<C, lanes, rows, vectors>(samples + p * samples_stride, samples_stride, weights, next, depth,
                                      sums + p * sums_stride, sums_stride);
  }
  for (; p < count; ++p) {
    multiply<C, lanes, 1, vectors>(samples + p * samples_stride, samples_stride, weights, next, depth,
                                   sums + p * sums_stride, sums_stride);
  }
}

// Computes all channels of the output pixels [first, first + count); count <= kTilePixels.
template <class T, class C, int lanes>
OPBRIDGE_INLINE void run_tile(const Image<T, C>& image, std::int64_t first, std::int64_t count,
                              Workspace<C> work) {
  const Geometry& g = *image.geometry;
  const std::int64_t in_group = g.in_group(), out_group = g.out_group(), padded = padded_group<C>(g);
  const std::int64_t sums_stride = g.groups * padded;
  for (std::int64_t p = 0; p < count; ++p) std::copy_n(image.bias, sums_stride, work.sums + p * sums_stride);

  for (std::int64_t tap = 0, tap_end = 0; tap < g.taps(); tap = tap_end) {
    tap_end = std::min(g.taps(), tap + taps_per_block(g));
    sample<T, C, lanes>(image, first, count, tap, tap_end, work.samples);
    const std::int64_t samples_stride = (tap_end - tap) * g.channels, depth = (tap_end - tap) * in_group;
    const std::int64_t next = g.taps() * in_group * kPanel<C>;
    for (std::int64_t group = 0; group < g.groups; ++group) {
      const C* const samples = work.samples + group * depth;
      for (std::int64_t o = 0; o < padded; o += 2 * lanes) {
        const std::int64_t column = group * padded + o;
        const C* const weights =
            image.weights + column / kPanel<C> * next + tap * in_group * kPanel<C> + column % kPanel<C>;
        if (o + 2 * lanes <= padded) {
          multiply_rows<C, lanes, 2>(count, samples, samples_stride, weights, next, depth, work.sums + column,
                                     sums_stride);
        } else {
          multiply_rows<C, lanes, 1>(count, samples, samples_stride, weights, next, depth, work.sums + column,
                                     sums_stride);
        }
      }
    }
  }

  for (std::int64_t o = 0; o < g.out_channels; ++o) {
    const C* const sums = work.sums + o / out_group * padded + o % out_group;
    T* const out = image.out + o * g.pixels() + first;
    for (std::int64_t p = 0; p < count; ++p) out[p] = static_cast<T>(sums[p * sums_stride]);
  }
}

}  // namespace opbridge::op::deform_conv2d
