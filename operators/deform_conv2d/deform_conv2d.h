// Deformable convolution, version 1 (Dai et al., "Deformable Convolutional Networks", 2017) and version 2,
// which has a mask (Zhu et al., "Deformable ConvNets v2: More Deformable, Better Results", 2018). The
// arguments are those of torchvision::deform_conv2d.
#pragma once

#include "../common/channels_last.h"
#include "../common/scratch_pool.h"
#include "../common/shapes.h"
#include "gradient.h"
#include "tile.h"

namespace opbridge::op::deform_conv2d {

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

inline Dim output_size(const Dim& size, const Dim& kernel, std::int64_t stride, std::int64_t pad,
                       std::int64_t dilation) {
  const Dim last = size + Dim(2) * pad - Dim(dilation) * (kernel - 1) - 1;
  require(last >= 0, "the dilated kernel is larger than the padded input");
  return last / stride + 1;
}

struct Options {
  std::int64_t stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups, offset_groups;
};

inline Shape shape(const Shape& input, const Shape& weight, const Shape& offset,
                   const std::optional<Shape>& mask, const std::optional<Shape>& bias, const Options& o) {
  require_rank(input, 4, "input");
  require_rank(weight, 4, "weight");
  require(o.stride_h > 0 && o.stride_w > 0 && o.dilation_h > 0 && o.dilation_w > 0 && o.pad_h >= 0 &&
              o.pad_w >= 0,
          "strides and dilations must be positive, padding must not be negative");
  require(o.groups > 0 && o.offset_groups > 0, "groups and offset_groups must be positive");
  const Dim &batch = input[0], &channels = input[1];
  const Dim taps = weight[2] * weight[3];
  require(weight[2] > 0, "the kernel must not be empty");
  require(weight[3] > 0, "the kernel must not be empty");
  require(channels > 0, "input must have channels");
  require(channels == weight[1] * o.groups, "input must have groups * weight.size(1) channels");
  require(weight[0] % o.groups == 0, "the output channels, weight.size(0), must be a multiple of groups");
  require(channels % o.offset_groups == 0, "the channels of input must be a multiple of offset_groups");
  const Dim out_h = output_size(input[2], weight[2], o.stride_h, o.pad_h, o.dilation_h);
  const Dim out_w = output_size(input[3], weight[3], o.stride_w, o.pad_w, o.dilation_w);
  require_shape(offset, {batch, Dim(2) * o.offset_groups * taps, out_h, out_w}, "offset");
  if (mask) require_shape(*mask, {batch, taps * o.offset_groups, out_h, out_w}, "mask");
  if (bias) require_shape(*bias, {weight[0]}, "bias");
  return Shape{batch, weight[0], out_h, out_w};
}

template <class T>
Geometry geometry_of(TensorView<const T> input, TensorView<const T> weight, TensorView<const T> offset,
                     const Options& o) {
  return {input.dim(1),  input.dim(2),  input.dim(3), weight.dim(0),  offset.dim(2), offset.dim(3),
          weight.dim(2), weight.dim(3), o.stride_h,   o.stride_w,     o.pad_h,       o.pad_w,
          o.dilation_h,  o.dilation_w,  o.groups,     o.offset_groups};
}

template <class T>
void run(Context& context, TensorView<const T> input, TensorView<const T> weight, TensorView<const T> offset,
         std::optional<TensorView<const T>> mask, std::optional<TensorView<const T>> bias, const Options& o,
         TensorView<T> out) {
  const Geometry geometry = geometry_of(input, weight, offset, o);
  require(geometry.height < (1 << 30) && geometry.width < (1 << 30), "the sides of input must be below 2^30");
  run<T>(context, geometry, input, weight, offset, mask ? mask->data() : nullptr,
         bias ? bias->data() : nullptr, out);
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

// Shape rule, kernel and gradient of an operator with the arguments of torchvision::deform_conv2d.
inline constexpr auto kShape = [](const Shape& input, const Shape& weight, const Shape& offset,
                                  const std::optional<Shape>& mask, const std::optional<Shape>& bias,
                                  std::int64_t stride_h, std::int64_t stride_w, std::int64_t pad_h,
                                  std::int64_t pad_w, std::int64_t dilation_h, std::int64_t dilation_w,
                                  std::int64_t groups, std::int64_t offset_groups, bool use_mask) {
  return shape(input, weight, offset, use_mask ? mask : std::nullopt, bias,
               {stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups, offset_groups});
};

inline constexpr auto kKernel =
    []<class T>(Context& context, TensorView<const T> input, TensorView<const T> weight,
                TensorView<const T> offset, std::optional<TensorView<const T>> mask,
                std::optional<TensorView<const T>> bias, std::int64_t stride_h, std::int64_t stride_w,
                std::int64_t pad_h, std::int64_t pad_w, std::int64_t dilation_h, std::int64_t dilation_w,
                std::int64_t groups, std::int64_t offset_groups, bool use_mask, TensorView<T> out) {
      run<T>(context, input, weight, offset, use_mask ? mask : std::nullopt, bias,
             {stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups, offset_groups}, out);
    };

inline constexpr auto kBackward =
    []<class T>(Context& context, TensorView<const T> grad, TensorView<const T> input,
                TensorView<const T> weight, TensorView<const T> offset,
                std::optional<TensorView<const T>> mask, std::optional<TensorView<const T>>,
                std::int64_t stride_h, std::int64_t stride_w, std::int64_t pad_h, std::int64_t pad_w,
                std::int64_t dilation_h, std::int64_t dilation_w, std::int64_t groups,
                std::int64_t offset_groups, bool use_mask, std::optional<TensorView<T>> grad_input,
                std::optional<TensorView<T>> grad_weight, std::optional<TensorView<T>> grad_offset,
                std::optional<TensorView<T>> grad_mask, std::optional<TensorView<T>> grad_bias) {
      const auto zeroed = [](std::optional<TensorView<T>>& gradient) -> T* {
        if (!gradient) return nullptr;
        std::fill(gradient->begin(), gradient->end(), T(0));
        return gradient->data();
      };
      const Options options{stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups, offset_groups};
      T* const masks = zeroed(grad_mask);
      run_backward<T>(context, geometry_of(input, weight, offset, options), grad, input, weight, offset,
                      use_mask ? mask : std::nullopt,
                      {zeroed(grad_input), zeroed(grad_weight), zeroed(grad_offset),
                       use_mask ? masks : nullptr, zeroed(grad_bias)});
    };

}  // namespace opbridge::op::deform_conv2d
