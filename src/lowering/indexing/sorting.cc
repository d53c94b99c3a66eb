// Sorting and selection with TopK. PyTorch orders NaN as the greatest value; ONNX does not specify its order.
#include <cmath>

#include "lowering/add.h"
#include "lowering/common.h"
#include "lowering/reduction/reduce.h"

namespace opbridge::lowering {
namespace {

struct Sorted {
  Value values, indices;  // in the opmath type; int64
};

// Values to sort instead of `x`: NaN becomes infinity, and infinity the greatest finite number. Infinity and
// that number may be ordered either way.
Value with_nan_greatest(GraphBuilder& g, Value x) {
  Value finite = g.op("Min", x, g.scalar_like(x, greatest_finite(x.element_type())));
  return g.op("Where", g.op("IsNaN", x), g.scalar_like(x, INFINITY), finite);
}

// The first `count` elements of a stable sort along `dim`.
Sorted first(GraphBuilder& g, Value self, const Dim& count, int64_t dim, bool descending) {
  Value x = operand(g, self, self.element_type());
  if (x.rank() == 0) return {x, g.scalar(0, ElementType::int64)};
  const int64_t axis = wrap_axis(dim, x.rank());
  const bool has_nan = is_floating_point(x.element_type());
  auto [values, indices] = g.ops<2>("TopK", has_nan ? with_nan_greatest(g, x) : x, g.sizes({count}),
                                    attr("axis", axis), attr("largest", descending));
  if (has_nan) values = g.op("GatherElements", x, indices, attr("axis", axis));
  return {values, indices};
}

Sorted sorted(GraphBuilder& g, Value self, int64_t dim, bool descending) {
  return first(g, self, self.rank() == 0 ? Dim(1) : self.dim(dim), dim, descending);
}

std::vector<Value> results(GraphBuilder& g, Value self, const Sorted& sorted) {
  return {g.cast(sorted.values, self.element_type()), sorted.indices};
}

// The element of rank `rank` (from 1, in ascending order) along `dim`.
Sorted kth(GraphBuilder& g, Value self, const Dim& rank, int64_t dim, bool keepdim) {
  Sorted least = first(g, self, rank, dim, false);
  if (self.rank() == 0) return least;
  const int64_t axis = wrap_axis(dim, self.rank());
  auto last = [&](Value value) {
    Value index = g.sizes({rank - Dim(1)});
    return g.gather(value, keepdim ? index : g.squeeze(index, {0}), axis);
  };
  return {last(least.values), last(least.indices)};
}

// The lower of the two middle elements; if there is a NaN, NaN and its index.
Sorted median(GraphBuilder& g, Value self, int64_t dim, bool keepdim) {
  const Dim size = self.rank() == 0 ? Dim(1) : self.dim(dim);
  Sorted middle = kth(g, self, floor_div(size + Dim(1), Dim(2)), dim, keepdim);
  if (!is_floating_point(self.element_type()) || self.rank() == 0) return middle;
  const int64_t axis = wrap_axis(dim, self.rank());
  Value x = operand(g, self, self.element_type());
  Value nan = g.op("IsNaN", x), any = any_along(g, nan, std::vector{axis}, keepdim);
  Value index =
      g.op("ArgMax", g.cast(nan, ElementType::int32), attr("axis", axis), attr("keepdims", keepdim));
  return {g.op("Where", any, g.scalar_like(x, NAN), middle.values),
          g.op("Where", any, index, middle.indices)};
}

}  // namespace

void register_sorting(SymbolicRegistry& registry) {
  auto on = add(registry);

  on("aten::topk(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True) -> "
     "(Tensor values, Tensor indices)",
     Since{9}, [](GraphBuilder& g, Value self, Dim k, int64_t dim, bool largest, Ignored) {
       if (self.rank() == 0 && k.is(0)) g.refuse("k is 0 for a tensor without dims");
       return results(g, self, first(g, self, k, dim, largest));
     });
  on("aten::sort(Tensor self, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)",
     Since{9}, [](GraphBuilder& g, Value self, int64_t dim, bool descending) {
       return results(g, self, sorted(g, self, dim, descending));
     });
  on("aten::sort.stable(Tensor self, *, bool? stable, int dim=-1, bool descending=False) -> "
     "(Tensor values, Tensor indices)",
     Since{9}, [](GraphBuilder& g, Value self, Ignored, int64_t dim, bool descending) {
       return results(g, self, sorted(g, self, dim, descending));
     });
  on("aten::msort(Tensor self) -> Tensor", Since{9},
     [](GraphBuilder& g, Value self) { return results(g, self, sorted(g, self, 0, false))[0]; });
  on("aten::argsort(Tensor self, int dim=-1, bool descending=False) -> Tensor", Since{9},
     [](GraphBuilder& g, Value self, int64_t dim, bool descending) {
       return sorted(g, self, dim, descending).indices;
     });
  on("aten::argsort.stable(Tensor self, *, bool stable, int dim=-1, bool descending=False) -> Tensor",
     Since{9}, [](GraphBuilder& g, Value self, Ignored, int64_t dim, bool descending) {
       return sorted(g, self, dim, descending).indices;
     });
  on("aten::kthvalue(Tensor self, SymInt k, int dim=-1, bool keepdim=False) -> "
     "(Tensor values, Tensor indices)",
     Since{9}, [](GraphBuilder& g, Value self, Dim k, int64_t dim, bool keepdim) {
       return results(g, self, kth(g, self, k, dim, keepdim));
     });
  on("aten::median(Tensor self) -> Tensor", Since{9}, [](GraphBuilder& g, Value self) {
    return results(g, self, median(g, elements_of_median(g, self), 0, false))[0];
  });
  on("aten::median.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
     Since{9}, [](GraphBuilder& g, Value self, int64_t dim, bool keepdim) {
       return results(g, self, median(g, self, dim, keepdim));
     });
}

}  // namespace opbridge::lowering
