// The names that mmcv uses in ONNX. It writes scale_factor as a float.
#include "../carafe/carafe.h"

namespace opbridge::op::carafe {
namespace {

std::int64_t integer(double scale_factor) {
  const auto rounded = static_cast<std::int64_t>(scale_factor);
  require(scale_factor >= 1 && scale_factor < 1e6 && static_cast<double>(rounded) == scale_factor,
          "scale_factor must be a positive integer");
  return rounded;
}

constexpr auto kMmcvShape = [](const Shape& features, const Shape& masks, std::int64_t kernel_size,
                               std::int64_t group_size, double scale_factor) {
  return kShape(features, masks, kernel_size, group_size, integer(scale_factor));
};

constexpr auto kMmcvKernel = []<class T>(Context& context, TensorView<const T> features,
                                         TensorView<const T> masks, std::int64_t kernel_size,
                                         std::int64_t group_size, double scale_factor, TensorView<T> out) {
  kKernel.template operator()<T>(context, features, masks, kernel_size, group_size, integer(scale_factor),
                                 out);
};

OPBRIDGE_OPERATOR(
    "mmcv::MMCVCARAFE(Tensor features, Tensor masks, int kernel_size, int group_size, float scale_factor) -> "
    "Tensor")
    .shape(kMmcvShape)
    .cpu(floating_types, kMmcvKernel);

OPBRIDGE_OPERATOR(
    "mmcv::MMCVCARAFENaive(Tensor features, Tensor masks, int kernel_size, int group_size, "
    "float scale_factor) -> Tensor")
    .shape(kMmcvShape)
    .cpu(floating_types, kMmcvKernel);

}  // namespace
}  // namespace opbridge::op::carafe
