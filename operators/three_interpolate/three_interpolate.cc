// Interpolates features between three points (Qi et al., "PointNet++", 2017). The arguments are those of
// mmcv.ops.three_interpolate.
#include "../common/gather.h"

namespace opbridge::op {
namespace {

OPBRIDGE_OPERATOR("opbridge::three_interpolate(Tensor features, Tensor indices, Tensor weight) -> Tensor")
    .shape([](const Shape& features, const Shape& indices, const Shape& weight) {
      require_rank(features, 3, "features");
      require_rank(indices, 3, "indices");
      require_shape(indices, {features[0], indices[1], 3}, "indices");
      require_same_shape(indices, weight, "indices and weight");
      return Shape{features[0], features[1], indices[1]};
    })
    .cpu(floating_types,
         []<class T>(Context& context, TensorView<const T> features, TensorView<const std::int32_t> indices,
                     TensorView<const T> weight, TensorView<T> out) {
           const std::int64_t channels = out.dim(1), targets = out.dim(2), sources = features.dim(2);
           require_indices(indices, sources, "features");
           context.parallel_for(out.dim(0) * channels, 4, [&](std::int64_t begin, std::int64_t end) {
             for (std::int64_t row = begin; row < end; ++row) {
               const std::int32_t* const index = indices.slice(row / channels).data();
               const T* const share = weight.slice(row / channels).data();
               const T* const from = features.data() + row * sources;
               T* const to = out.data() + row * targets;
               for (std::int64_t i = 0; i < targets; ++i) {
                 to[i] = share[3 * i] * from[index[3 * i]] + share[3 * i + 1] * from[index[3 * i + 1]] +
                         share[3 * i + 2] * from[index[3 * i + 2]];
               }
             }
           });
         })
    .backward(floating_types,
              []<class T>(Context& context, TensorView<const T> grad, TensorView<const T> features,
                          TensorView<const std::int32_t> indices, TensorView<const T> weight,
                          std::optional<TensorView<T>> grad_features, NoGradient,
                          std::optional<TensorView<T>> grad_weight) {
                const std::int64_t channels = grad.dim(1), targets = grad.dim(2), sources = features.dim(2);
                require_indices(indices, sources, "features");
                if (grad_features) {
                  std::fill(grad_features->begin(), grad_features->end(), T(0));
                  context.parallel_for(grad.dim(0) * channels, 4, [&](std::int64_t begin, std::int64_t end) {
                    for (std::int64_t row = begin; row < end; ++row) {
                      const std::int32_t* const index = indices.slice(row / channels).data();
                      const T* const share = weight.slice(row / channels).data();
                      const T* const from = grad.data() + row * targets;
                      T* const to = grad_features->data() + row * sources;
                      for (std::int64_t i = 0; i < 3 * targets; ++i) to[index[i]] += share[i] * from[i / 3];
                    }
                  });
                }
                if (grad_weight) {
                  std::fill(grad_weight->begin(), grad_weight->end(), T(0));
                  context.parallel_for(grad.dim(0), 1, [&](std::int64_t begin, std::int64_t end) {
                    for (std::int64_t row = begin * channels; row < end * channels; ++row) {
                      const std::int32_t* const index = indices.slice(row / channels).data();
                      const T* const from = features.data() + row * sources;
                      const T* const out = grad.data() + row * targets;
                      T* const to = grad_weight->slice(row / channels).data();
                      for (std::int64_t i = 0; i < 3 * targets; ++i) to[i] += from[index[i]] * out[i / 3];
                    }
                  });
                }
              });

}  // namespace
}  // namespace opbridge::op
