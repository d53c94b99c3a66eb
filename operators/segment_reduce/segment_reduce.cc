// Reduction of neighbouring slices, segment by segment.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>

#include "opbridge/operator.h"

namespace opbridge::op {
namespace {

enum class Reduction { sum, mean, max, min, prod };

Reduction reduction_of(std::string_view name) {
  if (name == "sum") return Reduction::sum;
  if (name == "mean") return Reduction::mean;
  if (name == "max") return Reduction::max;
  if (name == "min") return Reduction::min;
  if (name == "prod") return Reduction::prod;
  throw Error(ErrorCode::invalid_argument, "reduce must be sum, mean, max, min or prod");
}

double identity(Reduction reduction) {
  switch (reduction) {
    case Reduction::max:
      return -std::numeric_limits<double>::infinity();
    case Reduction::min:
      return std::numeric_limits<double>::infinity();
    case Reduction::prod:
      return 1;
    default:
      return 0;
  }
}

template <class T>
T combined(Reduction reduction, T a, T b) {
  switch (reduction) {
    case Reduction::max:
      return std::isnan(b) ? b : std::max(a, b);
    case Reduction::min:
      return std::isnan(b) ? b : std::min(a, b);
    case Reduction::prod:
      return a * b;
    default:
      return a + b;
  }
}

// Reduces `count` elements, `stride` apart.
template <class T>
T reduced(Reduction reduction, const T* data, std::int64_t count, std::int64_t stride,
          std::optional<T> initial) {
  if (reduction == Reduction::mean && count == 0 && !initial) return std::numeric_limits<T>::quiet_NaN();
  T value = initial.value_or(static_cast<T>(identity(reduction)));
  for (std::int64_t i = 0; i < count; ++i) value = combined(reduction, value, data[i * stride]);
  return reduction == Reduction::mean && count > 0 ? value / static_cast<T>(count) : value;
}

OPBRIDGE_OPERATOR(
    "opbridge::segment_reduce(Tensor data, Tensor offsets, Tensor? initial, str reduce) -> Tensor")
    .shape([](const Shape& data, const Shape& offsets, const std::optional<Shape>& initial,
              std::string_view reduce) {
      reduction_of(reduce);
      require(!initial || initial->empty(), "initial must be a scalar");
      require(!offsets.empty() && offsets.size() <= data.size(),
              "offsets must have at least one dimension, and at most as many as data");
      require(offsets.back() >= 1, "offsets must hold the end of the last segment");
      Shape result = data;
      const std::size_t axis = offsets.size() - 1;
      for (std::size_t i = 0; i < axis; ++i)
        require(offsets[i] == data[i], "offsets must begin with the dimensions of data");
      result[axis] = offsets.back() - 1;
      return result;
    })
    .cpu(floating_types,
         []<class T>(Context& context, TensorView<const T> data, TensorView<const std::int64_t> offsets,
                     std::optional<TensorView<const T>> initial, std::string_view reduce, TensorView<T> out) {
           const std::optional<T> start = initial ? std::optional<T>((*initial)[0]) : std::nullopt;
           const Reduction reduction = reduction_of(reduce);
           const int axis = offsets.rank() - 1;
           const std::int64_t length = data.dim(axis), segments = out.dim(axis);
           std::int64_t inner = 1;
           for (int i = axis + 1; i < data.rank(); ++i) inner *= data.dim(i);
           for (std::int64_t first = 0; first < offsets.size(); first += segments + 1) {
             for (std::int64_t i = first; i <= first + segments; ++i) {
               const std::int64_t before = i == first ? 0 : offsets[i - 1];
               require(before <= offsets[i] && offsets[i] <= length, [&] {
                 return "offsets must ascend from 0 to " + std::to_string(length) + " at most";
               });
             }
           }
           context.parallel_for(out.size(), 256, [&](std::int64_t begin, std::int64_t end) {
             for (std::int64_t i = begin; i < end; ++i) {
               const std::int64_t segment = i / inner % segments, outer = i / inner / segments;
               const std::int64_t* const from = offsets.data() + outer * (segments + 1) + segment;
               out[i] = reduced(reduction, data.data() + (outer * length + from[0]) * inner + i % inner,
                                from[1] - from[0], inner, start);
             }
           });
         });

}  // namespace
}  // namespace opbridge::op
