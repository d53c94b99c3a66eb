#include "multi_scale_deformable_attention.h"

namespace opbridge::op::multi_scale_deformable_attention {
namespace {

OPBRIDGE_OPERATOR(
    "opbridge::multi_scale_deformable_attention(Tensor value, Tensor value_spatial_shapes, "
    "Tensor value_level_start_index, Tensor sampling_locations, Tensor attention_weights, int "
    "im2col_step=64) "
    "-> Tensor")
    .shape(kShape)
    .cpu(floating_types, kKernel)
    .backward(floating_types,
              []<class T>(Context& context, TensorView<const T> grad, TensorView<const T> value,
                          TensorView<const std::int64_t> spatial_shapes,
                          TensorView<const std::int64_t> level_start_index,
                          TensorView<const T> sampling_locations, TensorView<const T> attention_weights,
                          std::int64_t, std::optional<TensorView<T>> grad_value, NoGradient, NoGradient,
                          std::optional<TensorView<T>> grad_locations,
                          std::optional<TensorView<T>> grad_attention) {
                const auto data = [](const auto& tensor) { return tensor ? tensor->data() : nullptr; };
                backward<T>(context, sizes_of(value, sampling_locations),
                            levels_of(spatial_shapes, level_start_index, value.dim(1)), grad.data(),
                            value.data(), sampling_locations.data(), attention_weights.data(),
                            {data(grad_value), data(grad_locations), data(grad_attention)});
              });

}  // namespace
}  // namespace opbridge::op::multi_scale_deformable_attention
