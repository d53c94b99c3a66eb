// Distances and similarities of vectors.

#include "builder/shape_inference.h"
#include "lowering/add.h"
#include "lowering/kernel.h"
#include "lowering/reduction/reduce.h"

namespace opbridge::lowering {
namespace {

Value pairwise_distance(GraphBuilder& g, Value a, Value b, double p, double eps, bool keepdim) {
  const ElementType type = g.result().element_type;
  Value difference = operand(g, in_own_type(g, "Sub", a, b), type);
  difference = g.op("Add", difference, g.scalar_like(difference, eps));
  return g.cast(vector_norm(g, difference, p, std::vector<int64_t>{-1}, keepdim), type);
}

Value dist(GraphBuilder& g, Value a, Value b, Scalar p) {
  const ElementType type = g.result().element_type;
  Value difference = g.op("Sub", operand(g, a, type), operand(g, b, type));
  return g.cast(vector_norm(g, difference, p, {}, false), type);
}

// Whether standard ONNX may compute this many differences at once; all of them are in memory.
bool is_feasible(const Dim& differences) {
  constexpr int64_t most_elements = 1 << 16;
  return differences.is_static() && differences.value() <= most_elements;
}

// The distances of vectors (…, n, width) and (…, m, width) in standard ONNX: (…, n, m).
Value distances(GraphBuilder& g, Value a, Value b, double p) {
  const ElementType type = g.result().element_type;
  Value difference =
      g.op("Sub", g.unsqueeze(operand(g, a, type), {-2}), g.unsqueeze(operand(g, b, type), {-3}));
  return g.cast(vector_norm(g, difference, p, std::vector<int64_t>{-1}, false), type);
}

Value cdist(GraphBuilder& g, Value a, Value b, double p, Ignored) {
  Dim differences = a.dim(-1);
  for (const Dim& size : *g.result().dims) differences = differences * size;
  if (!is_feasible(differences)) return floating_kernel(g, "opbridge::cdist", {a, b}, {attr("p", p)});
  return distances(g, a, b, p);
}

// The distances of all pairs of rows i < j.
Value pdist(GraphBuilder& g, Value self, double p) {
  if (self.rank() != 2) g.refuse("distances of the rows of a matrix need a tensor with two dims");
  // PyTorch takes integers where there are no pairs.
  const bool is_real = is_floating_point(g.result().element_type);
  if (is_real && !is_feasible(self.dim(0) * self.dim(0) * self.dim(1)))
    return floating_kernel(g, "opbridge::pdist", {self}, {attr("p", p)});
  if (!self.dim(0).is_static()) g.refuse("the number of rows is dynamic; make that size constant");
  const int64_t rows = self.dim(0).value();
  check_constant(g, (self.dim(0) * self.dim(0)).value());
  std::vector<int64_t> first, second;
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = i + 1; j < rows; ++j) {
      first.push_back(i);
      second.push_back(j);
    }
  }
  return in_opmath_type(g, self, [&](Value x) {
    Value difference = g.op("Sub", g.gather(x, g.ints(first), 0), g.gather(x, g.ints(second), 0));
    return vector_norm(g, difference, p, std::vector<int64_t>{-1}, false);
  });
}

// After broadcasting, each vector is divided by its length, or by eps if it is shorter.
Value cosine_similarity(GraphBuilder& g, Value a, Value b, int64_t dim, double eps) {
  const ElementType type = g.result().element_type;
  const std::vector<Dim> dims = builder::broadcast_dims(a.dims(), b.dims());
  const std::vector<int64_t> axes{wrap_axis(dim, static_cast<int64_t>(dims.size()))};
  auto normalized = [&](Value value) {
    Value x = g.expand(operand(g, value, type), dims);
    return g.op("Div", x, g.op("Max", vector_norm(g, x, 2, axes, true), g.scalar_like(x, eps)));
  };
  Value product = g.op("Mul", normalized(a), normalized(b));
  return g.cast(g.reduce("ReduceSum", product, axes, false), type);
}

// Scales down slices along `dim` whose norm exceeds `maxnorm`.
Value renorm(GraphBuilder& g, Value self, Scalar p, int64_t dim, Scalar maxnorm) {
  return in_opmath_type(g, self, [&](Value x) {
    const std::vector<int64_t> others = axes_except(wrap_axis(dim, x.rank()), x.rank());
    Value norm = vector_norm(g, x, p, others, true);
    return g.op("Mul", x, renorm_factor(g, norm, maxnorm));
  });
}

}  // namespace

void register_distance(SymbolicRegistry& registry) {
  auto on = add(registry);

  on("aten::pairwise_distance(Tensor x1, Tensor x2, float p=2., float eps=9.9999999999999995e-07, "
     "bool keepdim=False) -> Tensor",
     Since{9}, pairwise_distance);
  on("aten::dist(Tensor self, Tensor other, Scalar p=2) -> Tensor", Since{9}, dist);
  on("aten::cdist(Tensor x1, Tensor x2, float p=2., int? compute_mode=None) -> Tensor", Since{9}, cdist);
  on("aten::_cdist_forward(Tensor x1, Tensor x2, float p, int? compute_mode) -> Tensor", Since{9}, cdist);
  on("aten::_euclidean_dist(Tensor x1, Tensor x2) -> Tensor", Since{9},
     [](GraphBuilder& g, Value a, Value b) {
       // `a` may be a vector, since PyTorch computes a matrix product.
       if (a.rank() > 1) return cdist(g, a, b, 2, {});
       std::vector<Dim> dims = *g.result().dims;
       return g.reshape(distances(g, g.unsqueeze(a, {0}), b, 2), dims);
     });
  on("aten::pdist(Tensor self, float p=2.) -> Tensor", Since{9}, pdist);
  on("aten::_pdist_forward(Tensor self, float p=2.) -> Tensor", Since{9}, pdist);
  on("aten::cosine_similarity(Tensor x1, Tensor x2, int dim=1, float eps=1e-08) -> Tensor", Since{9},
     cosine_similarity);
  on("aten::renorm(Tensor self, Scalar p, int dim, Scalar maxnorm) -> Tensor", Since{9}, renorm);
}

}  // namespace opbridge::lowering
