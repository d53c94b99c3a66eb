// Upsampling, filtering and downsampling in one (Karras et al., "Analyzing and Improving the Image Quality of
// StyleGAN", 2020). The arguments are those of mmcv.ops.upfirdn2d, with lists spelled out.
#include "../common/shapes.h"

namespace opbridge::op {
namespace {

Dim output_size(const Dim& size, std::int64_t up, std::int64_t before, std::int64_t after, const Dim& taps,
                std::int64_t down) {
  const Dim last = size * up + before + after - taps;
  require(last >= 0, "the filter is larger than the upsampled and padded input");
  return last / down + 1;
}

OPBRIDGE_OPERATOR(
    "opbridge::upfirdn2d(Tensor input, Tensor filter, int[2] up=1, int[2] down=1, int[4] padding=0, "
    "bool flip_filter=False, float gain=1.0) -> Tensor")
    .shape([](const Shape& input, const Shape& filter, std::span<const std::int64_t> up,
              std::span<const std::int64_t> down, std::span<const std::int64_t> padding, bool, double) {
      require_rank(input, 4, "input");
      require_rank(filter, 2, "filter");
      require(up.size() == 2 && down.size() == 2 && padding.size() == 4,
              "up and down are (x, y), padding (left, right, above, below)");
      require(up[0] > 0 && up[1] > 0 && down[0] > 0 && down[1] > 0, "up and down must be positive");
      require(filter[0] > 0, "the filter must not be empty");
      require(filter[1] > 0, "the filter must not be empty");
      return Shape{input[0], input[1],
                   output_size(input[2], up[1], padding[2], padding[3], filter[0], down[1]),
                   output_size(input[3], up[0], padding[0], padding[1], filter[1], down[0])};
    })
    .cpu(floating_types, []<class T>(Context& context, TensorView<const T> input, TensorView<const T> filter,
                                     std::span<const std::int64_t> up, std::span<const std::int64_t> down,
                                     std::span<const std::int64_t> padding, bool flip_filter, double gain,
                                     TensorView<T> out) {
      const std::int64_t height = input.dim(2), width = input.dim(3);
      const std::int64_t taps_y = filter.dim(0), taps_x = filter.dim(1);
      // A convolution flips the filter.
      const auto tap = [&](std::int64_t y, std::int64_t x) {
        return flip_filter ? filter(y, x) : filter(taps_y - 1 - y, taps_x - 1 - x);
      };
      // Upsampling inserts up - 1 zeros between pixels, so only every up-th tap meets a pixel.
      const auto first = [](std::int64_t at, std::int64_t step) { return ((-at) % step + step) % step; };
      context.parallel_for(out.dim(0) * out.dim(1), 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t plane = begin; plane < end; ++plane) {
          const T* const from = input.data() + plane * height * width;
          T* to = out.data() + plane * out.dim(2) * out.dim(3);
          for (std::int64_t y = 0; y < out.dim(2); ++y) {
            const std::int64_t top = y * down[1] - padding[2];
            for (std::int64_t x = 0; x < out.dim(3); ++x) {
              const std::int64_t left = x * down[0] - padding[0];
              T sum = 0;
              for (std::int64_t i = first(top, up[1]); i < taps_y; i += up[1]) {
                const std::int64_t row = (top + i) / up[1];
                if (top + i < 0 || row >= height) continue;
                for (std::int64_t j = first(left, up[0]); j < taps_x; j += up[0]) {
                  const std::int64_t column = (left + j) / up[0];
                  if (left + j < 0 || column >= width) continue;
                  sum += tap(i, j) * from[row * width + column];
                }
              }
              *to++ = static_cast<T>(gain) * sum;
            }
          }
        }
      });
    });

}  // namespace
}  // namespace opbridge::op
