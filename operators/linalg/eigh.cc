#include <Eigen/Eigenvalues>

#include "matrices.h"

namespace opbridge::op {
namespace {

OPBRIDGE_OPERATOR(
    "opbridge::eigh(Tensor A, *, bool upper=False, bool complex=False) -> (Tensor eigenvalues, Tensor "
    "eigenvectors)")
    .shape([](const Shape& a, bool, bool complex) {
      const MatrixShape m = square_shape(a, complex, "A");
      return std::tuple{tensor_shape(m.batch, {m.rows}, false), a};
    })
    .cpu(floating_types, []<class T>(Context& context, TensorView<const T> a, bool upper, bool complex,
                                     TensorView<T> eigenvalues, TensorView<T> eigenvectors) {
      with_scalar(complex, [&]<class S>() {
        const auto from = matrices<S>(a);
        const auto values = vectors<double>(eigenvalues);
        const auto to = matrices<S>(eigenvectors);
        if (from.rows() == 0) return;
        for_each_matrix(context, from.size(), cube(from.rows()), [&](std::int64_t i) {
          Matrix<S> matrix = from[i];
          if (upper) matrix.adjointInPlace();
          matrix.template triangularView<Eigen::StrictlyUpper>().setZero();  // is not read
          require(matrix.allFinite(), "the matrix has NaN or infinities in it");
          const Eigen::SelfAdjointEigenSolver<Matrix<S>> solver(matrix);
          require(solver.info() == Eigen::Success, "the iteration for the eigenvalues does not converge");
          values.write(i, solver.eigenvalues());
          to.write(i, solver.eigenvectors());
        });
      });
    });

}  // namespace
}  // namespace opbridge::op
