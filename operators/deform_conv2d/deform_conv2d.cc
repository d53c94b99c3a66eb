#include "deform_conv2d.h"

namespace opbridge::op::deform_conv2d {
namespace {

OPBRIDGE_OPERATOR(
    "custom::deform_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor? mask=None, Tensor? bias=None, "
    "int stride_h=1, int stride_w=1, int pad_h=0, int pad_w=0, int dilation_h=1, int dilation_w=1, int "
    "groups=1, "
    "int offset_groups=1, bool use_mask=True) -> Tensor")
    .shape([](const Shape& input, const Shape& weight, const Shape& offset, const std::optional<Shape>& mask,
              const std::optional<Shape>& bias, std::int64_t stride_h, std::int64_t stride_w,
              std::int64_t pad_h, std::int64_t pad_w, std::int64_t dilation_h, std::int64_t dilation_w,
              std::int64_t groups, std::int64_t offset_groups, bool use_mask) {
      return shape(input, weight, offset, use_mask ? mask : std::nullopt, bias,
                   {stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups, offset_groups});
    })
    .cpu(types<float, double, Half, BFloat16>,
         []<class T>(Context& context, TensorView<const T> input, TensorView<const T> weight,
                     TensorView<const T> offset, std::optional<TensorView<const T>> mask,
                     std::optional<TensorView<const T>> bias, std::int64_t stride_h, std::int64_t stride_w,
                     std::int64_t pad_h, std::int64_t pad_w, std::int64_t dilation_h, std::int64_t dilation_w,
                     std::int64_t groups, std::int64_t offset_groups, bool use_mask, TensorView<T> out) {
           run<T>(context, input, weight, offset, use_mask ? mask : std::nullopt, bias,
                  {stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups, offset_groups}, out);
         })
    .backward(floating_types,
              []<class T>(Context& context, TensorView<const T> grad, TensorView<const T> input,
                          TensorView<const T> weight, TensorView<const T> offset,
                          std::optional<TensorView<const T>> mask, std::optional<TensorView<const T>>,
                          std::int64_t stride_h, std::int64_t stride_w, std::int64_t pad_h,
                          std::int64_t pad_w, std::int64_t dilation_h, std::int64_t dilation_w,
                          std::int64_t groups, std::int64_t offset_groups, bool use_mask,
                          std::optional<TensorView<T>> grad_input, std::optional<TensorView<T>> grad_weight,
                          std::optional<TensorView<T>> grad_offset, std::optional<TensorView<T>> grad_mask,
                          std::optional<TensorView<T>> grad_bias) {
                const auto zeroed = [](std::optional<TensorView<T>>& gradient) -> T* {
                  if (!gradient) return nullptr;
                  std::fill(gradient->begin(), gradient->end(), T(0));
                  return gradient->data();
                };
                const Options options{stride_h,   stride_w,   pad_h,  pad_w,
                                      dilation_h, dilation_w, groups, offset_groups};
                T* const masks = zeroed(grad_mask);
                run_backward<T>(context, geometry_of(input, weight, offset, options), grad, input, weight,
                                offset, use_mask ? mask : std::nullopt,
                                {zeroed(grad_input), zeroed(grad_weight), zeroed(grad_offset),
                                 use_mask ? masks : nullptr, zeroed(grad_bias)});
              });

}  // namespace
}  // namespace opbridge::op::deform_conv2d
