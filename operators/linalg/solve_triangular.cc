// Solves A X = B or X A = B with triangular A, as the BLAS' trsm does. A zero on the diagonal is not an error
// and gives infinities or NaN.
#include "matrices.h"

namespace opbridge::op {
namespace {

template <class S, unsigned mode>
void solve(const Matrix<S>& a, Matrix<S>& b, bool left) {
  const auto triangle = a.template triangularView<mode>();
  if (left) {
    solve_triangle(triangle, b);
  } else {
    // X A = B is equivalent to A^T X^T = B^T.
    b.transposeInPlace();
    solve_triangle(triangle.transpose(), b);
    b.transposeInPlace();
  }
}

OPBRIDGE_OPERATOR(
    "opbridge::solve_triangular(Tensor A, Tensor B, *, bool upper, bool left=True, bool unitriangular=False, "
    "bool "
    "complex=False) -> Tensor")
    .shape([](const Shape& a, const Shape& b, bool, bool left, bool, bool complex) {
      return solution_shape(b, square_shape(a, complex, "A"), left, complex, "A");
    })
    .cpu(floating_types, []<class T>(Context& context, TensorView<const T> a, TensorView<const T> b,
                                     bool upper, bool left, bool unitriangular, bool complex,
                                     TensorView<T> x) {
      with_scalar(complex, [&]<class S>() {
        const auto all = matrices<S>(a), right = matrices<S>(b);
        const auto to = matrices<S>(x);
        const auto solver = upper ? (unitriangular ? solve<S, Eigen::UnitUpper> : solve<S, Eigen::Upper>)
                                  : (unitriangular ? solve<S, Eigen::UnitLower> : solve<S, Eigen::Lower>);
        for_each_matrix(context, all.size(), all.rows() * all.rows() * right.columns(), [&](std::int64_t i) {
          Matrix<S> solution = right[i];
          solver(all[i], solution, left);
          to.write(i, solution);
        });
      });
    });

}  // namespace
}  // namespace opbridge::op
