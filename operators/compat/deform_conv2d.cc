#include "../deform_conv2d/deform_conv2d.h"

namespace opbridge::op::deform_conv2d {
namespace {

// Converts the attributes of mmcv's operators.
Options options_of(std::span<const std::int64_t> stride, std::span<const std::int64_t> padding,
                   std::span<const std::int64_t> dilation, std::int64_t groups, std::int64_t deform_groups) {
  require(stride.size() == 2 && padding.size() == 2 && dilation.size() == 2,
          "stride, padding and dilation must have two numbers each");
  return {stride[0], stride[1], padding[0], padding[1], dilation[0], dilation[1], groups, deform_groups};
}

// The names that mmdeploy uses in ONNX for mmcv's two versions.
OPBRIDGE_OPERATOR(
    "mmdeploy::MMCVModulatedDeformConv2d(Tensor input, Tensor offset, Tensor mask, Tensor weight, "
    "Tensor? bias=None, int[2] stride=1, int[2] padding=0, int[2] dilation=1, int groups=1, "
    "int deform_groups=1) -> Tensor")
    .shape([](const Shape& input, const Shape& offset, const Shape& mask, const Shape& weight,
              const std::optional<Shape>& bias, std::span<const std::int64_t> stride,
              std::span<const std::int64_t> padding, std::span<const std::int64_t> dilation,
              std::int64_t groups, std::int64_t deform_groups) {
      return shape(input, weight, offset, mask, bias,
                   options_of(stride, padding, dilation, groups, deform_groups));
    })
    .cpu(floating_types,
         []<class T>(Context& context, TensorView<const T> input, TensorView<const T> offset,
                     TensorView<const T> mask, TensorView<const T> weight,
                     std::optional<TensorView<const T>> bias, std::span<const std::int64_t> stride,
                     std::span<const std::int64_t> padding, std::span<const std::int64_t> dilation,
                     std::int64_t groups, std::int64_t deform_groups, TensorView<T> out) {
           run<T>(context, input, weight, offset, mask, bias,
                  options_of(stride, padding, dilation, groups, deform_groups), out);
         });

OPBRIDGE_OPERATOR(
    "mmdeploy::MMCVDeformConv2d(Tensor input, Tensor offset, Tensor weight, int[2] stride=1, int[2] "
    "padding=0, "
    "int[2] dilation=1, int groups=1, int deform_groups=1) -> Tensor")
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

}  // namespace
}  // namespace opbridge::op::deform_conv2d
