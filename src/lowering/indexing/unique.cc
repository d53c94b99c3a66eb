// Unique elements or slices. Their number is known only when the model runs.
#include <array>

#include "lowering/add.h"
#include "lowering/common.h"
#include "lowering/reduction/reduce.h"

namespace opbridge::lowering {
namespace {

// Unique floating-point numbers: values, inverse, counts. Each NaN is unique.
std::array<Value, 3> unique_with_nan(GraphBuilder& g, Value x) {
  constexpr ElementType integer = ElementType::int64;
  Value nan = g.op("IsNaN", x), is_number = g.op("Not", nan), zero = g.scalar(0, integer);
  const std::vector<Value> found =
      g.op_list("Unique", 4, {g.op("Compress", x, is_number, attr("axis", 0)), attr("axis", 0)});
  Value many = g.op("Shape", found[0]);
  Value of_nan = g.op("Compress", x, nan, attr("axis", 0));
  Value ones = g.op("Expand", g.ints({1}), g.op("Shape", of_nan));
  // The NaNs follow all numbers, in order.
  Value positions = g.op("Add", g.op("CumSum", g.cast(nan, integer), zero), g.op("Sub", many, g.ints({1})));
  Value numbers = g.op("Sub", g.op("CumSum", g.cast(is_number, integer), zero), g.ints({1}));
  // The value looked up for a NaN is not used. The 0 makes index -1 valid.
  Value of_numbers = g.op("Concat", found[2], g.ints({0}), attr("axis", 0));
  Value looked_up = g.op("Gather", of_numbers, numbers, attr("axis", 0));
  return {g.op("Concat", found[0], of_nan, attr("axis", 0)), g.op("Where", nan, positions, looked_up),
          g.op("Concat", found[3], ones, attr("axis", 0))};
}

// The result is sorted: PyTorch sorts even with sorted=False.
std::vector<Value> unique(GraphBuilder& g, Value self, std::optional<int64_t> dim, bool wants_inverse,
                          bool wants_counts) {
  const ElementType type = self.element_type();
  Value x = operand(g, dim ? self : flat(g, self), type);
  std::array<Value, 3> found;
  if (is_floating_point(type) && !dim) {
    found = unique_with_nan(g, x);
  } else {
    // ONNX does not define how NaN compares: slices are compared by the indices of their numbers.
    Value compared = is_floating_point(type) ? g.reshape(unique_with_nan(g, flat(g, x))[1], x.dims()) : x;
    std::vector<Operand> operands{compared};
    const int64_t axis = dim ? wrap_axis(*dim, x.rank()) : 0;
    if (dim) operands.push_back(attr("axis", axis));
    const std::vector<Value> outputs = g.op_list("Unique", 4, std::move(operands));
    Value values = is_floating_point(type) ? g.gather(x, outputs[1], axis) : outputs[0];
    found = {values, outputs[2], outputs[3]};
  }
  auto [values, inverse, counts] = found;
  values = g.cast(values, type);
  if (!dim) inverse = g.reshape(inverse, self.dims());
  Value nothing = filled(g, std::vector{Dim(0)}, 0, ElementType::int64);
  return {values, wants_inverse ? inverse : nothing, wants_counts ? counts : nothing};
}

// The first element of each run of equal neighbours.
std::vector<Value> unique_consecutive(GraphBuilder& g, Value self, bool wants_inverse, bool wants_counts,
                                      std::optional<int64_t> dim) {
  constexpr ElementType integer = ElementType::int64;
  Value x = dim ? self : flat(g, self);
  const int64_t axis = dim ? wrap_axis(*dim, x.rank()) : 0;
  const Dim& size = x.dim(axis);
  // For slices PyTorch always returns inverse and counts. Its shape rule says the same for the elements of a
  // vector, but the kernel returns them only if requested.
  const bool of_slices = dim && x.rank() > 1;
  Value nothing = dim ? Value() : filled(g, std::vector{Dim(0)}, 0, integer);
  Value compared = operand(g, x, x.element_type());
  Value later = g.slice(compared, axis, 1, end_of_axis);
  Value equal = g.op("Equal", later, g.slice(compared, axis, 0, -1));
  Value differs = g.op("Not", equal);
  std::vector<int64_t> others;
  for (int64_t other = 0; other < x.rank(); ++other) {
    if (other != axis) others.push_back(other);
  }
  if (!others.empty()) differs = any_along(g, differs, others, false);
  Value begins = g.concat({filled(g, std::vector{Dim(1)}, 1, ElementType::boolean), differs}, 0);
  if (may_be_empty(size)) begins = g.slice(begins, 0, g.ints({0}), g.sizes({size}));
  Value values = g.op("Compress", x, begins, attr("axis", axis));
  Value one = g.scalar(1, integer), zero = g.scalar(0, integer);
  Value inverse = g.op("Sub", g.op("CumSum", g.cast(begins, integer), zero), one);
  if (!dim) inverse = g.reshape(inverse, self.dims());
  Value positions = g.typed(g.op("NonZero", begins), std::vector{Dim(1), g.unknown_size("runs")});
  Value starts = g.squeeze(positions, {0});
  Value ends = g.concat({g.slice(starts, 0, 1, end_of_axis), g.sizes({size})}, 0);
  return {values, wants_inverse || of_slices ? inverse : nothing,
          wants_counts || of_slices ? g.op("Sub", ends, starts) : nothing};
}

}  // namespace

void register_unique(SymbolicRegistry& registry) {
  auto on = add(registry);

  on("aten::_unique2(Tensor self, bool sorted=True, bool return_inverse=False, bool return_counts=False) -> "
     "(Tensor, Tensor, Tensor)",
     Since{9}, [](GraphBuilder& g, Value self, Ignored, bool inverse, bool counts) {
       return unique(g, self, std::nullopt, inverse, counts);
     });
  on("aten::_unique(Tensor self, bool sorted=True, bool return_inverse=False) -> (Tensor, Tensor)", Since{9},
     [](GraphBuilder& g, Value self, Ignored, bool inverse) {
       std::vector<Value> results = unique(g, self, std::nullopt, inverse, false);
       results.pop_back();
       return results;
     });
  on("aten::unique_dim(Tensor self, int dim, bool sorted=True, bool return_inverse=False, "
     "bool return_counts=False) -> (Tensor, Tensor, Tensor)",
     Since{9}, [](GraphBuilder& g, Value self, int64_t dim, Ignored, Ignored, Ignored) {
       return unique(g, self, dim, true, true);
     });
  on("aten::unique_consecutive(Tensor self, bool return_inverse=False, bool return_counts=False, "
     "int? dim=None) -> (Tensor, Tensor, Tensor)",
     Since{9}, unique_consecutive);
}

}  // namespace opbridge::lowering
