// Distances between rows.
#include "lowering/add.h"
#include "lowering/common.h"
#include "lowering/reduction/reduce.h"
#include "runtimes/standard/bodies.h"

namespace opbridge::standard {
namespace {

// (…, n, width) and (…, m, width) to (…, n, m).
Value distances(GraphBuilder& g, Value a, Value b, double p) {
  Value difference = g.op("Sub", g.unsqueeze(a, {-2}), g.unsqueeze(b, {-3}));
  return lowering::vector_norm(g, difference, p, std::vector<int64_t>{-1}, false);
}

// The distances of all pairs of rows i < j: the elements above the diagonal, row by row.
Value pdist(GraphBuilder& g, Value self, double p) {
  Value all = distances(g, self, self, p);
  Value ones = lowering::filled(g, all.dims(), 1, ElementType::int64);
  Value above = g.op("Trilu", ones, g.scalar(1, ElementType::int64), attr("upper", 1));
  return g.op("Compress", all, g.cast(lowering::flat(g, above), ElementType::boolean));
}

}  // namespace

void register_distance(SymbolicRegistry& registry) {
  auto on = lowering::add(registry);
  on("opbridge::cdist(Tensor x1, Tensor x2, float p=2.0) -> Tensor", Since{13}, distances);
  on("opbridge::pdist(Tensor self, float p=2.0) -> Tensor", Since{14}, pdist);
}

}  // namespace opbridge::standard
