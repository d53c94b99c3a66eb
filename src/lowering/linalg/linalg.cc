// Linear algebra in standard ONNX. Functions that need opbridge's kernels are in factorization.cc and
// matrix_functions.cc.
#include "lowering/add.h"
#include "lowering/common.h"
#include "lowering/elementwise/special.h"
#include "lowering/linalg/matrices.h"
#include "lowering/reduction/reduce.h"

namespace opbridge::lowering {
namespace {

// Identity matrices with these dims.
Value identity(GraphBuilder& g, std::vector<Dim> dims, ElementType type) {
  const Dim n = last_dims(dims, 1)[0];
  Value indices = g.op("Range", g.scalar(0, ElementType::int64), g.size(n), g.scalar(1, ElementType::int64));
  Value matrix = g.cast(g.op("Equal", g.unsqueeze(indices, {1}), indices), type);
  return g.expand(g.typed(matrix, std::vector{n, n}), dims);
}

Value matrix_power(GraphBuilder& g, Value self, int64_t n) {
  const bool integers = !is_floating_point(self.element_type()) && n >= 0;
  Matrices square = integers ? Matrices{self} : matrices(g, self, "self");
  const ElementType type = square.complex ? self.element_type() : g.result().element_type;
  if (n == 0) {
    Value ones = identity(g, *g.result().dims, type);
    if (!square.complex) return ones;
    return g.concat({g.unsqueeze(ones, {-1}), g.unsqueeze(filled(g, ones.dims(), 0, type), {-1})}, -1);
  }
  if (n < 0) {
    square = inverse(g, square, true).inverse;
  } else if (!square.complex) {
    square.value = operand(g, self, type);
  }
  uint64_t rest = n < 0 ? -static_cast<uint64_t>(n) : static_cast<uint64_t>(n);
  for (Matrices power;; square = product(g, square, square)) {
    if (rest & 1) power = power.value ? product(g, power, square) : square;
    rest >>= 1;
    if (rest == 0) return g.cast(power.value, type);
  }
}

Value multi_dot(GraphBuilder& g, const std::vector<Value>& tensors) {
  const ElementType type = g.result().element_type;
  Value product = operand(g, tensors.at(0), type);
  for (size_t i = 1; i < tensors.size(); ++i) {
    product = g.op("MatMul", product, operand(g, tensors[i], type));
  }
  return g.cast(product, type);
}

// The covariance matrix of variables in rows and observations in columns, float32 or float64.
Value covariance(GraphBuilder& g, Value self, int64_t correction, std::optional<Value> fweights,
                 std::optional<Value> aweights) {
  const ElementType type = g.result().element_type;
  if (self.rank() < 2) self = g.reshape(self, {Dim(1), element_count(self)});
  Value x = operand(g, self, type);
  const ElementType kernel = x.element_type();
  const Dim observations = x.dim(1);
  auto sum = [&](Value value) { return g.reduce("ReduceSum", value, {-1}, true); };

  // Sums of weights are computed in the weights' type.
  const ElementType own = aweights ? opmath_type(aweights->element_type()) : ElementType::int64;
  Value weights = fweights ? g.cast(*fweights, own) : Value();
  if (aweights) {
    Value given = g.cast(*aweights, own);
    weights = weights ? g.op("Mul", weights, given) : given;
  }
  Value total = weights ? sum(weights) : g.scalar(observations, own);
  Value factors = weights ? g.cast(weights, kernel) : Value();
  auto weighted = [&](Value value) { return factors ? g.op("Mul", value, factors) : value; };
  const auto sum_of_observations = [&] {
    if (is_floating_point(self.element_type()) || aweights) return sum(weighted(x));
    // Sums of integers wrap around.
    Value integers = g.cast(self, ElementType::int64);
    if (weights) integers = g.op("Mul", integers, weights);
    return g.cast(sum_of(g, integers, std::vector<int64_t>{-1}, true), kernel);
  };
  Value centred = g.op("Sub", x, g.op("Div", sum_of_observations(), g.cast(total, kernel)));

  Value lost = g.scalar(correction, own);
  if (aweights && correction != 0) {
    Value squares = sum(g.op("Mul", weights, g.cast(*aweights, own)));
    lost = g.op("Mul", lost, g.op("Div", squares, total));
  }
  Value norm = g.op("Max", g.op("Sub", total, lost), g.scalar(0, own));
  Value product = g.op("MatMul", weighted(centred), g.transpose(centred, {1, 0}));
  return g.cast(g.reshape(g.op("Div", product, g.cast(norm, kernel)), *g.result().dims), type);
}

Value correlation(GraphBuilder& g, Value self) {
  Value c = covariance(g, self, 1, std::nullopt, std::nullopt);
  if (c.rank() == 0) return g.op("Div", c, c);
  Value on_diagonal = identity(g, c.dims(), ElementType::boolean);
  Value variances = g.reduce("ReduceSum", g.op("Where", on_diagonal, c, g.scalar_like(c, 0)), {1}, true);
  Value deviations = g.op("Sqrt", variances);
  Value scaled = g.op("Div", g.op("Div", c, deviations), g.transpose(deviations, {1, 0}));
  return g.op("Clip", scaled, g.scalar_like(c, -1), g.scalar_like(c, 1));
}

// The powers 0, 1, … of each element along a new last dim; `falling` starts with the highest power.
Value vander(GraphBuilder& g, Value x, std::optional<Dim> given, bool falling) {
  const ElementType type = g.result().element_type;
  if (x.rank() == 0) x = g.unsqueeze(x, {0});
  const Dim count = given ? *given : x.dim(-1);
  Value exponents = falling ? arithmetic(g, count - Dim(1), -1, count) : arithmetic(g, 0, 1, count);
  Value base = g.unsqueeze(operand(g, x, type), {-1});
  if (is_floating_point(type)) return g.cast(g.op("Pow", base, exponents), type);
  return g.cast(power_of_integers(g, base, g.cast(exponents, base.element_type()), *g.result().dims), type);
}

}  // namespace

void register_linalg(SymbolicRegistry& registry) {
  auto on = add(registry);

  for (const char* name : {"aten::matrix_power", "aten::linalg_matrix_power"}) {
    on(std::string(name) + "(Tensor self, int n) -> Tensor", Since{9}, matrix_power);
  }
  on("aten::linalg_multi_dot(Tensor[] tensors) -> Tensor", Since{9}, multi_dot);
  on("aten::chain_matmul(Tensor[] matrices) -> Tensor", Since{9}, multi_dot);

  on("aten::cov(Tensor self, *, int correction=1, Tensor? fweights=None, Tensor? aweights=None) -> Tensor",
     Since{9}, covariance);
  on("aten::corrcoef(Tensor self) -> Tensor", Since{9}, correlation);

  on("aten::linalg_vander(Tensor x, *, SymInt? N=None) -> Tensor", Since{9},
     [](GraphBuilder& g, Value x, std::optional<Dim> count) { return vander(g, x, count, false); });
  on("aten::vander(Tensor x, SymInt? N=None, bool increasing=False) -> Tensor", Since{9},
     [](GraphBuilder& g, Value x, std::optional<Dim> count, bool increasing) {
       return vander(g, x, count, !increasing);
     });
  on("aten::linalg_vecdot(Tensor x, Tensor y, *, int dim=-1) -> Tensor", Since{9},
     [](GraphBuilder& g, Value x, Value y, int64_t dim) {
       const ElementType type = g.result().element_type;
       Value products = g.op("Mul", operand(g, x, type), operand(g, y, type));
       Value sum = sum_of(g, products, std::vector{dim}, false);
       return g.cast(sum, type);
     });
}

}  // namespace opbridge::lowering
