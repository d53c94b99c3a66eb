// The bits of numbers as numbers of another type of the same width. ONNX has BitCast only from opset 26 on.
#include <bit>

#include "opbridge/operator.h"

namespace opbridge::op {
namespace {

constexpr auto copy_bits = []<class From, class To>(Context& context, TensorView<const From> self,
                                                    TensorView<const To>, TensorView<To> out) {
  context.parallel_for(self.size(), 65536, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) out[i] = std::bit_cast<To>(self[i]);
  });
};

OPBRIDGE_OPERATOR("opbridge::bit_cast(Tensor self, Tensor like) -> Tensor")
    .shape([](const Shape& self, const Shape&) { return self; })
    .cpu(types<Half, BFloat16>, types<std::int16_t>, copy_bits)
    .cpu(types<std::int16_t>, types<Half, BFloat16>, copy_bits)
    .cpu(types<float>, types<std::int32_t>, copy_bits)
    .cpu(types<std::int32_t>, types<float>, copy_bits)
    .cpu(types<double>, types<std::int64_t>, copy_bits)
    .cpu(types<std::int64_t>, types<double>, copy_bits);

}  // namespace
}  // namespace opbridge::op
