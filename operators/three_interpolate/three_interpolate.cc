// Features between three points (Qi et al., "PointNet++", 2017). The arguments are those of
// mmcv.ops.three_interpolate.
#include "../common/shapes.h"

namespace opbridge::op {
namespace {

// The feature that a target takes from its k-th source.
std::int64_t source(TensorView<const std::int32_t> indices, std::int64_t batch, std::int64_t target,
                    std::int64_t k, std::int64_t count) {
  const std::int64_t index = indices(batch, target, k);
  require(index >= 0 && index < count,
          "indices has " + std::to_string(index) + ", and there are " + std::to_string(count) + " features");
  return index;
}

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
           context.parallel_for(out.dim(0) * targets, 64, [&](std::int64_t begin, std::int64_t end) {
             for (std::int64_t i = begin; i < end; ++i) {
               const std::int64_t batch = i / targets, target = i % targets;
               for (std::int64_t c = 0; c < channels; ++c) {
                 T sum = 0;
                 for (std::int64_t k = 0; k < 3; ++k) {
                   sum += weight(batch, target, k) *
                          features(batch, c, source(indices, batch, target, k, sources));
                 }
                 out(batch, c, target) = sum;
               }
             }
           });
         })
    .backward(floating_types, []<class T>(Context&, TensorView<const T> grad, TensorView<const T> features,
                                          TensorView<const std::int32_t> indices, TensorView<const T> weight,
                                          std::optional<TensorView<T>> grad_features, NoGradient,
                                          std::optional<TensorView<T>> grad_weight) {
      if (grad_features) std::fill(grad_features->begin(), grad_features->end(), T(0));
      if (grad_weight) std::fill(grad_weight->begin(), grad_weight->end(), T(0));
      for (std::int64_t batch = 0; batch < grad.dim(0); ++batch) {
        for (std::int64_t c = 0; c < grad.dim(1); ++c) {
          for (std::int64_t target = 0; target < grad.dim(2); ++target) {
            const T out = grad(batch, c, target);
            for (std::int64_t k = 0; k < 3; ++k) {
              const std::int64_t from = source(indices, batch, target, k, features.dim(2));
              if (grad_features) (*grad_features)(batch, c, from) += weight(batch, target, k) * out;
              if (grad_weight) (*grad_weight)(batch, target, k) += features(batch, c, from) * out;
            }
          }
        }
      }
    });

}  // namespace
}  // namespace opbridge::op
