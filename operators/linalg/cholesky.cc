// A = L L^H of Hermitian positive definite matrices, as in LAPACK's potrf.
#include <cmath>

#include "matrices.h"

namespace opbridge::op {
namespace {

// Replaces `a` by its factor; reads only the lower triangle. Returns the order of the first leading minor
// that is not positive, where factoring stops, or 0. Eigen's own factorization divides complex vectors, which
// squares the divisor.
template <class S>
std::int32_t factor(Matrix<S>& a) {
  constexpr Eigen::Index kPanel = 32;
  for (Eigen::Index start = 0; start < a.rows(); start += kPanel) {
    const Eigen::Index end = std::min(start + kPanel, a.rows()), rest = a.rows() - end;
    for (Eigen::Index k = start; k < end; ++k) {
      const auto before = a.row(k).segment(start, k - start);
      const double pivot = std::real(a(k, k)) - before.squaredNorm();
      a(k, k) = pivot;
      if (!(pivot > 0)) return static_cast<std::int32_t>(k + 1);
      const double root = std::sqrt(pivot);
      a(k, k) = root;
      auto below = a.col(k).segment(k + 1, end - k - 1);
      below.noalias() -= a.block(k + 1, start, end - k - 1, k - start) * before.adjoint();
      below *= 1 / root;
    }
    const auto block = a.block(start, start, end - start, end - start);
    auto below = a.block(end, start, rest, end - start);
    block.adjoint().template triangularView<Eigen::Upper>().template solveInPlace<Eigen::OnTheRight>(below);
    a.bottomRightCorner(rest, rest).template selfadjointView<Eigen::Lower>().rankUpdate(below, S(-1));
  }
  return 0;
}

OPBRIDGE_OPERATOR(
    "opbridge::cholesky(Tensor A, *, bool upper=False, bool check_errors=True, bool complex=False) -> "
    "(Tensor L, "
    "Tensor info)")
    .shape([](const Shape& a, bool, bool, bool complex) {
      const MatrixShape m = square_shape(a, complex, "A");
      return std::tuple{a, m.batch};
    })
    .cpu(floating_types, []<class T>(Context& context, TensorView<const T> a, bool upper, bool check_errors,
                                     bool complex, TensorView<T> l, TensorView<std::int32_t> info) {
      with_scalar(complex, [&]<class S>() {
        const auto from = matrices<S>(a);
        const auto to = matrices<S>(l);
        for_each_matrix(context, from.size(), cube(from.rows()), [&](std::int64_t i) {
          Matrix<S> lower = from[i];
          if (upper) lower.adjointInPlace();
          info[i] = factor(lower);
          if (check_errors && info[i] > 0) {
            matrix_fails(i, from.size(), info[i], "leading minor of order",
                         "is not positive definite and has no Cholesky factor");
          }
          lower.template triangularView<Eigen::StrictlyUpper>().setZero();
          if (upper) lower.adjointInPlace();
          to.write(i, lower);
        });
      });
    });

OPBRIDGE_OPERATOR(
    "opbridge::cholesky_solve(Tensor L, Tensor? B=None, *, bool upper=False, bool complex=False) -> Tensor")
    .shape([](const Shape& l, const std::optional<Shape>& b, bool, bool complex) {
      const MatrixShape m = square_shape(l, complex, "L");
      if (!b) return l;
      const MatrixShape right = matrix_shape(*b, complex, "B");
      require_same_shape(right.batch, m.batch, "the batches of B and L");
      require(right.rows == m.rows, "B must have as many rows as L");
      return *b;
    })
    .cpu(floating_types,
         []<class T>(Context& context, TensorView<const T> l, std::optional<TensorView<const T>> b,
                     bool upper, bool complex, TensorView<T> x) {
           with_scalar(complex, [&]<class S>() {
             const auto factors = matrices<S>(l), right = matrices<S>(b.value_or(l));
             const auto to = matrices<S>(x);
             const std::int64_t n = factors.rows();
             for_each_matrix(context, factors.size(), cube(n), [&](std::int64_t i) {
               Matrix<S> lower = factors[i];
               if (upper) lower.adjointInPlace();
               Matrix<S> solution = b ? right[i] : Matrix<S>::Identity(n, n);
               lower.template triangularView<Eigen::Lower>().solveInPlace(solution);
               lower.adjoint().template triangularView<Eigen::Upper>().solveInPlace(solution);
               to.write(i, solution);
             });
           });
         });

}  // namespace
}  // namespace opbridge::op
