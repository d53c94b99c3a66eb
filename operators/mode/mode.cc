// The most frequent element of each row.
#include <algorithm>
#include <span>

#include "opbridge/operator.h"

namespace opbridge::op {
namespace {

template <class T>
bool is_nan(T value) {
  return value != value;
}

// The index of the last occurrence of the mode, found by sorting `order`, scratch memory for indices of the
// row.
template <class T>
std::int64_t index_of_mode(std::span<const T> row, std::span<std::int64_t> order) {
  for (std::size_t i = 0; i < row.size(); ++i) order[i] = static_cast<std::int64_t>(i);
  std::ranges::sort(order, [&](std::int64_t i, std::int64_t j) {
    const T a = row[static_cast<std::size_t>(i)], b = row[static_cast<std::size_t>(j)];
    if (is_nan(a) != is_nan(b)) return is_nan(b);
    return a < b || (!(b < a) && i < j);
  });
  std::size_t most = 0, run = 0;
  std::int64_t last = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    ++run;
    if (i + 1 < order.size() &&
        row[static_cast<std::size_t>(order[i])] == row[static_cast<std::size_t>(order[i + 1])])
      continue;
    if (run > most) {
      most = run;
      last = order[i];
    }
    run = 0;
  }
  return last;
}

OPBRIDGE_OPERATOR("opbridge::mode(Tensor self) -> (Tensor values, Tensor indices)")
    .shape([](const Shape& self) {
      require(!self.empty(), "self must have a dimension");
      require(self.back() > 0, "rows must have elements");
      const Shape rows(self.begin(), self.end() - 1);
      return std::tuple(rows, rows);
    })
    .cpu(types<float, double, std::int32_t, std::int64_t>,
         []<class T>(Context& context, TensorView<const T> self, TensorView<T> values,
                     TensorView<std::int64_t> indices) {
           const std::int64_t width = self.dim(-1);
           context.parallel_for(values.size(), 64, [&](std::int64_t begin, std::int64_t end) {
             const std::span<std::int64_t> order = context.scratch<std::int64_t>(width);
             for (std::int64_t i = begin; i < end; ++i) {
               const std::span<const T> row(self.data() + i * width, order.size());
               indices[i] = index_of_mode(row, order);
               values[i] = row[static_cast<std::size_t>(indices[i])];
             }
           });
         });

}  // namespace
}  // namespace opbridge::op
