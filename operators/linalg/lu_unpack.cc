// P, L and U from the format of LAPACK's getrf. Invalid pivots are errors.
#include "lu.h"

namespace opbridge::op {
namespace {

OPBRIDGE_OPERATOR(
    "opbridge::lu_unpack(Tensor LU, Tensor pivots, *, bool complex=False) -> (Tensor P, Tensor L, Tensor U)")
    .shape([](const Shape& factors, const Shape& pivots, bool complex) {
      const MatrixShape m = matrix_shape(factors, complex, "LU");
      const Dim count = min(m.rows, m.columns);
      require_same_shape(pivots, tensor_shape(m.batch, {count}, false), "pivots and the diagonal of LU");
      return std::tuple{tensor_shape(m.batch, {m.rows, m.rows}, complex),
                        tensor_shape(m.batch, {m.rows, count}, complex),
                        tensor_shape(m.batch, {count, m.columns}, complex)};
    })
    .cpu(floating_types,
         []<class T>(Context& context, TensorView<const T> factors, TensorView<const std::int32_t> pivots,
                     bool complex, TensorView<T> p, TensorView<T> l, TensorView<T> u) {
           with_scalar(complex, [&]<class S>() {
             const auto from = matrices<S>(factors);
             const auto permutations = matrices<S>(p), lowers = matrices<S>(l), uppers = matrices<S>(u);
             const std::int64_t rows = from.rows(), count = std::min(rows, from.columns());
             for_each_matrix(context, from.size(), rows * from.columns(), [&](std::int64_t i) {
               const Matrix<S> lu = from[i];
               Matrix<S> lower = lu.leftCols(count);
               lower.template triangularView<Eigen::Upper>().setZero();
               lower.diagonal().setOnes();
               lowers.write(i, lower);
               uppers.write(i, Matrix<S>(lu.topRows(count).template triangularView<Eigen::Upper>()));
               // A = P L U; applying the swaps to the identity gives P^T.
               Matrix<S> permutation = Matrix<S>::Identity(rows, rows);
               swap_rows(permutation, read_pivots(pivots, i, count, rows));
               permutations.write(i, permutation.transpose());
             });
           });
         });

}  // namespace
}  // namespace opbridge::op
