#include "lowering/linalg/matrices.h"

#include <numeric>

#include "lowering/complex/complex.h"

namespace opbridge::lowering {
namespace {

Value part(GraphBuilder& g, const Matrices& a, int64_t i) {
  return g.gather(a.value, g.scalar(i, ElementType::int64), -1);
}

Value pairs(GraphBuilder& g, Value re, Value im) {
  return g.concat({g.unsqueeze(re, {-1}), g.unsqueeze(im, {-1})}, -1);
}

// MatMul of matrices with equal batch dims.
Value multiply(GraphBuilder& g, Value a, Value b) {
  std::vector<Dim> dims = a.dims();
  dims.back() = b.dim(-1);
  return g.typed(g.op("MatMul", a, b), {a.element_type(), std::move(dims)});
}

}  // namespace

Matrices matrices(const GraphBuilder& g, Value value, std::string_view argument) {
  // PyTorch accepts integer matrices only if they are empty.
  if (!is_floating_point(value.element_type())) g.refuse("integer matrices are not supported");
  if (!g.call()->find(argument)) g.refuse("its mapping reads an argument that the call lacks");
  return {value, is_in_pairs(g, argument)};
}

std::vector<Dim> shape(std::vector<Dim> batch, std::initializer_list<Dim> dims, bool complex) {
  batch.insert(batch.end(), dims);
  if (complex) batch.push_back(Dim(2));
  return batch;
}

Matrices expanded(GraphBuilder& g, const Matrices& a, const std::vector<Dim>& batch) {
  return {g.expand(a.value, shape(batch, {a.rows(), a.columns()}, a.complex)), a.complex};
}

Matrices transposed(GraphBuilder& g, const Matrices& a) {
  if (a.rank() < 2) g.refuse("a matrix has at least two dims");
  std::vector<int64_t> order(static_cast<size_t>(a.value.rank()));
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[static_cast<size_t>(a.rank() - 1)], order[static_cast<size_t>(a.rank() - 2)]);
  return {g.transpose(a.value, order), a.complex};
}

Matrices adjoint(GraphBuilder& g, const Matrices& a) {
  Matrices result = transposed(g, a);
  if (!a.complex) return result;
  result.value = pairs(g, part(g, result, 0), g.op("Neg", part(g, result, 1)));
  return result;
}

Matrices product(GraphBuilder& g, const Matrices& a, const Matrices& b) {
  if (!a.complex) return {multiply(g, a.value, b.value), false};
  Value ar = part(g, a, 0), ai = part(g, a, 1), br = part(g, b, 0), bi = part(g, b, 1);
  Value re = g.op("Sub", multiply(g, ar, br), multiply(g, ai, bi));
  Value im = g.op("Add", multiply(g, ar, bi), multiply(g, ai, br));
  return {pairs(g, re, im), true};
}

Matrices scaled_columns(GraphBuilder& g, const Matrices& a, Value factors) {
  Value row = g.unsqueeze(factors, {-2});
  const std::vector<Dim> dims = a.value.dims();
  return {g.typed(g.op("Mul", a.value, a.complex ? g.unsqueeze(row, {-1}) : row), {a.type(), dims}),
          a.complex};
}

Svd svd(GraphBuilder& g, const Matrices& a, bool full) {
  const Dim count = min(a.rows(), a.columns());
  auto [u, s, vh] =
      g.ops<3>("opbridge::svd", a.value, attr("full_matrices", full), attr("complex", a.complex));
  g.typed(u, {a.type(), shape(a.batch(), {a.rows(), full ? a.rows() : count}, a.complex)});
  g.typed(s, {a.type(), shape(a.batch(), {count}, false)});
  g.typed(vh, {a.type(), shape(a.batch(), {full ? a.columns() : count, a.columns()}, a.complex)});
  return {{u, a.complex}, s, {vh, a.complex}};
}

Value singular_values(GraphBuilder& g, const Matrices& a) {
  auto [u, s, vh] = g.ops<3>("opbridge::svd", a.value, attr("full_matrices", false), attr("vectors", false),
                             attr("complex", a.complex));
  for (Value none : {u, vh}) g.typed(none, {a.type(), std::vector<Dim>{Dim(0)}});
  return g.typed(s, {a.type(), shape(a.batch(), {min(a.rows(), a.columns())}, false)});
}

Eigh eigh(GraphBuilder& g, const Matrices& a, bool upper) {
  auto [values, vectors] =
      g.ops<2>("opbridge::eigh", a.value, attr("upper", upper), attr("complex", a.complex));
  g.typed(values, {a.type(), shape(a.batch(), {a.rows()}, false)});
  g.typed(vectors, {a.type(), a.value.dims()});
  return {values, {vectors, a.complex}};
}

Inverse inverse(GraphBuilder& g, const Matrices& a, bool check_errors) {
  auto [x, info] =
      g.ops<2>("opbridge::solve", a.value, attr("check_errors", check_errors), attr("complex", a.complex));
  g.typed(x, {a.type(), a.value.dims()});
  return {{x, a.complex}, g.typed(info, {ElementType::int32, a.batch()})};
}

}  // namespace opbridge::lowering
