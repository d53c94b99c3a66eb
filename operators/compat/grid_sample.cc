// The names that mmdeploy uses in ONNX, the second one for PPLNN.
#include "../grid_sample/grid_sample.h"

namespace opbridge::op::grid_sample {
namespace {

OPBRIDGE_OPERATOR(
    "mmdeploy::grid_sampler(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, "
    "bool align_corners) -> Tensor")
    .shape(kShape)
    .cpu(floating_types, kKernel);

OPBRIDGE_OPERATOR(
    "mmcv::grid_sampler(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, "
    "bool align_corners) -> Tensor")
    .shape(kShape)
    .cpu(floating_types, kKernel);

}  // namespace
}  // namespace opbridge::op::grid_sample
