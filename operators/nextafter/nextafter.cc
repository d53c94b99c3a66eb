// The next representable number after self towards other. The arguments are those of torch.nextafter.
#include <bit>

#include "../common/broadcast.h"

namespace opbridge::op {
namespace {

// Numbers of equal sign are ordered like their bit patterns.
template <class T, class Bits>
T next(T from, T towards) {
  if (from != from) return from;
  if (towards != towards || from == towards) return towards;
  if (from == T(0)) {
    const auto least = std::bit_cast<T>(Bits(1));
    return towards < from ? static_cast<T>(-least) : least;
  }
  const bool grows = (from < towards) == (from > T(0));
  return std::bit_cast<T>(static_cast<Bits>(std::bit_cast<Bits>(from) + (grows ? 1 : -1)));
}

OPBRIDGE_OPERATOR("opbridge::nextafter(Tensor self, Tensor other) -> Tensor")
    .shape([](const Shape& self, const Shape& other) { return broadcast(self, other); })
    .cpu(types<float, double, Half, BFloat16>, []<class T>(Context& context, TensorView<const T> self,
                                                           TensorView<const T> other, TensorView<T> out) {
      using Bits = std::conditional_t<sizeof(T) == 8, std::uint64_t,
                                      std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint16_t>>;
      const BroadcastIndex from(self.dims(), out.dims()), towards(other.dims(), out.dims());
      context.parallel_for(out.size(), 4096, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) out[i] = next<T, Bits>(self[from(i)], other[towards(i)]);
      });
    });

}  // namespace
}  // namespace opbridge::op
