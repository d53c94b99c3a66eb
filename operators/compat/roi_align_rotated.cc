// The names that mmdeploy and mmcv use in ONNX.
#include "../roi_align_rotated/roi_align_rotated.h"

namespace opbridge::op::roi_align_rotated {
namespace {

constexpr auto kShape = [](const Shape& input, const Shape& rois, const Dim& output_height,
                           const Dim& output_width, double, std::int64_t sampling_ratio, bool,
                           bool) { return shape(input, rois, output_height, output_width, sampling_ratio); };

constexpr auto kKernel = []<class T>(Context& context, TensorView<const T> input, TensorView<const T> rois,
                                     std::int64_t, std::int64_t, double spatial_scale,
                                     std::int64_t sampling_ratio, bool aligned, bool clockwise,
                                     TensorView<T> out) {
  forward(context, input, rois, {out.dim(2), out.dim(3), spatial_scale, sampling_ratio, aligned, clockwise},
          out);
};

OPBRIDGE_OPERATOR(
    "mmdeploy::MMCVRoIAlignRotated(Tensor input, Tensor rois, SymInt output_height, SymInt output_width, "
    "float spatial_scale, int sampling_ratio, bool aligned, bool clockwise) -> Tensor")
    .shape(kShape)
    .cpu(floating_types, kKernel);

OPBRIDGE_OPERATOR(
    "mmcv::MMCVRoIAlignRotated(Tensor input, Tensor rois, SymInt output_height, SymInt output_width, "
    "float spatial_scale, int sampling_ratio, bool aligned, bool clockwise) -> Tensor")
    .shape(kShape)
    .cpu(floating_types, kKernel);

}  // namespace
}  // namespace opbridge::op::roi_align_rotated
