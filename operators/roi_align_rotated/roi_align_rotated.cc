#include "roi_align_rotated.h"

namespace opbridge::op::roi_align_rotated {
namespace {

OPBRIDGE_OPERATOR(
    "opbridge::roi_align_rotated(Tensor input, Tensor rois, SymInt[2] output_size, float spatial_scale, "
    "int sampling_ratio=0, bool aligned=True, bool clockwise=False) -> Tensor")
    .shape([](const Shape& input, const Shape& rois, const Shape& output_size, double,
              std::int64_t sampling_ratio, bool, bool) {
      require(output_size.size() == 2, "output_size must be a height and a width");
      return shape(input, rois, output_size[0], output_size[1], sampling_ratio);
    })
    .cpu(floating_types,
         []<class T>(Context& context, TensorView<const T> input, TensorView<const T> rois,
                     std::span<const std::int64_t>, double spatial_scale, std::int64_t sampling_ratio,
                     bool aligned, bool clockwise, TensorView<T> out) {
           forward(context, input, rois,
                   {out.dim(2), out.dim(3), spatial_scale, sampling_ratio, aligned, clockwise}, out);
         })
    .backward(floating_types, []<class T>(Context& context, TensorView<const T> grad, TensorView<const T>,
                                          TensorView<const T> rois, std::span<const std::int64_t>,
                                          double spatial_scale, std::int64_t sampling_ratio, bool aligned,
                                          bool clockwise, std::optional<TensorView<T>> grad_input,
                                          NoGradient) {
      if (!grad_input) return;
      backward(context, grad, rois,
               {grad.dim(2), grad.dim(3), spatial_scale, sampling_ratio, aligned, clockwise}, *grad_input);
    });

}  // namespace
}  // namespace opbridge::op::roi_align_rotated
