#include "deform_conv2d.h"

namespace opbridge::op::deform_conv2d {
namespace {

OPBRIDGE_OPERATOR(
    "opbridge::deform_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor? mask=None, Tensor? "
    "bias=None, "
    "int stride_h=1, int stride_w=1, int pad_h=0, int pad_w=0, int dilation_h=1, int dilation_w=1, "
    "int groups=1, int offset_groups=1, bool use_mask=True) -> Tensor")
    .shape(kShape)
    .cpu(types<float, double, Half, BFloat16>, kKernel)
    .backward(floating_types, kBackward);

}  // namespace
}  // namespace opbridge::op::deform_conv2d
