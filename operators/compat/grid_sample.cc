#include "../grid_sample/grid_sample.h"

namespace opbridge::op::grid_sample {
namespace {

// The name that mmdeploy uses in ONNX.
OPBRIDGE_OPERATOR(
    "mmdeploy::grid_sampler(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, "
    "bool align_corners) -> Tensor")
    .shape(kShape)
    .cpu(floating_types, kKernel);

}  // namespace
}  // namespace opbridge::op::grid_sample
