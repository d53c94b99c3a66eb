// Solves A X = B from the factors of A, as LAPACK's getrs does. Invalid pivots are errors; a zero in U is
// not, and gives infinities or NaN.
#include "lu.h"

namespace opbridge::op {
namespace {

OPBRIDGE_OPERATOR(
    "opbridge::lu_solve(Tensor LU, Tensor pivots, Tensor B, *, bool left=True, bool adjoint=False, bool "
    "complex=False) -> Tensor")
    .shape([](const Shape& factors, const Shape& pivots, const Shape& b, bool left, bool, bool complex) {
      const MatrixShape m = square_shape(factors, complex, "LU");
      require_same_shape(pivots, tensor_shape(m.batch, {m.rows}, false), "pivots and the columns of LU");
      return solution_shape(b, m, left, complex, "LU");
    })
    .cpu(floating_types,
         []<class T>(Context& context, TensorView<const T> factors, TensorView<const std::int32_t> pivots,
                     TensorView<const T> b, bool left, bool adjoint, bool complex, TensorView<T> x) {
           with_scalar(complex, [&]<class S>() {
             const auto all = matrices<S>(factors), right = matrices<S>(b);
             const auto to = matrices<S>(x);
             const std::int64_t n = all.rows();
             for_each_matrix(context, all.size(), cube(n), [&](std::int64_t i) {
               const Lu<S> lu{all[i], read_pivots(pivots, i, n, n), 0};
               Matrix<S> solution = right[i];
               // X A = B is equivalent to A^H X^H = B^H.
               if (!left) solution.adjointInPlace();
               lu.solve(solution, adjoint == left);
               if (!left) solution.adjointInPlace();
               to.write(i, solution);
             });
           });
         });

}  // namespace
}  // namespace opbridge::op
