// The exclusive or of the bits of all elements of a row.
#include <bit>

#include "opbridge/operator.h"

namespace opbridge::op {
namespace {

OPBRIDGE_OPERATOR("opbridge::hash_tensor(Tensor self) -> Tensor")
    .shape([](const Shape& self) {
      require(!self.empty(), "self must have a dimension");
      return Shape(self.begin(), self.end() - 1);
    })
    .cpu(types<double, std::int64_t>,
         []<class T>(Context& context, TensorView<const T> self, TensorView<std::uint64_t> out) {
           const std::int64_t width = self.dim(-1);
           context.parallel_for(out.size(), 256, [&](std::int64_t begin, std::int64_t end) {
             for (std::int64_t i = begin; i < end; ++i) {
               out[i] = 0;
               for (std::int64_t j = i * width; j < (i + 1) * width; ++j)
                 out[i] ^= std::bit_cast<std::uint64_t>(self[j]);
             }
           });
         });

}  // namespace
}  // namespace opbridge::op
