// Insertion indices in sorted sequences.
#include <algorithm>

#include "opbridge/operator.h"

namespace opbridge::op {
namespace {

OPBRIDGE_OPERATOR("opbridge::searchsorted(Tensor sorted_sequence, Tensor self, bool right=False) -> Tensor")
    .shape([](const Shape& sorted, const Shape& self, bool) {
      require(!sorted.empty(), "sorted_sequence must have a dimension");
      if (sorted.size() > 1) {
        require(sorted.size() == self.size(), "sorted_sequence must have one dimension, or as many as self");
        for (std::size_t i = 0; i + 1 < self.size(); ++i)
          require(sorted[i] == self[i], "sorted_sequence and self must agree in all dimensions but the last");
      }
      return self;
    })
    .cpu(types<float, double, std::int32_t, std::int64_t>,
         []<class T>(Context& context, TensorView<const T> sorted, TensorView<const T> self, bool right,
                     TensorView<std::int64_t> out) {
           const std::int64_t length = sorted.dim(-1);
           const std::int64_t row =
               sorted.rank() > 1 ? self.dim(-1) : out.size();  // the elements that share a sequence
           context.parallel_for(out.size(), 1024, [&](std::int64_t begin, std::int64_t end) {
             for (std::int64_t i = begin; i < end; ++i) {
               const T* const first = sorted.data() + i / row * length;
               // Both comparisons are false for NaN, which sorts last.
               out[i] =
                   std::partition_point(first, first + length,
                                        [&](T edge) { return !(right ? edge > self[i] : edge >= self[i]); }) -
                   first;
             }
           });
         });

}  // namespace
}  // namespace opbridge::op
