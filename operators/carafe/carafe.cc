#include "carafe.h"

namespace opbridge::op::carafe {
namespace {

OPBRIDGE_OPERATOR(
    "opbridge::carafe(Tensor features, Tensor masks, int kernel_size, int group_size, int scale_factor) -> "
    "Tensor")
    .shape(kShape)
    .cpu(floating_types, kKernel)
    .backward(floating_types,
              []<class T>(Context& context, TensorView<const T> grad, TensorView<const T> features,
                          TensorView<const T> masks, std::int64_t kernel_size, std::int64_t group_size,
                          std::int64_t scale_factor, std::optional<TensorView<T>> grad_features,
                          std::optional<TensorView<T>> grad_masks) {
                const Geometry g = geometry_of(features, masks, kernel_size, group_size, scale_factor);
                if (grad_features) std::fill(grad_features->begin(), grad_features->end(), T(0));
                if (grad_masks) std::fill(grad_masks->begin(), grad_masks->end(), T(0));
                // No two groups share a channel or a mask.
                const std::int64_t per_group = g.channels / g.groups;
                context.parallel_for(grad.dim(0) * g.groups, 1, [&](std::int64_t begin, std::int64_t end) {
                  for (std::int64_t i = begin; i < end; ++i) {
                    const std::int64_t image = i / g.groups, first = i % g.groups * per_group;
                    const T* const from = features.slice(image).data();
                    const T* const mask = masks.slice(image).data();
                    T* const to = grad_features ? grad_features->slice(image).data() : nullptr;
                    T* const to_mask = grad_masks ? grad_masks->slice(image).data() : nullptr;
                    for (std::int64_t channel = first; channel < first + per_group; ++channel) {
                      for (std::int64_t y = 0; y < g.out_height; ++y) {
                        for (std::int64_t x = 0; x < g.out_width; ++x) {
                          const T out = grad(image, channel, y, x);
                          visit_window(g, channel, y, x, [&](std::int64_t f, std::int64_t m) {
                            if (to != nullptr) to[f] += out * mask[m];
                            if (to_mask != nullptr) to_mask[m] += out * from[f];
                          });
                        }
                      }
                    }
                  }
                });
              });

}  // namespace
}  // namespace opbridge::op::carafe
