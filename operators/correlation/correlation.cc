// The correlation of patches of two images (Dosovitskiy et al., "FlowNet", 2015). The arguments are those of
// mmcv.ops.Correlation.
#include "../common/shapes.h"

namespace opbridge::op {
namespace {

struct Options {
  std::int64_t kernel, displacement, stride, padding, dilation, dilation_patch;
};

Dim output_size(const Dim& size, const Options& o) {
  const Dim last = size + Dim(2) * o.padding - (Dim(o.kernel - 1) * o.dilation + 1);
  require(last >= 0, "the dilated kernel is larger than the padded input");
  return last / o.stride + 1;
}

OPBRIDGE_OPERATOR(
    "opbridge::correlation(Tensor input1, Tensor input2, int kernel_size=1, int max_displacement=1, int "
    "stride=1, "
    "int padding=0, int dilation=1, int dilation_patch=1) -> Tensor")
    .shape([](const Shape& input1, const Shape& input2, std::int64_t kernel_size,
              std::int64_t max_displacement, std::int64_t stride, std::int64_t padding, std::int64_t dilation,
              std::int64_t dilation_patch) {
      require_rank(input1, 4, "input1");
      require_same_shape(input1, input2, "input1 and input2");
      require(kernel_size < 1024, "kernel_size must be below 1024");
      require(kernel_size > 0 && stride > 0 && dilation > 0 && dilation_patch > 0,
              "kernel_size, stride, dilation and dilation_patch must be positive");
      require(max_displacement >= 0 && padding >= 0, "max_displacement and padding must not be negative");
      const Options options{kernel_size, max_displacement, stride, padding, dilation, dilation_patch};
      const Dim patch = Dim(max_displacement) * 2 + 1;
      require(patch * dilation_patch > 0, "the displacements must not be empty");
      return Shape{input1[0], patch, patch, output_size(input1[2], options), output_size(input1[3], options)};
    })
    .cpu(floating_types, []<class T>(Context& context, TensorView<const T> input1, TensorView<const T> input2,
                                     std::int64_t kernel_size, std::int64_t max_displacement,
                                     std::int64_t stride, std::int64_t padding, std::int64_t dilation,
                                     std::int64_t dilation_patch, TensorView<T> out) {
      const std::int64_t channels = input1.dim(1), height = input1.dim(2), width = input1.dim(3);
      const std::int64_t patch = out.dim(1), out_height = out.dim(3), out_width = out.dim(4);
      const auto inside = [&](std::int64_t y, std::int64_t x) {
        return y >= 0 && y < height && x >= 0 && x < width;
      };
      context.parallel_for(out.dim(0) * patch * patch, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          const std::int64_t image = i / patch / patch;
          const std::int64_t shift_y = (i / patch % patch - max_displacement) * dilation_patch;
          const std::int64_t shift_x = (i % patch - max_displacement) * dilation_patch;
          T* const to = out.data() + i * out_height * out_width;
          std::fill_n(to, out_height * out_width, T(0));
          for (std::int64_t c = 0; c < channels; ++c) {
            const T* const first = input1.slice(image).slice(c).data();
            const T* const second = input2.slice(image).slice(c).data();
            for (std::int64_t y = 0; y < out_height; ++y) {
              for (std::int64_t x = 0; x < out_width; ++x) {
                T sum = 0;
                for (std::int64_t tap = 0; tap < kernel_size * kernel_size; ++tap) {
                  const std::int64_t y1 = y * stride - padding + tap / kernel_size * dilation;
                  const std::int64_t x1 = x * stride - padding + tap % kernel_size * dilation;
                  if (!inside(y1, x1) || !inside(y1 + shift_y, x1 + shift_x)) continue;
                  sum += first[y1 * width + x1] * second[(y1 + shift_y) * width + x1 + shift_x];
                }
                to[y * out_width + x] += sum;
              }
            }
          }
        }
      });
    });

}  // namespace
}  // namespace opbridge::op
