#include "grid_sample.h"

namespace opbridge::op::grid_sample {
namespace {

OPBRIDGE_OPERATOR(
    "opbridge::grid_sample(Tensor input, Tensor grid, int interpolation_mode=0, int padding_mode=0, "
    "bool align_corners=False) -> Tensor")
    .shape(kShape)
    .cpu(floating_types, kKernel);

}  // namespace
}  // namespace opbridge::op::grid_sample
