#include "kernels.h"

#include "../common/channels_last.h"
#include "../common/scratch_pool.h"
#include "gradient.h"
#include "tile.h"

namespace opbridge::op::deform_conv2d {
namespace {

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

template <class T, class C>
__attribute__((target("avx512f,avx512dq,avx512vl,fma"))) void run_tile_avx512(const Image<T, C>& image,
                                                                              std::int64_t first,
                                                                              std::int64_t count,
                                                                              Workspace<C> work) {
  run_tile<T, C, 64 / sizeof(C)>(image, first, count, work);
}
#endif

template <class T, class C>
auto best_run_tile() {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl"))
    return &run_tile_avx512<T, C>;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return &run_tile_avx2<T, C>;
#endif
  return &run_tile_baseline<T, C>;
}

// Copies row y of an image, [channel][y][x], into Image::pixels, with zeros at both ends.
template <class T, class C>
void lay_out_row(const Geometry& g, const T* image, std::int64_t y, C* pixels) {
  constexpr std::int64_t kBlock = 16;
  C* const row = pixels + (y + 1) * g.padded_width() * g.channels;
  std::fill_n(row, g.channels, C(0));
  std::fill_n(row + (g.width + 1) * g.channels, g.channels, C(0));
  if constexpr (std::is_same_v<T, C>) {
    op::on_best_cpu([&]() __attribute__((always_inline)) {
      op::transpose(image + y * g.width, g.height * g.width, g.channels, g.width, row + g.channels,
                    g.channels);
    });
    return;
  }
  for (std::int64_t begin = 0; begin < g.channels; begin += kBlock) {
    const std::int64_t end = std::min(g.channels, begin + kBlock);
    for (std::int64_t x = 0; x < g.width; ++x) {
      const T* const from = image + y * g.width + x;
      C* const to = row + (x + 1) * g.channels;
      for (std::int64_t c = begin; c < end; ++c) to[c] = static_cast<C>(from[c * g.height * g.width]);
    }
  }
}

// Packs one panel of Image::weights from [out channel][channel of the group][tap]; pads the end of a group
// with zeros.
template <class T, class C>
void pack_weights(const Geometry& g, const T* weight, std::int64_t panel, C* weights) {
  const std::int64_t padded = padded_group<C>(g), depth = g.in_group() * g.taps();
  const std::int64_t group = panel * kPanel<C> / padded, first = panel * kPanel<C> % padded;
  const std::int64_t count = std::min(kPanel<C>, g.out_group() - first);
  const T* const from = weight + (group * g.out_group() + first) * depth;
  for (std::int64_t c = 0; c < g.in_group(); ++c) {
    for (std::int64_t tap = 0; tap < g.taps(); ++tap) {
      C* const to = weights + (panel * depth + tap * g.in_group() + c) * kPanel<C>;
      std::fill_n(to, kPanel<C>, C(0));
      for (std::int64_t o = 0; o < count; ++o) to[o] = static_cast<C>(from[o * depth + c * g.taps() + tap]);
    }
  }
}

}  // namespace

template <class T>
void run(Context& context, const Geometry& g, TensorView<const T> input, TensorView<const T> weight,
         TensorView<const T> offset, const T* mask, const T* bias, TensorView<T> out) {
  if (out.empty()) return;
  using C = std::conditional_t<std::is_same_v<T, double>, double, float>;
  const std::int64_t padded = padded_group<C>(g), packed_out = g.groups * padded;

  C* const weights = context.scratch<C>(packed_out * g.in_group() * g.taps()).data();
  context.parallel_for(packed_out / kPanel<C>, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t panel = begin; panel < end; ++panel) pack_weights(g, weight.data(), panel, weights);
  });
  C* const packed_bias = context.scratch<C>(packed_out).data();
  std::fill_n(packed_bias, packed_out, C(0));
  for (std::int64_t o = 0; bias != nullptr && o < g.out_channels; ++o) {
    packed_bias[o / g.out_group() * padded + o % g.out_group()] = static_cast<C>(bias[o]);
  }

  const std::int64_t padded_size = (Dim(g.padded_height()) * g.padded_width() * g.channels).number();
  C* const pixels = context.scratch<C>(padded_size).data();
  const std::int64_t padded_row = g.padded_width() * g.channels;
  std::fill_n(pixels, padded_row, C(0));
  std::fill_n(pixels + (g.height + 1) * padded_row, 2 * padded_row, C(0));
  const auto run_tile = best_run_tile<T, C>();
  const std::int64_t samples = kTilePixels * taps_per_block(g) * g.channels;
  ScratchPool<C> room(context, samples + kTilePixels * packed_out);
  for (std::int64_t n = 0; n < input.dim(0); ++n) {
    context.parallel_for(g.height, 16, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t y = begin; y < end; ++y) lay_out_row(g, input.slice(n).data(), y, pixels);
    });
    const T* const image_mask =
        mask == nullptr ? nullptr : mask + n * g.offset_groups * g.taps() * g.pixels();
    const Image<T, C> image{
        &g, pixels, weights, packed_bias, offset.slice(n).data(), image_mask, out.slice(n).data()};
    const std::int64_t groups = (g.pixels() + kGroupPixels - 1) / kGroupPixels;
    context.parallel_for(groups, kFewestGroups, [&](std::int64_t begin, std::int64_t end) {
      const typename ScratchPool<C>::Piece piece(room);
      const Workspace<C> work{piece.data(), piece.data() + samples};
      const std::int64_t tiles = (end - begin + kTileGroups - 1) / kTileGroups;
      for (std::int64_t tile = 0; tile < tiles; ++tile) {
        const std::int64_t first = (begin + (end - begin) * tile / tiles) * kGroupPixels;
        const std::int64_t next = (begin + (end - begin) * (tile + 1) / tiles) * kGroupPixels;
        run_tile(image, first, std::min(next, g.pixels()) - first, work);
      }
    });
  }
}

template <class T>
void run_backward(Context& context, const Geometry& g, TensorView<const T> grad, TensorView<const T> input,
                  TensorView<const T> weight, TensorView<const T> offset,
                  std::optional<TensorView<const T>> mask, const Gradients<T>& gradients) {
  const std::int64_t size = (Dim(g.channels) * g.taps() * g.pixels()).number();
  T* const masked = gradients.needs_samples() ? context.scratch<T>(size).data() : nullptr;
  T* const grads = gradients.needs_gradient_of_samples() ? context.scratch<T>(size).data() : nullptr;
  for (std::int64_t n = 0; n < input.dim(0); ++n) {
    const auto image = [&](T* all, std::int64_t elements) {
      return all == nullptr ? all : all + n * elements;
    };
    const std::int64_t planes = g.offset_groups * g.taps() * g.pixels();
    const Gradients<T> own{image(gradients.input, g.channels * g.height * g.width), gradients.weight,
                           image(gradients.offset, 2 * planes), image(gradients.mask, planes),
                           gradients.bias};
    ImageGradient<T>(g, input.slice(n).data(), weight.data(), offset.slice(n).data(),
                     mask ? mask->slice(n).data() : nullptr, grad.slice(n).data(), own)
        .add(context, masked, grads);
  }
}

template void run(Context&, const Geometry&, TensorView<const float>, TensorView<const float>,
                  TensorView<const float>, const float*, const float*, TensorView<float>);
template void run(Context&, const Geometry&, TensorView<const double>, TensorView<const double>,
                  TensorView<const double>, const double*, const double*, TensorView<double>);
template void run(Context&, const Geometry&, TensorView<const Half>, TensorView<const Half>,
                  TensorView<const Half>, const Half*, const Half*, TensorView<Half>);
template void run(Context&, const Geometry&, TensorView<const BFloat16>, TensorView<const BFloat16>,
                  TensorView<const BFloat16>, const BFloat16*, const BFloat16*, TensorView<BFloat16>);
template void run_backward(Context&, const Geometry&, TensorView<const float>, TensorView<const float>,
                           TensorView<const float>, TensorView<const float>,
                           std::optional<TensorView<const float>>, const Gradients<float>&);
template void run_backward(Context&, const Geometry&, TensorView<const double>, TensorView<const double>,
                           TensorView<const double>, TensorView<const double>,
                           std::optional<TensorView<const double>>, const Gradients<double>&);

}  // namespace opbridge::op::deform_conv2d
