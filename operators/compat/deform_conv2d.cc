// The names of deformable convolution in mmcv and mmdeploy, and in the tutorial.
#include "../deform_conv2d/deform_conv2d.h"

namespace opbridge::op::deform_conv2d {
namespace {

OPBRIDGE_OPERATOR(
    "custom::deform_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor? mask=None, Tensor? bias=None, "
    "int stride_h=1, int stride_w=1, int pad_h=0, int pad_w=0, int dilation_h=1, int dilation_w=1, "
    "int groups=1, int offset_groups=1, bool use_mask=True) -> Tensor")
    .shape(kShape)
    .cpu(types<float, double, Half, BFloat16>, kKernel)
    .backward(floating_types, kBackward);

// `padding` is (height, width) or, as mmdeploy writes it for version 1, each of them twice.
Options options_of(std::span<const std::int64_t> stride, std::span<const std::int64_t> padding,
                   std::span<const std::int64_t> dilation, std::int64_t groups, std::int64_t deform_groups) {
  require(stride.size() == 2 && dilation.size() == 2, "stride and dilation must have two numbers each");
  const bool is_doubled = padding.size() == 4 && padding[0] == padding[1] && padding[2] == padding[3];
  require(padding.size() == 2 || is_doubled,
          "padding must be two numbers, (height, width), or four, (height, height, width, width)");
  return {stride[0],   stride[1],   padding[0], padding[padding.size() / 2],
          dilation[0], dilation[1], groups,     deform_groups};
}

constexpr auto kModulatedShape =
    [](const Shape& input, const Shape& offset, const Shape& mask, const Shape& weight,
       const std::optional<Shape>& bias, std::span<const std::int64_t> stride,
       std::span<const std::int64_t> padding, std::span<const std::int64_t> dilation, std::int64_t groups,
       std::int64_t deform_groups) {
      return shape(input, weight, offset, mask, bias,
                   options_of(stride, padding, dilation, groups, deform_groups));
    };

constexpr auto kModulatedKernel =
    []<class T>(Context& context, TensorView<const T> input, TensorView<const T> offset,
                TensorView<const T> mask, TensorView<const T> weight, std::optional<TensorView<const T>> bias,
                std::span<const std::int64_t> stride, std::span<const std::int64_t> padding,
                std::span<const std::int64_t> dilation, std::int64_t groups, std::int64_t deform_groups,
                TensorView<T> out) {
      run<T>(context, input, weight, offset, mask, bias,
             options_of(stride, padding, dilation, groups, deform_groups), out);
    };

OPBRIDGE_OPERATOR(
    "mmdeploy::MMCVModulatedDeformConv2d(Tensor input, Tensor offset, Tensor mask, Tensor weight, "
    "Tensor? bias=None, int[2] stride=1, int[2] padding=0, int[2] dilation=1, int groups=1, "
    "int deform_groups=1) -> Tensor")
    .shape(kModulatedShape)
    .cpu(floating_types, kModulatedKernel);

OPBRIDGE_OPERATOR(
    "mmcv::MMCVModulatedDeformConv2d(Tensor input, Tensor offset, Tensor mask, Tensor weight, "
    "Tensor? bias=None, int[2] stride=1, int[2] padding=0, int[2] dilation=1, int groups=1, "
    "int deform_groups=1) -> Tensor")
    .shape(kModulatedShape)
    .cpu(floating_types, kModulatedKernel);

OPBRIDGE_OPERATOR(
    "mmdeploy::MMCVDeformConv2d(Tensor input, Tensor offset, Tensor weight, int[2] stride=1, "
    "int[] padding=[0, 0], int[2] dilation=1, int groups=1, int deform_groups=1) -> Tensor")
    .shape([](const Shape& input, const Shape& offset, const Shape& weight,
              std::span<const std::int64_t> stride, std::span<const std::int64_t> padding,
              std::span<const std::int64_t> dilation, std::int64_t groups, std::int64_t deform_groups) {
      return shape(input, weight, offset, std::nullopt, std::nullopt,
                   options_of(stride, padding, dilation, groups, deform_groups));
    })
    .cpu(floating_types,
         []<class T>(Context& context, TensorView<const T> input, TensorView<const T> offset,
                     TensorView<const T> weight, std::span<const std::int64_t> stride,
                     std::span<const std::int64_t> padding, std::span<const std::int64_t> dilation,
                     std::int64_t groups, std::int64_t deform_groups, TensorView<T> out) {
           run<T>(context, input, weight, offset, std::nullopt, std::nullopt,
                  options_of(stride, padding, dilation, groups, deform_groups), out);
         });

// mmcv's has no bias in spite of the attribute; the step of its im2col does not change the result.
OPBRIDGE_OPERATOR(
    "mmcv::MMCVDeformConv2d(Tensor input, Tensor offset, Tensor weight, int[2] stride=1, int[2] padding=0, "
    "int[2] dilation=1, int groups=1, int deform_groups=1, bool bias=False, int im2col_step=32) -> Tensor")
    .shape([](const Shape& input, const Shape& offset, const Shape& weight,
              std::span<const std::int64_t> stride, std::span<const std::int64_t> padding,
              std::span<const std::int64_t> dilation, std::int64_t groups, std::int64_t deform_groups,
              bool bias, std::int64_t) {
      require(!bias, "bias must be False");
      return shape(input, weight, offset, std::nullopt, std::nullopt,
                   options_of(stride, padding, dilation, groups, deform_groups));
    })
    .cpu(floating_types,
         []<class T>(Context& context, TensorView<const T> input, TensorView<const T> offset,
                     TensorView<const T> weight, std::span<const std::int64_t> stride,
                     std::span<const std::int64_t> padding, std::span<const std::int64_t> dilation,
                     std::int64_t groups, std::int64_t deform_groups, bool, std::int64_t, TensorView<T> out) {
           run<T>(context, input, weight, offset, std::nullopt, std::nullopt,
                  options_of(stride, padding, dilation, groups, deform_groups), out);
         });

}  // namespace
}  // namespace opbridge::op::deform_conv2d
