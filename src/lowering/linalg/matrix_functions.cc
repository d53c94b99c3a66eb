// Functions of matrices that use a factorization: norms, ranks, inverses, determinants.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "lowering/add.h"
#include "lowering/common.h"
#include "lowering/complex/complex_functions.h"
#include "lowering/linalg/matrices.h"
#include "lowering/reduction/reduce.h"

namespace opbridge::lowering {
namespace {

using Order = std::variant<Scalar, std::string>;

std::array<Value, 3> determinant(GraphBuilder& g, const Matrices& a) {
  auto result = g.ops<3>("opbridge::determinant", a.value, attr("complex", a.complex));
  g.typed(result[0], {a.type(), shape(a.batch(), {}, a.complex)});
  g.typed(result[1], {a.type(), shape(a.batch(), {}, a.complex)});
  g.typed(result[2], {a.type(), a.batch()});
  return result;
}

// The magnitudes of the elements. Computed in float64, in which squares of float32 neither overflow nor
// underflow.
Value sizes_of(GraphBuilder& g, const Matrices& a) {
  if (!a.complex) return a.value;
  return g.cast(g.reduce("ReduceL2", g.cast(a.value, ElementType::float64), {-1}, false), a.type());
}

// The maximum or minimum along the last dim of non-negative values; the maximum of no values is 0.
Value extreme(GraphBuilder& g, bool greatest, Value values) {
  const Dim last = values.dim(-1);
  if (greatest && (!last.is_static() || last.is(0))) {
    std::vector<Dim> dims = values.dims();
    dims.back() = Dim(1);
    Value zero = g.expand(g.scalar(0, values.element_type()), dims);
    values = g.concat({values, zero}, -1);
  }
  return Extremum(g, greatest, values).value(std::vector<int64_t>{-1}, false);
}

// `a` has an opmath type.
Value matrix_norm(GraphBuilder& g, const Matrices& a, const Order& order) {
  const std::vector<int64_t> both{-2, -1};
  if (const std::string* name = std::get_if<std::string>(&order)) {
    if (*name == "fro") return vector_norm(g, sizes_of(g, a), 2, both, false);
    if (*name == "nuc") return g.reduce("ReduceSum", singular_values(g, a), {-1}, false);
    g.refuse("the matrix norm '" + *name + "' does not exist; use 'fro' or 'nuc'");
  }
  const double number = std::get<Scalar>(order).to_double(), size = std::abs(number);
  if (size == 2) return extreme(g, number > 0, singular_values(g, a));
  if (size != 1 && !std::isinf(size)) g.refuse("a matrix norm needs the order 1, -1, 2, -2, inf or -inf");
  Value magnitudes = g.op("Abs", sizes_of(g, a));
  return extreme(g, number > 0, g.reduce("ReduceSum", magnitudes, {size == 1 ? -2 : -1}, false));
}

Matrices numbers(GraphBuilder& g, Value self, std::optional<ElementType> type) {
  const Matrices a = matrices(g, self, "self");
  if (type && a.complex) g.refuse("dtype is not supported for norms of complex numbers; cast before");
  return {a.complex ? self : operand(g, self, type.value_or(self.element_type())), a.complex};
}

// The matrix norm over `dims`, which are moved to the end; with `keepdim` they remain with size 1.
Value norm_of_dims(GraphBuilder& g, const Matrices& a, const Order& order, std::vector<int64_t> dims,
                   bool keepdim) {
  dims = wrap_axes(dims, a.rank());
  std::vector<int64_t> permutation;
  for (int64_t axis = 0; axis < a.rank(); ++axis) {
    if (std::ranges::find(dims, axis) == dims.end()) permutation.push_back(axis);
  }
  permutation.insert(permutation.end(), dims.begin(), dims.end());
  if (a.complex) permutation.push_back(a.rank());
  const Matrices moved{g.transpose(a.value, permutation), a.complex};
  Value norm = matrix_norm(g, moved, order);
  return g.cast(keepdim ? g.unsqueeze(norm, dims) : norm, g.result().element_type);
}

Value norm(GraphBuilder& g, Value self, const std::optional<Order>& order, const Axes& dims, bool keepdim,
           std::optional<ElementType> type) {
  const Matrices a = numbers(g, self, type);
  const size_t count = dims ? dims->size() : static_cast<size_t>(a.rank());
  if (order && count == 2)
    return norm_of_dims(g, a, *order, dims.value_or(std::vector<int64_t>{-2, -1}), keepdim);
  const Scalar* number = order ? std::get_if<Scalar>(&*order) : nullptr;
  if (order && !number) g.refuse("the order of a vector norm must be a number");
  Value result = vector_norm(g, sizes_of(g, a), number ? *number : 2, dims, keepdim);
  return g.cast(result, g.result().element_type);
}

// The tolerance below which a singular value counts as zero; `relative` is relative to the greatest value.
struct Tolerance {
  Value absolute, relative;
};

Value default_relative(GraphBuilder& g, const Matrices& a) {
  const double epsilon = a.type() == ElementType::float64 ? std::numeric_limits<double>::epsilon()
                                                          : std::numeric_limits<float>::epsilon();
  const Dim longest = max(a.rows(), a.columns());
  if (longest.is_static()) return g.scalar(epsilon * static_cast<double>(longest.value()), a.type());
  return g.op("Mul", g.scalar(longest, a.type()), g.scalar(epsilon, a.type()));
}

Tolerance tolerance(GraphBuilder& g, const Matrices& a, std::optional<double> absolute,
                    std::optional<double> relative) {
  const bool by_default = !relative && absolute.value_or(0) <= 0;
  return {g.scalar(absolute.value_or(0), a.type()),
          by_default ? default_relative(g, a) : g.scalar(relative.value_or(0), a.type())};
}

Tolerance tolerance(GraphBuilder& g, const Matrices& a, std::optional<Value> absolute,
                    std::optional<Value> relative) {
  Value zero = g.scalar(0, a.type());
  Value least = absolute ? g.cast(*absolute, a.type()) : zero;
  if (relative) return {least, g.cast(*relative, a.type())};
  Value given = default_relative(g, a);
  return {least, absolute ? g.op("Where", g.op("Greater", least, zero), zero, given) : given};
}

// Whether each of the values, which are not negative, exceeds the tolerance.
Value counts(GraphBuilder& g, Value values, const Tolerance& t) {
  Value greatest = g.reduce("ReduceMax", values, {-1}, false);
  Value limit = g.op("Max", t.absolute, g.op("Mul", t.relative, greatest));
  return g.op("Greater", values, g.unsqueeze(limit, {-1}));
}

Value pinv(GraphBuilder& g, const Matrices& a, const Tolerance& t, bool hermitian) {
  if (a.rows().is(0) || a.columns().is(0)) return transposed(g, a).value;
  Value zero = g.scalar(0, a.type());
  auto inverted = [&](Value values, Value sizes) {
    Value inverses = g.op("Where", counts(g, sizes, t), g.op("Reciprocal", values), zero);
    return g.typed(inverses, {a.type(), values.dims()});
  };
  if (hermitian) {
    const Eigh e = eigh(g, a, false);
    Value factors = inverted(e.values, g.op("Abs", e.values));
    return product(g, scaled_columns(g, e.vectors, factors), adjoint(g, e.vectors)).value;
  }
  const Svd s = svd(g, a, false);
  const Matrices v = scaled_columns(g, adjoint(g, s.vh), inverted(s.values, s.values));
  return product(g, v, adjoint(g, s.u)).value;
}

Value matrix_rank(GraphBuilder& g, const Matrices& a, const Tolerance& t, bool hermitian) {
  // For an empty input PyTorch does not check the tolerances.
  if (element_count(a.value).is(0)) return filled(g, *g.result().dims, 0, ElementType::int64);
  Value values = hermitian ? g.op("Abs", eigh(g, a, false).values) : singular_values(g, a);
  return g.reduce("ReduceSum", g.cast(counts(g, values, t), ElementType::int64), {-1}, false);
}

// `atol` and `rtol` are numbers, tensors or missing, depending on the overload.
template <class Absolute, class Relative>
Value pinv_within(GraphBuilder& g, Value self, const Absolute& atol, const Relative& rtol, bool hermitian) {
  // A tolerance that is a tensor may have batch dims that the matrices lack.
  const std::vector<Dim>& dims = *g.result().dims;
  const std::vector<Dim> batch = first_dims(dims, static_cast<int64_t>(dims.size()) - 2);
  const Matrices given = matrices(g, self, "self");
  if (element_count(dims).is(0))
    return filled(g, shape(batch, {given.columns(), given.rows()}, given.complex), 0, given.type());
  const Matrices a = expanded(g, given, batch);
  return pinv(g, a, tolerance(g, a, atol, rtol), hermitian);
}

template <class Absolute, class Relative>
Value rank_within(GraphBuilder& g, Value value, std::string_view argument, const Absolute& atol,
                  const Relative& rtol, bool hermitian) {
  const Matrices a = matrices(g, value, argument);
  return matrix_rank(g, a, tolerance(g, a, atol, rtol), hermitian);
}

Value condition(GraphBuilder& g, Value self, const Order& order) {
  const Matrices a = matrices(g, self, "self");
  if (a.rows().is(0) || a.columns().is(0)) return filled(g, *g.result().dims, 0, a.type());
  const Scalar* number = std::get_if<Scalar>(&order);
  if (number && std::abs(number->to_double()) == 2) {
    Value values = singular_values(g, a);
    Value least = extreme(g, false, values), greatest = extreme(g, true, values);
    return number->to_double() > 0 ? g.op("Div", greatest, least) : g.op("Div", least, greatest);
  }
  const Inverse inverted = inverse(g, a, false);
  Value singular = g.op("Greater", inverted.info, g.scalar(0, ElementType::int32));
  // The norm of an inverse may need a factorization, which requires finite elements. So a singular matrix
  // replaces its own inverse here; the result is not used.
  Value usable = g.unsqueeze(g.op("Not", singular),
                             a.complex ? std::vector<int64_t>{-3, -2, -1} : std::vector<int64_t>{-2, -1});
  const Matrices other{g.op("Where", usable, inverted.inverse.value, a.value), a.complex};
  Value norms = g.op("Mul", matrix_norm(g, a, order), matrix_norm(g, other, order));
  return g.op("Where", singular, g.scalar(std::numeric_limits<double>::infinity(), a.type()), norms);
}

void register_norms(SymbolicRegistry& registry) {
  auto on = add(registry);
  using Dims = std::vector<int64_t>;
  using Type = std::optional<ElementType>;

  on("aten::linalg_matrix_norm(Tensor self, Scalar ord, int[] dim=[-2, -1], bool keepdim=False, *, "
     "ScalarType? dtype=None) -> Tensor",
     Since{9}, [](GraphBuilder& g, Value self, Scalar order, Dims dim, bool keepdim, Type dtype) {
       return norm_of_dims(g, numbers(g, self, dtype), order, dim, keepdim);
     });
  on("aten::linalg_matrix_norm.str_ord(Tensor self, str ord=\"fro\", int[] dim=[-2, -1], bool "
     "keepdim=False, *, ScalarType? dtype=None) -> Tensor",
     Since{9}, [](GraphBuilder& g, Value self, std::string order, Dims dim, bool keepdim, Type dtype) {
       return norm_of_dims(g, numbers(g, self, dtype), order, dim, keepdim);
     });
  on("aten::linalg_norm(Tensor self, Scalar? ord=None, int[1]? dim=None, bool keepdim=False, *, ScalarType? "
     "dtype=None) -> Tensor",
     Since{9},
     [](GraphBuilder& g, Value self, std::optional<Scalar> order, Axes dim, bool keepdim, Type dtype) {
       return norm(g, self, order ? std::optional<Order>(*order) : std::nullopt, dim, keepdim, dtype);
     });
  on("aten::linalg_norm.ord_str(Tensor self, str ord, int[1]? dim=None, bool keepdim=False, *, ScalarType? "
     "dtype=None) -> Tensor",
     Since{9}, [](GraphBuilder& g, Value self, std::string order, Axes dim, bool keepdim, Type dtype) {
       return norm(g, self, Order(order), dim, keepdim, dtype);
     });
  on("aten::nuclear_norm(Tensor self, bool keepdim=False) -> Tensor", Since{9},
     [](GraphBuilder& g, Value self, bool keepdim) {
       return norm_of_dims(g, numbers(g, self, std::nullopt), std::string("nuc"), {-2, -1}, keepdim);
     });
  on("aten::nuclear_norm.dim(Tensor self, int[2] dim, bool keepdim=False) -> Tensor", Since{9},
     [](GraphBuilder& g, Value self, Dims dim, bool keepdim) {
       return norm_of_dims(g, numbers(g, self, std::nullopt), std::string("nuc"), dim, keepdim);
     });

  on("aten::linalg_cond(Tensor self, Scalar? p=None) -> Tensor", Since{9},
     [](GraphBuilder& g, Value self, std::optional<Scalar> p) { return condition(g, self, p.value_or(2)); });
  on("aten::linalg_cond.p_str(Tensor self, str p) -> Tensor", Since{9},
     [](GraphBuilder& g, Value self, std::string p) { return condition(g, self, p); });
}

void register_inverses(SymbolicRegistry& registry) {
  auto on = add(registry);
  using Number = std::optional<double>;
  using Tensor = std::optional<Value>;

  on("aten::linalg_pinv(Tensor self, float rcond, bool hermitian=False) -> Tensor", Since{9},
     [](GraphBuilder& g, Value self, double rcond, bool hermitian) {
       return pinv_within(g, self, 0.0, rcond, hermitian);
     });
  on("aten::linalg_pinv.rcond_tensor(Tensor self, Tensor rcond, bool hermitian=False) -> Tensor", Since{9},
     [](GraphBuilder& g, Value self, Value rcond, bool hermitian) {
       return pinv_within(g, self, Tensor(), rcond, hermitian);
     });
  on("aten::linalg_pinv.atol_rtol_float(Tensor self, *, float? atol=None, float? rtol=None, bool "
     "hermitian=False) -> Tensor",
     Since{9}, [](GraphBuilder& g, Value self, Number atol, Number rtol, bool hermitian) {
       return pinv_within(g, self, atol, rtol, hermitian);
     });
  on("aten::linalg_pinv.atol_rtol_tensor(Tensor self, *, Tensor? atol=None, Tensor? rtol=None, bool "
     "hermitian=False) -> Tensor",
     Since{9}, [](GraphBuilder& g, Value self, Tensor atol, Tensor rtol, bool hermitian) {
       return pinv_within(g, self, atol, rtol, hermitian);
     });
  on("aten::pinverse(Tensor self, float rcond=1.0000000000000001e-15) -> Tensor", Since{9},
     [](GraphBuilder& g, Value self, double rcond) { return pinv_within(g, self, 0.0, rcond, false); });

  on("aten::linalg_matrix_rank(Tensor self, float tol, bool hermitian=False) -> Tensor", Since{9},
     [](GraphBuilder& g, Value self, double tol, bool hermitian) {
       return rank_within(g, self, "self", tol, 0.0, hermitian);
     });
  on("aten::linalg_matrix_rank.tol_tensor(Tensor input, Tensor tol, bool hermitian=False) -> Tensor",
     Since{9}, [](GraphBuilder& g, Value input, Value tol, bool hermitian) {
       return rank_within(g, input, "input", tol, g.scalar(0, input.element_type()), hermitian);
     });
  on("aten::linalg_matrix_rank.atol_rtol_float(Tensor self, *, float? atol=None, float? rtol=None, bool "
     "hermitian=False) -> Tensor",
     Since{9}, [](GraphBuilder& g, Value self, Number atol, Number rtol, bool hermitian) {
       return rank_within(g, self, "self", atol, rtol, hermitian);
     });
  on("aten::linalg_matrix_rank.atol_rtol_tensor(Tensor input, *, Tensor? atol=None, Tensor? rtol=None, bool "
     "hermitian=False) -> Tensor",
     Since{9}, [](GraphBuilder& g, Value input, Tensor atol, Tensor rtol, bool hermitian) {
       return rank_within(g, input, "input", atol, rtol, hermitian);
     });

  on("aten::linalg_tensorinv(Tensor self, int ind=2) -> Tensor", Since{5},
     [](GraphBuilder& g, Value self, int64_t ind) {
       const bool complex = matrices(g, self, "self").complex;
       const Dim count = element_count(first_dims(self.dims(), ind));
       Value matrix = g.reshape(self, shape({}, {count, count}, complex));
       return g.reshape(inverse(g, {matrix, complex}, true).inverse.value,
                        shape(*g.result().dims, {}, complex));
     });
  on("aten::linalg_tensorsolve(Tensor self, Tensor other, int[]? dims=None) -> Tensor", Since{5},
     [](GraphBuilder& g, Value self, Value other, Axes dims) {
       const Matrices a = matrices(g, self, "self");
       if (dims) {
         std::vector<int64_t> order(static_cast<size_t>(self.rank()));
         std::iota(order.begin(), order.end(), 0);
         for (int64_t axis : wrap_axes(*dims, a.rank())) {
           std::erase(order, axis);
           order.insert(order.begin() + (a.rank() - 1), axis);
         }
         self = g.transpose(self, order);
       }
       const Dim count = a.complex ? floor_div(element_count(other), Dim(2)) : element_count(other);
       const std::vector<Dim> column = shape({}, {count, Dim(1)}, a.complex);
       auto [x, info] = g.ops<2>("opbridge::solve", g.reshape(self, shape({}, {count, count}, a.complex)),
                                 g.reshape(other, column), attr("complex", a.complex));
       g.typed(info, {ElementType::int32, std::vector<Dim>{}});
       return g.reshape(g.typed(x, {other.element_type(), column}), shape(*g.result().dims, {}, a.complex));
     });
}

std::array<Value, 2> sign_and_logarithm(GraphBuilder& g, const Matrices& a) {
  const auto [det, sign, log] = determinant(g, a);
  return {sign, log};
}

}  // namespace

void register_matrix_functions(SymbolicRegistry& registry) {
  auto on = add(registry);
  register_norms(registry);
  register_inverses(registry);

  on("aten::linalg_det(Tensor A) -> Tensor", Since{1},
     [](GraphBuilder& g, Value a) { return determinant(g, matrices(g, a, "A"))[0]; });
  on("aten::det(Tensor self) -> Tensor", Since{1},
     [](GraphBuilder& g, Value self) { return determinant(g, matrices(g, self, "self"))[0]; });
  on("aten::_linalg_det(Tensor A) -> (Tensor result, Tensor LU, Tensor pivots)", Since{1},
     [](GraphBuilder& g, Value a) {
       return std::array{determinant(g, matrices(g, a, "A"))[0], Value(), Value()};
     });
  on("aten::_linalg_slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet, Tensor LU, Tensor pivots)", Since{1},
     [](GraphBuilder& g, Value a) {
       const auto [sign, log] = sign_and_logarithm(g, matrices(g, a, "A"));
       return std::array{sign, log, Value(), Value()};
     });
  on("aten::linalg_slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet)", Since{1},
     [](GraphBuilder& g, Value a) { return sign_and_logarithm(g, matrices(g, a, "A")); });
  on("aten::slogdet(Tensor self) -> (Tensor sign, Tensor logabsdet)", Since{1},
     [](GraphBuilder& g, Value self) { return sign_and_logarithm(g, matrices(g, self, "self")); });
  on("aten::logdet(Tensor self) -> Tensor", Since{9}, [](GraphBuilder& g, Value self) {
    const Matrices a = matrices(g, self, "self");
    auto [det, sign, log] = determinant(g, a);
    if (a.complex) {  // the sign has magnitude 1, so its logarithm is its angle
      const auto part = [&](int64_t i) { return g.gather(sign, g.scalar(i, ElementType::int64), -1); };
      Value angle = complex_function("aten::angle")(g, {part(0), part(1)}).re;
      return g.concat({g.unsqueeze(log, {-1}), g.unsqueeze(angle, {-1})}, -1);
    }
    Value nan = g.scalar(std::numeric_limits<double>::quiet_NaN(), a.type());
    return g.op("Where", g.op("Less", sign, g.scalar(0, a.type())), nan, log);
  });

  on("aten::linalg_matrix_sqrth(Tensor self) -> Tensor", Since{9}, [](GraphBuilder& g, Value self) {
    const Eigh e = eigh(g, matrices(g, self, "self"), false);
    const ElementType type = e.vectors.type();
    Value roots = g.op("Sqrt", g.op("Max", e.values, g.scalar(0, type)));
    return product(g, scaled_columns(g, e.vectors, roots), adjoint(g, e.vectors)).value;
  });
  on("aten::linalg_polar(Tensor A) -> (Tensor U, Tensor H)", Since{9}, [](GraphBuilder& g, Value value) {
    const Svd s = svd(g, matrices(g, value, "A"), false);
    const Matrices v = adjoint(g, s.vh);
    return std::array{product(g, s.u, s.vh).value, product(g, scaled_columns(g, v, s.values), s.vh).value};
  });
}

}  // namespace opbridge::lowering
