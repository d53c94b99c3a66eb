// Mantissa and exponent. The arguments are those of torch.frexp.
#include <cmath>

#include "opbridge/operator.h"

namespace opbridge::op {
namespace {

OPBRIDGE_OPERATOR("opbridge::frexp(Tensor self) -> (Tensor mantissa, Tensor exponent)")
    .shape([](const Shape& self) { return std::tuple(self, self); })
    .cpu(floating_types, []<class T>(Context& context, TensorView<const T> self, TensorView<T> mantissa,
                                     TensorView<std::int32_t> exponent) {
      context.parallel_for(self.size(), 4096, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          int power = 0;  // kept for infinity and NaN, which have no exponent
          mantissa[i] = std::isfinite(self[i]) ? std::frexp(self[i], &power) : self[i];
          exponent[i] = power;
        }
      });
    });

}  // namespace
}  // namespace opbridge::op
