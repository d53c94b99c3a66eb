// Registers elementwise operators with one line each: a name and a function of numbers.
#pragma once

#include "../common/broadcast.h"

namespace opbridge::op {

// "opbridge::NAME(ARGUMENTS) -> Tensor"
template <detail::FixedString name, detail::FixedString arguments>
constexpr auto line() {
  constexpr std::string_view parts[] = {"opbridge::", name.view(), arguments.view(), " -> Tensor"};
  constexpr std::size_t size = parts[0].size() + parts[1].size() + parts[2].size() + parts[3].size();
  char text[size + 1] = {};
  char* end = text;
  for (const std::string_view part : parts) end = std::copy(part.begin(), part.end(), end);
  return detail::FixedString(text);
}

inline constexpr std::int64_t kElementsPerPart = 1024;

// Functions are evaluated in float64; float32 results are rounded once.
template <detail::FixedString name, double (*function)(double)>
Registration unary() {
  return Operator<line<name, "(Tensor self)">()>()
      .shape([](const Shape& self) { return self; })
      .cpu(floating_types, []<class T>(Context& context, TensorView<const T> self, TensorView<T> out) {
        context.parallel_for(out.size(), kElementsPerPart, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t i = begin; i < end; ++i) out[i] = static_cast<T>(function(self[i]));
        });
      });
}

template <double (*function)(double, double)>
struct InFloat64 {
  template <class T>
  static T of(T self, T other) {
    return static_cast<T>(function(self, other));
  }
};

// Broadcasts the two arguments. Function::of(a, b) takes and returns numbers of the element type.
template <detail::FixedString name, class Function>
Registration binary_by() {
  return Operator<line<name, "(Tensor self, Tensor other)">()>()
      .shape([](const Shape& self, const Shape& other) { return broadcast(self, other); })
      .cpu(floating_types, []<class T>(Context& context, TensorView<const T> self, TensorView<const T> other,
                                       TensorView<T> out) {
        const BroadcastIndex left(self.dims(), out.dims()), right(other.dims(), out.dims());
        context.parallel_for(out.size(), kElementsPerPart, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t i = begin; i < end; ++i) out[i] = Function::of(self[left(i)], other[right(i)]);
        });
      });
}

template <detail::FixedString name, double (*function)(double, double)>
Registration binary() {
  return binary_by<name, InFloat64<function>>();
}

}  // namespace opbridge::op
