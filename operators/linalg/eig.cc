#include <Eigen/Eigenvalues>

#include "matrices.h"

namespace opbridge::op {
namespace {

using Complex = std::complex<double>;

// Length one, and the largest component real, as LAPACK's geev leaves them.
void normalize(Matrix<Complex>& vectors) {
  for (auto v : vectors.colwise()) {
    v /= v.norm();
    Eigen::Index largest;
    v.cwiseAbs2().maxCoeff(&largest);
    const Complex phase = v(largest) / std::abs(v(largest));
    if (phase.imag() == 0) continue;
    v *= std::conj(phase);
    v(largest) = v(largest).real();
  }
}

template <class S>
using Solver = std::conditional_t<Eigen::NumTraits<S>::IsComplex, Eigen::ComplexEigenSolver<Matrix<S>>,
                                  Eigen::EigenSolver<Matrix<S>>>;

OPBRIDGE_OPERATOR(
    "opbridge::eig(Tensor A, *, bool vectors=True, bool complex=False) -> (Tensor eigenvalues, Tensor "
    "eigenvectors)")
    .shape([](const Shape& a, bool vectors, bool complex) {
      const MatrixShape m = square_shape(a, complex, "A");
      return std::tuple{tensor_shape(m.batch, {m.rows}, true), vectors ? tensor_shape(m, true) : Shape{0}};
    })
    .cpu(floating_types, []<class T>(Context& context, TensorView<const T> a, bool vectors, bool complex,
                                     TensorView<T> eigenvalues, TensorView<T> eigenvectors) {
      with_scalar(complex, [&]<class S>() {
        const auto from = matrices<S>(a);
        const auto values = op::vectors<Complex>(eigenvalues);
        if (from.rows() == 0) return;
        for_each_matrix(context, from.size(), cube(from.rows()), [&](std::int64_t i) {
          const Matrix<S> matrix = from[i];
          require(matrix.allFinite(), "the matrix has NaN or infinities in it");
          const Solver<S> solver(matrix, vectors);
          require(solver.info() == Eigen::Success, "the iteration for the eigenvalues does not converge");
          values.write(i, solver.eigenvalues());
          if (!vectors) return;
          Matrix<Complex> found = solver.eigenvectors();
          normalize(found);
          matrices<Complex>(eigenvectors).write(i, found);
        });
      });
    });

}  // namespace
}  // namespace opbridge::op
