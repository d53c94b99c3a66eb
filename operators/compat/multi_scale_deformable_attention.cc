#include "../multi_scale_deformable_attention/multi_scale_deformable_attention.h"

namespace opbridge::op::multi_scale_deformable_attention {
namespace {

// The name that mmdeploy uses in ONNX.
OPBRIDGE_OPERATOR(
    "mmdeploy::MMCVMultiScaleDeformableAttention(Tensor value, Tensor value_spatial_shapes, "
    "Tensor value_level_start_index, Tensor sampling_locations, Tensor attention_weights, int "
    "im2col_step=64) "
    "-> Tensor")
    .shape(kShape)
    .cpu(floating_types, kKernel);

}  // namespace
}  // namespace opbridge::op::multi_scale_deformable_attention
