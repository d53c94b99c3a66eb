// The gradients of distances of vectors.
#include <cmath>

#include "lowering/add.h"
#include "lowering/gradients/gradients.h"
#include "lowering/indexing/indexing.h"

namespace opbridge::lowering {
namespace {

// The derivative of `distance`, the p-norm of differences, with respect to each difference; 0 where
// `distance` is 0.
Formula norm_gradient(const Formula& difference, const Formula& distance, double p) {
  Formula size = abs(difference);
  if (p == 1) return sign(difference);
  if (std::isinf(p)) return where(size == distance, sign(difference), 0);
  Formula slope = p == 2 ? difference / distance
                         : sign(difference) * (node("Pow", size, p - 1) / node("Pow", distance, p - 1));
  Formula none = distance == 0;
  return where(p < 1 ? none || size == 0 : none, 0, slope);
}

// The gradient of the vectors `a` (…, n, width); `grad` is that of their distances to `b` (…, m, width).
Value cdist_gradient(GraphBuilder& g, Value grad, Value a, Value b, double p, Value distance) {
  if (p == 0 || element_count(grad.dims()).is(0))
    return filled(g, *g.result().dims, 0, g.result().element_type);
  const std::vector<Dim> dims = *g.result().dims;
  Formula difference = Formula(g, g.unsqueeze(operand_of_result(g, a), {-2})) -
                       Formula(g, g.unsqueeze(operand_of_result(g, b), {-3}));
  Formula dy(g, g.unsqueeze(operand_of_result(g, grad), {-1}));
  Formula of(g, g.unsqueeze(operand_of_result(g, distance), {-1}));
  Value total = sum(norm_gradient(difference, of, p) * dy, {-2});
  return g.cast(g.reshape(total, dims), g.result().element_type);
}

// The pairs i < j of the rows are those of the strict upper triangle of a matrix, row by row.
Value pdist_gradient(GraphBuilder& g, Value grad, Value self, double p, Value distance) {
  const Dim& rows = self.dim(0);
  if (p == 0 || rows.is(0) || rows.is(1)) return filled(g, self.dims(), 0, g.result().element_type);
  const Value each = arithmetic(g, 0, 1, rows);
  const Value upper = g.op("Less", g.unsqueeze(each, {1}), g.unsqueeze(each, {0}));
  const Value pairs = g.typed(g.op("NonZero", upper), std::vector{Dim(2), grad.dim(0)});
  const Value first = g.gather(pairs, g.scalar(0, ElementType::int64), 0);
  const Value second = g.gather(pairs, g.scalar(1, ElementType::int64), 0);
  const Value x = operand_of_result(g, self);
  Formula difference = Formula(g, g.gather(x, first, 0)) - Formula(g, g.gather(x, second, 0));
  Formula dy(g, g.unsqueeze(operand_of_result(g, grad), {1}));
  Formula of(g, g.unsqueeze(operand_of_result(g, distance), {1}));
  Formula slope = norm_gradient(difference, of, p) * dy;
  Value total = filled(g, self.dims(), 0, x.element_type());
  total = scatter_rows(g, total, 0, first, slope, Reduction::add);
  total = scatter_rows(g, total, 0, second, -slope, Reduction::add);
  return g.cast(total, g.result().element_type);
}

}  // namespace

void register_distance_gradients(SymbolicRegistry& registry) {
  auto on = add(registry);

  on("aten::_cdist_backward(Tensor grad_output, Tensor x1, Tensor x2, float p, Tensor cdist) -> Tensor",
     Since{9}, cdist_gradient);
  on("aten::_pdist_backward(Tensor grad_output, Tensor self, float p, Tensor pdist) -> Tensor", Since{16},
     pdist_gradient);
}

}  // namespace opbridge::lowering
