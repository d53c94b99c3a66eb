// Whether a number, or NaN, has its sign bit set. The argument is that of torch.signbit.
#include <cmath>

#include "opbridge/operator.h"

namespace opbridge::op {
namespace {

OPBRIDGE_OPERATOR("opbridge::signbit(Tensor self) -> Tensor")
    .shape([](const Shape& self) { return self; })
    .cpu(floating_types,
         []<class T>(Context& context, TensorView<const T> self, TensorView<std::int32_t> out) {
           context.parallel_for(self.size(), 4096, [&](std::int64_t begin, std::int64_t end) {
             for (std::int64_t i = begin; i < end; ++i) out[i] = std::signbit(self[i]) ? 1 : 0;
           });
         });

}  // namespace
}  // namespace opbridge::op
