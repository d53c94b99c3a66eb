// Solves A X = B by LU factorization, as LAPACK's gesv does; without B, computes the inverse. A zero pivot is
// an error unless check_errors is false; info contains its index.
#include "lu.h"

namespace opbridge::op {
namespace {

OPBRIDGE_OPERATOR(
    "opbridge::solve(Tensor A, Tensor? B=None, *, bool left=True, bool check_errors=True, bool "
    "complex=False) -> "
    "(Tensor X, Tensor info)")
    .shape([](const Shape& a, const std::optional<Shape>& b, bool left, bool, bool complex) {
      const MatrixShape m = square_shape(a, complex, "A");
      return std::tuple{b ? solution_shape(*b, m, left, complex, "A") : a, m.batch};
    })
    .cpu(floating_types,
         []<class T>(Context& context, TensorView<const T> a, std::optional<TensorView<const T>> b, bool left,
                     bool check_errors, bool complex, TensorView<T> x, TensorView<std::int32_t> info) {
           with_scalar(complex, [&]<class S>() {
             const auto from = matrices<S>(a), right = matrices<S>(b.value_or(a));
             const auto to = matrices<S>(x);
             for_each_matrix(context, from.size(), cube(from.rows()), [&](std::int64_t i) {
               const Lu<S> lu = Lu<S>::of(from[i]);
               info[i] = lu.zero;
               if (check_errors && lu.zero > 0) {
                 matrix_fails(i, from.size(), lu.zero, "zero pivot is in column",
                              "is singular and has no inverse");
               }
               Matrix<S> solution = b ? right[i] : Matrix<S>::Identity(from.rows(), from.rows());
               // X A = B is equivalent to A^H X^H = B^H.
               if (!left) solution.adjointInPlace();
               lu.solve(solution, !left);
               if (!left) solution.adjointInPlace();
               to.write(i, solution);
             });
           });
         });

}  // namespace
}  // namespace opbridge::op
