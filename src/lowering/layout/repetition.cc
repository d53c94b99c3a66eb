// repeat_interleave. The number of repetitions is a number or a tensor.
#include "lowering/add.h"
#include "lowering/indexing/indexing.h"

namespace opbridge::lowering {
namespace {

Value of_one_axis(GraphBuilder& g, Value value, const Dim& size) {
  g.typed(value, std::vector{size});
  g.bind_dims(value);
  return value;
}

// The index 0 repeats[0] times, then 1 repeats[1] times, …
Value repeated_indices(GraphBuilder& g, Value repeats) {
  // A mark is set at the end of each run; the index at a position is the number of marks up to there.
  Value zero = g.scalar(0, ElementType::int64);
  Value ends = g.op("CumSum", g.cast(repeats, ElementType::int64), zero);
  Value total = g.reduce("ReduceSum", g.cast(repeats, ElementType::int64), {0}, true);
  const Dim count = g.unknown_size("count");
  Value marks = g.op("Expand", zero, g.op("Add", total, g.ints({1})));
  marks = of_one_axis(g, marks, count + Dim(1));
  marks =
      scatter_elements(g, marks, ends, g.op("Expand", g.scalar(1, ElementType::int64), g.op("Shape", ends)),
                       0, Reduction::add);
  Value numbers = g.op("CumSum", marks, zero);
  return of_one_axis(g, g.slice(numbers, 0, g.ints({0}), total), count);
}

Value repeat_interleave(GraphBuilder& g, Value self, Value repeats, std::optional<int64_t> dim) {
  Value x = dim ? self : flat(g, self);
  if (x.rank() == 0) x = g.unsqueeze(x, {0});
  const int64_t axis = wrap_axis(dim.value_or(0), x.rank());
  if (repeats.rank() == 0) repeats = g.unsqueeze(repeats, {0});
  return g.gather(x, repeated_indices(g, g.expand(repeats, std::vector{x.dim(axis)})), axis);
}

Value repeat_interleave(GraphBuilder& g, Value self, const Dim& repeats, std::optional<int64_t> dim) {
  Value x = dim ? self : flat(g, self);
  if (x.rank() == 0) x = g.unsqueeze(x, {0});
  const int64_t axis = wrap_axis(dim.value_or(0), x.rank());
  if (repeats.is(0)) return g.slice(x, axis, g.ints({0}), g.ints({0}));
  std::vector<Dim> merged = x.dims(), repeated = x.dims();
  merged[axis] = merged[axis] * repeats;
  repeated.insert(repeated.begin() + axis + 1, repeats);
  return g.reshape(g.expand(g.unsqueeze(x, {axis + 1}), repeated), merged);
}

}  // namespace

void register_repetition(SymbolicRegistry& registry) {
  auto on = add(registry);
  using Axis = std::optional<int64_t>;

  on("aten::repeat_interleave.Tensor(Tensor repeats, *, SymInt? output_size=None) -> Tensor", Since{16},
     [](GraphBuilder& g, Value repeats, Ignored) {
       if (repeats.dim(0).is(0)) return repeats;  // whatever output_size says
       return g.cast(repeated_indices(g, repeats), g.result().element_type);
     });
  on("aten::repeat_interleave.self_Tensor(Tensor self, Tensor repeats, int? dim=None, *, "
     "SymInt? output_size=None) -> Tensor",
     Since{16}, [](GraphBuilder& g, Value self, Value repeats, Axis dim, Ignored) {
       return repeat_interleave(g, self, repeats, dim);
     });
  on("aten::repeat_interleave.self_int(Tensor self, SymInt repeats, int? dim=None, *, "
     "SymInt? output_size=None) -> Tensor",
     Since{9}, [](GraphBuilder& g, Value self, Dim repeats, Axis dim, Ignored) {
       return repeat_interleave(g, self, repeats, dim);
     });
}

}  // namespace opbridge::lowering
