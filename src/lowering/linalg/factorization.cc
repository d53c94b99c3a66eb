// Solvers and factorizations, with the kernels of operators/linalg.
#include <map>
#include <string>

#include "lowering/add.h"
#include "lowering/common.h"
#include "lowering/linalg/matrices.h"

namespace opbridge::lowering {
namespace {

using Values = std::vector<Value>;

// A node of a kernel that takes one batch of matrices.
template <size_t outputs, class... Attributes>
std::array<Value, outputs> kernel(GraphBuilder& g, std::string_view name, const Matrices& a,
                                  Attributes... attributes) {
  return g.ops<outputs>("opbridge::" + std::string(name), a.value, attributes..., attr("complex", a.complex));
}

// The batch dims of the result: all but the last `dims`.
std::vector<Dim> result_batch(const GraphBuilder& g, size_t dims) {
  const std::vector<Dim>& all = *g.result().dims;
  return first_dims(all, static_cast<int64_t>(all.size() - dims));
}

Value empty(GraphBuilder& g, size_t result) {
  const ir::TensorType& type = g.result(result);
  return filled(g, *type.dims, 0, type.element_type);
}

// PyTorch treats B as a batch of vectors if it has one dim, or the shape of A without the last dim.
bool is_vector(const GraphBuilder& g, const Matrices& a, const Matrices& b) {
  if (b.rank() == 1) return true;
  if (b.rank() + 1 != a.rank()) return false;
  bool may_differ = false;
  std::map<std::string, int64_t> values;  // symbol → the value for which the sizes are equal
  for (int64_t axis = 0; axis < b.rank(); ++axis) {
    const Dim &x = a.dim(axis), &y = b.dim(axis);
    if (x == y) continue;
    if (x.is_static() && y.is_static()) return false;
    may_differ = true;
    const Dim &known = x.is_static() ? x : y, &open = x.is_static() ? y : x;
    if (known.is_static() && values.try_emplace(open.str(), known.value()).first->second != known.value())
      return false;
  }
  if (may_differ)
    g.refuse(
        "PyTorch treats B as vectors if its dynamic sizes equal those of A, and as matrices otherwise; pass "
        "matrices with as many dims as A, for example B.unsqueeze(0)");
  return true;
}

Value lu_solve(GraphBuilder& g, Matrices lu, Value pivots, Matrices b, bool left, bool adjoint) {
  const std::vector<Dim> batch = result_batch(g, 2);
  lu = expanded(g, lu, batch);
  b = expanded(g, b, batch);
  pivots = g.expand(pivots, shape(batch, {lu.rows()}, false));
  return g.op("opbridge::lu_solve", lu.value, pivots, b.value, attr("left", left), attr("adjoint", adjoint),
              attr("complex", lu.complex));
}

std::array<Value, 3> factor_lu(GraphBuilder& g, const Matrices& a, bool pivot, bool check_errors) {
  if (!pivot) g.refuse("pivot=False is not supported; PyTorch has no CPU kernel for it either");
  auto result = kernel<3>(g, "lu_factor", a, attr("check_errors", check_errors));
  g.typed(result[0], {a.type(), a.value.dims()});
  g.typed(result[1], {ElementType::int32, shape(a.batch(), {min(a.rows(), a.columns())}, false)});
  g.typed(result[2], {ElementType::int32, a.batch()});
  return result;
}

std::array<Value, 2> factor_qr(GraphBuilder& g, const Matrices& a, const std::string& mode) {
  auto result = kernel<2>(g, "qr", a, attr("mode", mode));
  const Dim inner = mode == "complete" ? a.rows() : min(a.rows(), a.columns());
  if (mode != "r") g.typed(result[0], {a.type(), shape(a.batch(), {a.rows(), inner}, a.complex)});
  g.typed(result[1], {a.type(), shape(a.batch(), {inner, a.columns()}, a.complex)});
  return result;
}

std::array<Value, 2> solve(GraphBuilder& g, Value a_value, Value b_value, bool left, bool check_errors) {
  const Matrices own = matrices(g, a_value, "A");
  Matrices a = own, b = matrices(g, b_value, "B");
  const bool vector = is_vector(g, a, b);
  if (vector) b.value = g.unsqueeze(b.value, {b.rank()});
  const std::vector<Dim> batch = result_batch(g, vector ? 1 : 2);
  a = expanded(g, a, batch);
  b = expanded(g, b, batch);
  auto [x, info] = g.ops<2>("opbridge::solve", a.value, b.value, attr("left", left),
                            attr("check_errors", check_errors), attr("complex", a.complex));
  g.typed(x, {b.type(), b.value.dims()});
  g.typed(info, {ElementType::int32, batch});
  if (vector) x = g.squeeze(x, {b.rank() - 1});
  // PyTorch factors the matrices before they are broadcast.
  if (own.batch() != batch) info = factor_lu(g, own, true, check_errors)[2];
  return {x, info};
}

std::array<Value, 3> unpack_lu(GraphBuilder& g, const Matrices& lu, Value pivots) {
  return g.ops<3>("opbridge::lu_unpack", lu.value, pivots, attr("complex", lu.complex));
}

Value solve_triangular(GraphBuilder& g, Matrices a, Matrices b, bool upper, bool left, bool unitriangular) {
  if (a.type() != b.type()) g.refuse("both sides need the same element type; convert one of them");
  const std::vector<Dim> batch = result_batch(g, 2);
  a = expanded(g, a, batch);
  b = expanded(g, b, batch);
  return g.op("opbridge::solve_triangular", a.value, b.value, attr("upper", upper), attr("left", left),
              attr("unitriangular", unitriangular), attr("complex", a.complex));
}

bool is_upper(const std::string& uplo) { return uplo == "U" || uplo == "u"; }

void register_solvers(SymbolicRegistry& registry) {
  auto on = add(registry);

  on("aten::linalg_solve(Tensor A, Tensor B, *, bool left=True) -> Tensor", Since{9},
     [](GraphBuilder& g, Value a, Value b, bool left) { return solve(g, a, b, left, true)[0]; });
  on("aten::linalg_solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False) -> (Tensor "
     "result, Tensor info)",
     Since{9}, solve);
  on("aten::_linalg_solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False) -> (Tensor "
     "result, Tensor LU, Tensor pivots, Tensor info)",
     Since{9}, [](GraphBuilder& g, Value a, Value b, bool left, bool check_errors) {
       const auto [result, info] = solve(g, a, b, left, check_errors);
       // PyTorch's gradients reuse the factors.
       const auto [lu, pivots, unused] = factor_lu(g, matrices(g, a, "A"), true, false);
       return std::array{result, lu, pivots, info};
     });
  on("aten::linalg_inv_ex(Tensor A, *, bool check_errors=False) -> (Tensor inverse, Tensor info)", Since{1},
     [](GraphBuilder& g, Value a, bool check_errors) {
       const Inverse result = inverse(g, matrices(g, a, "A"), check_errors);
       return Values{result.inverse.value, result.info};
     });
  on("aten::linalg_inv(Tensor A) -> Tensor", Since{1},
     [](GraphBuilder& g, Value a) { return inverse(g, matrices(g, a, "A"), true).inverse.value; });
  on("aten::inverse(Tensor self) -> Tensor", Since{1},
     [](GraphBuilder& g, Value self) { return inverse(g, matrices(g, self, "self"), true).inverse.value; });

  on("aten::linalg_lu_solve(Tensor LU, Tensor pivots, Tensor B, *, bool left=True, bool adjoint=False) -> "
     "Tensor",
     Since{8}, [](GraphBuilder& g, Value lu, Value pivots, Value b, bool left, bool adjoint) {
       return lu_solve(g, matrices(g, lu, "LU"), pivots, matrices(g, b, "B"), left, adjoint);
     });
  on("aten::lu_solve(Tensor self, Tensor LU_data, Tensor LU_pivots) -> Tensor", Since{8},
     [](GraphBuilder& g, Value self, Value lu, Value pivots) {
       return lu_solve(g, matrices(g, lu, "LU_data"), pivots, matrices(g, self, "self"), true, false);
     });

  on("aten::linalg_solve_triangular(Tensor self, Tensor B, *, bool upper, bool left=True, bool "
     "unitriangular=False) -> Tensor",
     Since{8}, [](GraphBuilder& g, Value self, Value b, bool upper, bool left, bool unitriangular) {
       return solve_triangular(g, matrices(g, self, "self"), matrices(g, b, "B"), upper, left, unitriangular);
     });
  on("aten::triangular_solve(Tensor self, Tensor A, bool upper=True, bool transpose=False, bool "
     "unitriangular=False) -> (Tensor solution, Tensor cloned_coefficient)",
     Since{8},
     [](GraphBuilder& g, Value self, Value a_value, bool upper, bool transpose, bool unitriangular) {
       const Matrices a = expanded(g, matrices(g, a_value, "A"), result_batch(g, 2));
       Value x = solve_triangular(g, transpose ? transposed(g, a) : a, matrices(g, self, "self"),
                                  upper != transpose, true, unitriangular);
       return Values{x, a.value};
     });

  for (const auto& [line, name] :
       {std::pair{"aten::cholesky_solve(Tensor self, Tensor input2, bool upper=False) -> Tensor", "input2"},
        std::pair{"aten::_cholesky_solve_helper(Tensor self, Tensor A, bool upper) -> Tensor", "A"}}) {
    on(line, Since{8}, [name](GraphBuilder& g, Value self, Value factor, bool upper) {
      const std::vector<Dim> batch = result_batch(g, 2);
      const Matrices l = expanded(g, matrices(g, factor, name), batch);
      const Matrices b = expanded(g, matrices(g, self, "self"), batch);
      return g.op("opbridge::cholesky_solve", l.value, b.value, attr("upper", upper),
                  attr("complex", l.complex));
    });
  }
  on("aten::cholesky_inverse(Tensor self, bool upper=False) -> Tensor", Since{1},
     [](GraphBuilder& g, Value self, bool upper) {
       return kernel<1>(g, "cholesky_solve", matrices(g, self, "self"), attr("upper", upper))[0];
     });
  on("aten::linalg_ldl_solve(Tensor LD, Tensor pivots, Tensor B, *, bool hermitian=False) -> Tensor",
     Since{8}, [](GraphBuilder& g, Value ld_value, Value pivots, Value b_value, bool hermitian) {
       const std::vector<Dim> batch = result_batch(g, 2);
       const Matrices ld = expanded(g, matrices(g, ld_value, "LD"), batch);
       const Matrices b = expanded(g, matrices(g, b_value, "B"), batch);
       pivots = g.expand(pivots, shape(batch, {ld.rows()}, false));
       return g.op("opbridge::ldl_solve", ld.value, pivots, b.value, attr("hermitian", hermitian),
                   attr("complex", ld.complex));
     });
}

void register_factors(SymbolicRegistry& registry) {
  auto on = add(registry);

  on("aten::linalg_cholesky_ex(Tensor self, *, bool upper=False, bool check_errors=False) -> (Tensor L, "
     "Tensor info)",
     Since{1}, [](GraphBuilder& g, Value self, bool upper, bool check_errors) {
       return kernel<2>(g, "cholesky", matrices(g, self, "self"), attr("upper", upper),
                        attr("check_errors", check_errors));
     });
  on("aten::linalg_cholesky(Tensor self, *, bool upper=False) -> Tensor", Since{1},
     [](GraphBuilder& g, Value self, bool upper) {
       return kernel<2>(g, "cholesky", matrices(g, self, "self"), attr("upper", upper))[0];
     });
  // torch removed this and qr after 2.13.
  on("aten::cholesky(Tensor self, bool upper=False) -> Tensor", Since{1},
     [](GraphBuilder& g, Value self, bool upper) {
       return kernel<2>(g, "cholesky", matrices(g, self, "self"), attr("upper", upper))[0];
     });

  on("aten::linalg_lu_factor_ex(Tensor A, *, bool pivot=True, bool check_errors=False) -> (Tensor LU, Tensor "
     "pivots, Tensor info)",
     Since{1}, [](GraphBuilder& g, Value a, bool pivot, bool check_errors) {
       return factor_lu(g, matrices(g, a, "A"), pivot, check_errors);
     });
  on("aten::_lu_with_info(Tensor self, bool pivot=True, bool check_errors=True) -> (Tensor LU, Tensor "
     "pivots, Tensor info)",
     Since{1}, [](GraphBuilder& g, Value self, bool pivot, bool check_errors) {
       return factor_lu(g, matrices(g, self, "self"), pivot, check_errors);
     });
  on("aten::linalg_lu_factor(Tensor A, *, bool pivot=True) -> (Tensor LU, Tensor pivots)", Since{1},
     [](GraphBuilder& g, Value a, bool pivot) {
       auto [lu, pivots, info] = factor_lu(g, matrices(g, a, "A"), pivot, true);
       return std::array{lu, pivots};
     });
  on("aten::linalg_lu(Tensor A, *, bool pivot=True) -> (Tensor P, Tensor L, Tensor U)", Since{1},
     [](GraphBuilder& g, Value value, bool pivot) {
       const Matrices a = matrices(g, value, "A");
       auto [lu, pivots, info] = factor_lu(g, a, pivot, false);
       return unpack_lu(g, {lu, a.complex}, pivots);
     });
  on("aten::lu_unpack(Tensor LU_data, Tensor LU_pivots, bool unpack_data=True, bool unpack_pivots=True) -> "
     "(Tensor P, Tensor L, Tensor U)",
     Since{9}, [](GraphBuilder& g, Value lu, Value pivots, bool unpack_data, bool unpack_pivots) {
       const Matrices factors = matrices(g, lu, "LU_data");
       if ((!unpack_data || !unpack_pivots) && factors.complex) {
         g.refuse("unpacking parts of a complex factorization is not supported; unpack all of it");
       }
       if (!unpack_pivots) {  // PyTorch does not check them
         const std::vector<Dim> dims =
             shape(factors.batch(), {min(factors.rows(), factors.columns())}, false);
         pivots = filled(g, dims, 1, ElementType::int32);
       }
       auto result = unpack_lu(g, factors, pivots);
       if (!unpack_pivots) result[0] = empty(g, 0);
       if (!unpack_data) result[1] = empty(g, 1), result[2] = empty(g, 2);
       return result;
     });

  on("aten::linalg_ldl_factor_ex(Tensor self, *, bool hermitian=False, bool check_errors=False) -> (Tensor "
     "LD, Tensor pivots, Tensor info)",
     Since{1}, [](GraphBuilder& g, Value self, bool hermitian, bool check_errors) {
       return kernel<3>(g, "ldl_factor", matrices(g, self, "self"), attr("hermitian", hermitian),
                        attr("check_errors", check_errors));
     });
  on("aten::linalg_ldl_factor(Tensor self, *, bool hermitian=False) -> (Tensor LD, Tensor pivots)", Since{1},
     [](GraphBuilder& g, Value self, bool hermitian) {
       auto [ld, pivots, info] = kernel<3>(g, "ldl_factor", matrices(g, self, "self"),
                                           attr("hermitian", hermitian), attr("check_errors", true));
       return std::array{ld, pivots};
     });

  on("aten::linalg_qr(Tensor A, str mode=\"reduced\") -> (Tensor Q, Tensor R)", Since{1},
     [](GraphBuilder& g, Value a, std::string mode) { return factor_qr(g, matrices(g, a, "A"), mode); });
  on("aten::qr(Tensor self, bool some=True) -> (Tensor Q, Tensor R)", Since{1},
     [](GraphBuilder& g, Value a, bool some) {
       return factor_qr(g, matrices(g, a, "self"), some ? "reduced" : "complete");
     });
  on("aten::geqrf(Tensor self) -> (Tensor a, Tensor tau)", Since{1},
     [](GraphBuilder& g, Value self) { return kernel<2>(g, "geqrf", matrices(g, self, "self")); });
  on("aten::linalg_householder_product(Tensor input, Tensor tau) -> Tensor", Since{1},
     [](GraphBuilder& g, Value input, Value tau) {
       return g.op("opbridge::householder_product", input, tau,
                   attr("complex", matrices(g, input, "input").complex));
     });
  on("aten::orgqr(Tensor self, Tensor input2) -> Tensor", Since{1},
     [](GraphBuilder& g, Value self, Value tau) {
       return g.op("opbridge::householder_product", self, tau,
                   attr("complex", matrices(g, self, "self").complex));
     });
  on("aten::ormqr(Tensor self, Tensor input2, Tensor input3, bool left=True, bool transpose=False) -> Tensor",
     Since{1}, [](GraphBuilder& g, Value self, Value tau, Value other, bool left, bool transpose) {
       return g.op("opbridge::ormqr", self, tau, other, attr("left", left), attr("transpose", transpose),
                   attr("complex", matrices(g, self, "self").complex));
     });
}

std::array<Value, 3> parts_of(const Svd& svd) { return {svd.u.value, svd.values, svd.vh.value}; }

Value matrix_exp(GraphBuilder& g, Value self) {
  const ElementType type = self.element_type();
  if (is_floating_point(type)) self = g.cast(self, opmath_type(type));
  Value result = kernel<1>(g, "matrix_exp", matrices(g, self, "self"))[0];
  return is_floating_point(type) ? g.cast(result, type) : result;
}

void register_spectra(SymbolicRegistry& registry) {
  auto on = add(registry);

  on("aten::linalg_eigh(Tensor self, str UPLO=\"L\") -> (Tensor eigenvalues, Tensor eigenvectors)", Since{1},
     [](GraphBuilder& g, Value self, std::string uplo) {
       const Eigh result = eigh(g, matrices(g, self, "self"), is_upper(uplo));
       return std::array{result.values, result.vectors.value};
     });
  on("aten::_linalg_eigh(Tensor A, str UPLO=\"L\", bool compute_v=True) -> (Tensor eigenvalues, Tensor "
     "eigenvectors)",
     Since{1}, [](GraphBuilder& g, Value a, std::string uplo, bool vectors) {
       const Eigh result = eigh(g, matrices(g, a, "A"), is_upper(uplo));
       return std::array{result.values, vectors ? result.vectors.value : Value()};
     });
  on("aten::linalg_eigvalsh(Tensor self, str UPLO=\"L\") -> Tensor", Since{1},
     [](GraphBuilder& g, Value self, std::string uplo) {
       return eigh(g, matrices(g, self, "self"), is_upper(uplo)).values;
     });
  on("aten::linalg_eig(Tensor self) -> (Tensor eigenvalues, Tensor eigenvectors)", Since{1},
     [](GraphBuilder& g, Value self) { return kernel<2>(g, "eig", matrices(g, self, "self")); });
  for (const char* line :
       {"aten::linalg_eigvals(Tensor self) -> Tensor", "aten::_linalg_eigvals(Tensor self) -> Tensor"}) {
    on(line, Since{1}, [](GraphBuilder& g, Value self) {
      return kernel<2>(g, "eig", matrices(g, self, "self"), attr("vectors", false))[0];
    });
  }

  on("aten::linalg_svd(Tensor A, bool full_matrices=True, *, str? driver=None) -> (Tensor U, Tensor S, "
     "Tensor Vh)",
     Since{1}, [](GraphBuilder& g, Value a, bool full, Ignored) {
       return parts_of(svd(g, matrices(g, a, "A"), full));
     });
  on("aten::_linalg_svd(Tensor A, bool full_matrices=False, bool compute_uv=True, *, str? driver=None) -> "
     "(Tensor U, Tensor S, Tensor Vh)",
     Since{1}, [](GraphBuilder& g, Value a_value, bool full, bool vectors, Ignored) {
       const Matrices a = matrices(g, a_value, "A");
       return vectors ? parts_of(svd(g, a, full)) : std::array{Value(), singular_values(g, a), Value()};
     });
  on("aten::linalg_svdvals(Tensor A, *, str? driver=None) -> Tensor", Since{1},
     [](GraphBuilder& g, Value a, Ignored) { return singular_values(g, matrices(g, a, "A")); });
  on("aten::svd(Tensor self, bool some=True, bool compute_uv=True) -> (Tensor U, Tensor S, Tensor V)",
     Since{9}, [](GraphBuilder& g, Value self, bool some, bool compute_uv) {
       const Matrices a = matrices(g, self, "self");
       if (compute_uv) {
         const Svd result = svd(g, a, !some);
         return std::array{result.u.value, result.values, adjoint(g, result.vh).value};
       }
       if (a.complex)
         g.refuse("compute_uv=False is not supported for complex matrices; use torch.linalg.svdvals");
       return std::array{empty(g, 0), singular_values(g, a), empty(g, 2)};
     });

  for (const char* name : {"aten::matrix_exp", "aten::linalg_matrix_exp"})
    on(std::string(name) + "(Tensor self) -> Tensor", Since{1}, matrix_exp);
  // A block of the exponential of (A^T, G; 0, A^T).
  on("aten::matrix_exp_backward(Tensor self, Tensor grad) -> Tensor", Since{9},
     [](GraphBuilder& g, Value self, Value grad) {
       Value turned = transposed(g, matrices(g, self, "self")).value;
       const Dim size = self.dim(-1);
       Value zeros = filled(g, self.dims(), 0, self.element_type());
       Value blocks = g.concat({g.concat({turned, grad}, -1), g.concat({zeros, turned}, -1)}, -2);
       Value made = matrix_exp(g, blocks);
       made = g.slice(made, -2, g.ints({0}), g.sizes({size}));
       return g.typed(g.slice(made, -1, g.sizes({size}), g.ints({end_of_axis})), self.dims());
     });
}

}  // namespace

void register_factorization(SymbolicRegistry& registry) {
  register_solvers(registry);
  register_factors(registry);
  register_spectra(registry);
}

}  // namespace opbridge::lowering
