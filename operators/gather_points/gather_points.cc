// The features of some points. The arguments are those of mmcv.ops.gather_points.
#include "../common/gather.h"

namespace opbridge::op {
namespace {

OPBRIDGE_OPERATOR("opbridge::gather_points(Tensor features, Tensor indices) -> Tensor")
    .shape([](const Shape& features, const Shape& indices) { return gathered_shape(features, indices, 2); })
    .cpu(floating_types,
         []<class T>(Context& context, TensorView<const T> features, TensorView<const std::int32_t> indices,
                     TensorView<T> out) { gather(context, features, indices, out); })
    .backward(floating_types, []<class T>(Context& context, TensorView<const T> grad, TensorView<const T>,
                                          TensorView<const std::int32_t> indices,
                                          std::optional<TensorView<T>> grad_features, NoGradient) {
      if (grad_features) scatter(context, grad, indices, *grad_features);
    });

}  // namespace
}  // namespace opbridge::op
