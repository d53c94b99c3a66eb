// Differences and integrals along a dim.
#include <fmt/format.h>

#include <limits>

#include "lowering/add.h"
#include "lowering/common.h"

namespace opbridge::lowering {
namespace {

constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();

struct Neighbours {
  Value later, earlier;
};

Neighbours neighbours(GraphBuilder& g, Value x, int64_t axis) {
  Neighbours result{g.slice(x, axis, 1, kEnd), g.slice(x, axis, 0, -1)};
  std::vector<Dim> dims = x.dims();
  if (!dims[axis].is(0)) dims[axis] = dims[axis] - Dim(1);
  for (Value value : {result.later, result.earlier})
    value.get()->type = ir::TensorType{x.element_type(), dims};
  return result;
}

Value differences(GraphBuilder& g, Value x, int64_t axis) {
  const Neighbours pair = neighbours(g, x, axis);
  return g.op("Sub", pair.later, pair.earlier);
}

Value diff(GraphBuilder& g, Value self, int64_t n, int64_t dim, std::optional<Value> prepend,
           std::optional<Value> append) {
  const ElementType type = g.result().element_type;
  const int64_t axis = wrap_axis(dim, self.rank());
  std::vector<Value> parts;
  for (const std::optional<Value>& part : {prepend, std::optional(self), append}) {
    if (part) parts.push_back(operand(g, *part, type));
  }
  Value x = g.concat(std::move(parts), axis);
  for (int64_t i = 0; i < n; ++i) {
    x = differences(g, x, axis);
    // Whether neighbours differ, once more a bool.
    if (type == ElementType::boolean) x = g.op("Abs", x);
  }
  return g.cast(x, type);
}

// The areas between neighbours, times two.
Value trapezoids(GraphBuilder& g, Value y, std::optional<Value> x, int64_t axis) {
  const Neighbours pair = neighbours(g, y, axis);
  Value heights = g.op("Add", pair.later, pair.earlier);
  if (!x) return heights;
  const bool one_for_all = x->rank() == 1 && y.rank() != 1;
  Value widths = differences(g, *x, one_for_all ? 0 : axis - y.rank() + x->rank());
  if (one_for_all) {
    std::vector<Dim> dims(y.rank() - axis, Dim(1));
    dims[0] = widths.dim(0);
    widths = g.reshape(widths, dims);
  }
  return g.op("Mul", heights, widths);
}

Value trapezoid(GraphBuilder& g, Value y, std::optional<Value> x, double dx, int64_t dim, bool cumulative) {
  const ElementType type = g.result().element_type;
  Value heights = operand(g, y, type);
  const int64_t axis = wrap_axis(dim, heights.rank());
  if (x) x = operand(g, *x, type);
  Value areas = trapezoids(g, heights, x, axis);
  Value sum = cumulative ? g.op("CumSum", areas, g.scalar(axis - heights.rank(), ElementType::int64))
                         : g.reduce("ReduceSum", areas, {axis - heights.rank()}, false);
  return g.cast(g.op("Mul", sum, g.scalar_like(sum, dx / 2)), type);
}

}  // namespace

void register_calculus(SymbolicRegistry& registry) {
  auto on = add(registry);

  on("aten::diff(Tensor self, int n=1, int dim=-1, Tensor? prepend=None, Tensor? append=None) -> Tensor",
     Since{13}, diff);
  for (const char* name : {"trapezoid", "trapz", "cumulative_trapezoid"}) {
    const bool cumulative = std::string_view(name).starts_with("cumulative");
    const bool old = std::string_view(name) == "trapz";
    on(fmt::format("aten::{}.dx(Tensor y, *, {}, int dim=-1) -> Tensor", name,
                   old ? "float dx=1." : "Scalar dx=1"),
       Since{13}, [cumulative](GraphBuilder& g, Value y, Scalar dx, int64_t dim) {
         return trapezoid(g, y, std::nullopt, dx.to_double(), dim, cumulative);
       });
    on(fmt::format("aten::{}.x(Tensor y, Tensor x, *, int dim=-1) -> Tensor", name), Since{13},
       [cumulative](GraphBuilder& g, Value y, Value x, int64_t dim) {
         return trapezoid(g, y, x, 1, dim, cumulative);
       });
  }
}

}  // namespace opbridge::lowering
