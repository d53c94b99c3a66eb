// Sorted sequences, frequent values and segments, by comparison of all pairs.
#include <cmath>
#include <limits>

#include "lowering/add.h"
#include "lowering/common.h"
#include "lowering/reduction/reduce.h"
#include "runtimes/standard/bodies.h"

namespace opbridge::standard {
namespace {

// A value comes after every element that is less, or not greater with `right`. NaN comes after all.
Value searchsorted(GraphBuilder& g, Value sorted, Value self, bool right) {
  if (sorted.rank() > 1) sorted = g.unsqueeze(sorted, {-2});
  Value from = g.op(right ? "Greater" : "GreaterOrEqual", sorted, g.unsqueeze(self, {-1}));
  return g.reduce("ReduceSum", g.cast(g.op("Not", from), ElementType::int64), {-1}, false);
}

Scalar greatest(ElementType type) {
  if (is_floating_point(type)) return std::numeric_limits<double>::infinity();
  return type == ElementType::int32 ? Scalar(std::numeric_limits<int32_t>::max())
                                    : Scalar(std::numeric_limits<int64_t>::max());
}

// The index of the last occurrence of the least among the most frequent values. NaN equals nothing, and only
// a row of NaN has no other value: then the index is 0.
std::array<Value, 2> mode(GraphBuilder& g, Value self) {
  Value equal = g.op("Equal", g.unsqueeze(self, {-1}), g.unsqueeze(self, {-2}));
  Value counts = g.reduce("ReduceSum", g.cast(equal, ElementType::int64), {-1}, false);
  Value frequent = g.op("Equal", counts, g.reduce("ReduceMax", counts, {-1}, true));
  if (is_floating_point(self.element_type())) frequent = g.op("And", frequent, g.op("Equal", self, self));
  Value candidates = g.op("Where", frequent, self, g.scalar_like(self, greatest(self.element_type())));
  Value least = g.reduce("ReduceMin", candidates, {-1}, true);
  Value hit = g.op("And", frequent, g.op("Equal", self, least));
  Value positions = lowering::arithmetic(g, 0, 1, self.dim(-1));
  Value found = g.op("Where", hit, positions, g.scalar(0, ElementType::int64));
  Value index = g.reduce("ReduceMax", found, {-1}, true);
  Value value = g.op("GatherElements", self, index, attr("axis", self.rank() - 1));
  return {g.squeeze(value, {-1}), g.squeeze(index, {-1})};
}

// The last segments of `offsets`, (…, segments + 1), lie along axis `offsets.rank() - 1` of `data`. Each
// segment reduces the initial value and all elements of the axis, with the identity of the reduction in place
// of the elements outside the segment.
Value segment_reduce(GraphBuilder& g, Value data, Value offsets, std::optional<Value> initial,
                     std::string reduce) {
  const int64_t axis = offsets.rank() - 1, count = data.rank();
  Value positions = lowering::arithmetic(g, 0, 1, data.dim(axis));
  Value first = g.unsqueeze(g.slice(offsets, axis, 0, -1), {-1});
  Value end = g.unsqueeze(g.slice(offsets, axis, 1, lowering::end_of_axis), {-1});
  Value inside = g.op("And", g.op("LessOrEqual", first, positions), g.op("Less", positions, end));
  std::vector<int64_t> inner;
  for (int64_t i = axis + 1; i < count; ++i) inner.push_back(i + 1);
  if (!inner.empty()) inside = g.unsqueeze(inside, inner);

  const bool is_extremum = reduce == "max" || reduce == "min";
  const double identity = reduce == "max" ? -INFINITY : reduce == "min" ? INFINITY : reduce == "prod" ? 1 : 0;
  Value outside = g.scalar_like(data, identity);
  Value elements = g.op("Where", inside, g.unsqueeze(data, {axis}), outside);
  std::vector<Dim> column = elements.dims();
  column[axis + 1] = 1;
  Value start =
      initial ? g.expand(*initial, column) : lowering::filled(g, column, identity, data.element_type());
  elements = g.concat({start, elements}, axis + 1);

  const std::vector<int64_t> axes{axis + 1};
  if (is_extremum) return lowering::Extremum(g, reduce == "max", elements).value(axes, false);
  if (reduce == "prod") return g.reduce("ReduceProd", elements, axes, false);
  Value sum = g.reduce("ReduceSum", elements, axes, false);
  if (reduce == "sum") return sum;
  // The mean of no elements is the initial value, or NaN.
  Value number = g.reduce("ReduceSum", g.cast(inside, data.element_type()), axes, false);
  Value none = g.op("Equal", number, g.scalar_like(number, 0));
  Value of_none = initial ? *initial : g.scalar_like(data, NAN);
  return g.op("Where", none, of_none, g.op("Div", sum, number));
}

}  // namespace

void register_searching(SymbolicRegistry& registry) {
  auto on = lowering::add(registry);
  on("opbridge::searchsorted(Tensor sorted_sequence, Tensor self, bool right=False) -> Tensor", Since{13},
     searchsorted);
  on("opbridge::mode(Tensor self) -> (Tensor values, Tensor indices)", Since{13}, mode);
  on("opbridge::segment_reduce(Tensor data, Tensor offsets, Tensor? initial, str reduce) -> Tensor",
     Since{13}, segment_reduce);
}

}  // namespace opbridge::standard
