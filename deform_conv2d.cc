// Deformable convolution, version 1 (Dai et al., "Deformable Convolutional Networks", 2017) and 2, with a mask
// (Zhu et al., "Deformable ConvNets v2", 2018). Arguments as in torchvision::deform_conv2d.
#include "opbridge/operator.h"
#include "tile.h"

using namespace opbridge::op;

namespace opbridge::deform_conv2d {
namespace {

// A multiply instruction per vector is what it is about; x86-64 has none that adds too before AVX2's sibling FMA.
template <class T, class C>
void run_tile_baseline(const Image<T, C>& image, std::int64_t first, std::int64_t count, Workspace<C> work) {
  run_tile<T, C, 16 / sizeof(C)>(image, first, count, work);
}

#ifdef __x86_64__
template <class T, class C>
__attribute__((target("avx2,fma"))) void run_tile_avx2(const Image<T, C>& image, std::int64_t first,
                                                        std::int64_t count, Workspace<C> work) {
  run_tile<T, C, 32 / sizeof(C)>(image, first, count, work);
}
#endif

template <class T, class C>
auto tile_function() {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return &run_tile_avx2<T, C>;
#endif
  return &run_tile_baseline<T, C>;
}

// [channel][y][x] to [y + 1][x + 1][channel], the border left as it is.
template <class T, class C>
void to_channels_last(const Geometry& g, const T* from, std::int64_t y, C* padded) {
  constexpr std::int64_t kBlock = 16;
  const std::int64_t plane = g.height * g.width;
  C* const row = padded + ((y + 1) * g.padded_width() + 1) * g.channels;
  for (std::int64_t c = 0; c < g.channels; c += kBlock) {
    const std::int64_t end = std::min(g.channels, c + kBlock);
    for (std::int64_t x = 0; x < g.width; ++x) {
      const T* const pixel = from + y * g.width + x;
      for (std::int64_t i = c; i < end; ++i) row[x * g.channels + i] = static_cast<C>(pixel[i * plane]);
    }
  }
}

// [out channel][channel of the group][tap] to Image::weights; what a panel has beyond its group is zero.
template <class T, class C>
void pack_weights(const Geometry& g, const T* weight, std::int64_t panel, C* packed) {
  const std::int64_t out_group = g.out_channels / g.groups, padded = padded_group<C>(g);
  const std::int64_t in_group = g.channels / g.groups, depth = in_group * g.taps();
  const std::int64_t group = panel * kPanel<C> / padded, first = panel * kPanel<C> % padded;
  const std::int64_t count = std::min(kPanel<C>, out_group - first);
  const T* const from = weight + (group * out_group + first) * depth;
  for (std::int64_t c = 0; c < in_group; ++c) {
    for (std::int64_t tap = 0; tap < g.taps(); ++tap) {
      C* const to = packed + panel * kPanel<C> * depth + (tap * in_group + c) * kPanel<C>;
      for (std::int64_t o = 0; o < kPanel<C>; ++o) {
        to[o] = o < count ? static_cast<C>(from[o * depth + c * g.taps() + tap]) : C(0);
      }
    }
  }
}

template <class T>
void run(Context& context, const Geometry& g, TensorView<const T> input, TensorView<const T> weight,
         TensorView<const T> offset, const T* mask, const T* bias, TensorView<T> out) {
  using C = std::conditional_t<std::is_same_v<T, double>, double, float>;
  const std::int64_t padded = padded_group<C>(g), in_group = g.channels / g.groups;
  const std::int64_t packed_out = g.groups * padded, out_group = g.out_channels / g.groups;

  const std::span<C> packed = context.scratch<C>(packed_out * in_group * g.taps());
  context.parallel_for(packed_out / kPanel<C>, 4, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t panel = begin; panel < end; ++panel) pack_weights(g, weight.data(), panel, packed.data());
  });
  const std::span<C> packed_bias = context.scratch<C>(packed_out);
  std::fill(packed_bias.begin(), packed_bias.end(), C(0));
  for (std::int64_t o = 0; bias != nullptr && o < g.out_channels; ++o) {
    packed_bias[static_cast<std::size_t>(o / out_group * padded + o % out_group)] = static_cast<C>(bias[o]);
  }

  const std::span<C> pixels = context.scratch<C>(g.padded_size());
  std::fill(pixels.begin(), pixels.end(), C(0));
  const auto run_tile = tile_function<T, C>();
  const std::int64_t tiles = (g.pixels() + kTilePixels - 1) / kTilePixels;
  for (std::int64_t n = 0; n < input.dim(0); ++n) {
    context.parallel_for(g.height, 16, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t y = begin; y < end; ++y) to_channels_last(g, input.slice(n).data(), y, pixels.data());
    });
    const std::int64_t offsets = g.offset_groups * g.taps() * g.pixels();
    const Image<T, C> image{&g,
                            pixels.data(),
                            packed.data(),
                            packed_bias.data(),
                            offset.slice(n).data(),
                            mask != nullptr ? mask + n * offsets : nullptr,
                            out.slice(n).data()};
    context.parallel_for(tiles, 1, [&](std::int64_t begin, std::int64_t end) {
      const Workspace<C> work{context.scratch<C>(kTilePixels * taps_per_block(g) * g.channels).data(),
                              context.scratch<C>(kTilePixels * packed_out).data()};
      for (std::int64_t tile = begin; tile < end; ++tile) {
        const std::int64_t first = tile * kTilePixels;
        run_tile(image, first, std::min(kTilePixels, g.pixels() - first), work);
      }
    });
  }
}

}  // namespace
}  // namespace opbridge::deform_conv2d
