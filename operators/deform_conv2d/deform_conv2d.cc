// Deformable convolution, version 1 (Dai et al., "Deformable Convolutional Networks", 2017) and version 2,
// which has a mask (Zhu et al., "Deformable ConvNets v2: More Deformable, Better Results", 2018). The
// arguments are those of torchvision::deform_conv2d.
#include "opbridge/operator.h"
#include "tile.h"

using namespace opbridge::op;

namespace opbridge::deform_conv2d {
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
#endif

template <class T, class C>
auto best_run_tile() {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return &run_tile_avx2<T, C>;
#endif
  return &run_tile_baseline<T, C>;
}

// Row y of an image, [channel][y][x], into Image::pixels, with the zeros left and right of it.
template <class T, class C>
void to_channels_last(const Geometry& g, const T* image, std::int64_t y, C* pixels) {
  constexpr std::int64_t kBlock = 16;
  C* const row = pixels + (y + 1) * g.padded_width() * g.channels;
  std::fill_n(row, g.channels, C(0));
  std::fill_n(row + (g.width + 1) * g.channels, g.channels, C(0));
  for (std::int64_t begin = 0; begin < g.channels; begin += kBlock) {
    const std::int64_t end = std::min(g.channels, begin + kBlock);
    for (std::int64_t x = 0; x < g.width; ++x) {
      const T* const from = image + y * g.width + x;
      C* const to = row + (x + 1) * g.channels;
      for (std::int64_t c = begin; c < end; ++c) to[c] = static_cast<C>(from[c * g.height * g.width]);
    }
  }
}

// One panel of Image::weights from [out channel][channel of the group][tap]; zeros where its group ends.
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
  context.parallel_for(packed_out / kPanel<C>, 4, [&](std::int64_t begin, std::int64_t end) {
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
  for (std::int64_t n = 0; n < input.dim(0); ++n) {
    context.parallel_for(g.height, 16, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t y = begin; y < end; ++y) to_channels_last(g, input.slice(n).data(), y, pixels);
    });
    const T* const image_mask =
        mask == nullptr ? nullptr : mask + n * g.offset_groups * g.taps() * g.pixels();
    const Image<T, C> image{
        &g, pixels, weights, packed_bias, offset.slice(n).data(), image_mask, out.slice(n).data()};
    const std::int64_t tiles = (g.pixels() + kTilePixels - 1) / kTilePixels;
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

Dim output_size(const Dim& size, const Dim& kernel, std::int64_t stride, std::int64_t pad,
                std::int64_t dilation) {
  const Dim last = size + Dim(2) * pad - Dim(dilation) * (kernel - 1) - 1;
  require(last >= 0, "the dilated kernel is larger than the padded input");
  return last / stride + 1;
}

void require_shape(const Shape& shape, const Shape& expected, const std::string& name) {
  const std::string message =
      name + " must have the shape " + to_string(expected) + ", not " + to_string(shape);
  require(shape.size() == expected.size(), message);
  for (std::size_t i = 0; i < shape.size(); ++i) require(shape[i] == expected[i], message);
}

}  // namespace
}  // namespace opbridge::deform_conv2d

namespace dcn = opbridge::deform_conv2d;

OPBRIDGE_OPERATOR(
    "custom::deform_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor? mask=None, Tensor? bias=None, "
    "int stride_h=1, int stride_w=1, int pad_h=0, int pad_w=0, int dilation_h=1, int dilation_w=1, int "
    "groups=1, "
    "int offset_groups=1, bool use_mask=True) -> Tensor")
    .shape([](const Shape& input, const Shape& weight, const Shape& offset, const std::optional<Shape>& mask,
              const std::optional<Shape>& bias, std::int64_t stride_h, std::int64_t stride_w,
              std::int64_t pad_h, std::int64_t pad_w, std::int64_t dilation_h, std::int64_t dilation_w,
              std::int64_t groups, std::int64_t offset_groups, bool use_mask) {
      require(input.size() == 4, "input must have 4 dimensions, not the shape " + to_string(input));
      require(weight.size() == 4, "weight must have 4 dimensions, not the shape " + to_string(weight));
      require(stride_h > 0 && stride_w > 0 && dilation_h > 0 && dilation_w > 0 && pad_h >= 0 && pad_w >= 0,
              "strides and dilations must be positive, padding must not be negative");
      require(groups > 0 && offset_groups > 0, "groups and offset_groups must be positive");
      const Dim &batch = input[0], &channels = input[1];
      const Dim taps = weight[2] * weight[3];
      require(weight[2] > 0, "the kernel must not be empty");
      require(weight[3] > 0, "the kernel must not be empty");
      require(channels > 0, "input must have channels");
      require(channels == weight[1] * groups, "input must have groups * weight.size(1) channels");
      require(weight[0] % groups == 0, "the output channels, weight.size(0), must be a multiple of groups");
      require(channels % offset_groups == 0, "the channels of input must be a multiple of offset_groups");
      const Dim out_h = dcn::output_size(input[2], weight[2], stride_h, pad_h, dilation_h);
      const Dim out_w = dcn::output_size(input[3], weight[3], stride_w, pad_w, dilation_w);
      dcn::require_shape(offset, {batch, Dim(2) * offset_groups * taps, out_h, out_w}, "offset");
      if (mask && use_mask) dcn::require_shape(*mask, {batch, taps * offset_groups, out_h, out_w}, "mask");
      if (bias) dcn::require_shape(*bias, {weight[0]}, "bias");
      return Shape{batch, weight[0], out_h, out_w};
    })
    .cpu(types<float, double, Half, BFloat16>,
         []<class T>(Context& context, TensorView<const T> input, TensorView<const T> weight,
                     TensorView<const T> offset, std::optional<TensorView<const T>> mask,
                     std::optional<TensorView<const T>> bias, std::int64_t stride_h, std::int64_t stride_w,
                     std::int64_t pad_h, std::int64_t pad_w, std::int64_t dilation_h, std::int64_t dilation_w,
                     std::int64_t groups, std::int64_t offset_groups, bool use_mask, TensorView<T> out) {
           const dcn::Geometry geometry{input.dim(1), input.dim(2), input.dim(3),  out.dim(1),
                                        out.dim(2),   out.dim(3),   weight.dim(2), weight.dim(3),
                                        stride_h,     stride_w,     pad_h,         pad_w,
                                        dilation_h,   dilation_w,   groups,        offset_groups};
           require(geometry.height < (1 << 30) && geometry.width < (1 << 30),
                   "the sides of input must be below 2^30");
           dcn::run<T>(context, geometry, input, weight, offset, mask && use_mask ? mask->data() : nullptr,
                       bias ? bias->data() : nullptr, out);
         });
