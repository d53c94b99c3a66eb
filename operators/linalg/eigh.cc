// Eigenvalues and eigenvectors of Hermitian matrices, by the steps of LAPACK's heevd for small matrices, so
// that the scaling of the vectors is PyTorch's.
#include "tridiagonal.h"
#include "tridiagonal_iteration.h"

namespace opbridge::op {
namespace {

template <class S>
struct HermitianEigensystem {
  Vector<RealOf<S>> values;
  Matrix<S> vectors;
};

template <class S>
HermitianEigensystem<S> hermitian_eigensystem(Matrix<S> a, bool upper) {
  using R = RealOf<S>;
  const Eigen::Index n = a.rows();
  if (n == 0) return {Vector<R>(0), a};
  // Between `low` and its inverse, squares neither overflow nor underflow.
  const R low = std::sqrt(std::numeric_limits<R>::min() / std::numeric_limits<R>::epsilon());
  const R greatest = greatest_size(a);
  const R unit = greatest > 0 && greatest < low ? low / greatest
                 : greatest > 1 / low           ? (1 / low) / greatest
                                                : 1;
  if (unit != 1) a *= unit;

  Tridiagonal<S> t = make_tridiagonal<S>(std::move(a), upper);
  Matrix<R> inner = Matrix<R>::Identity(n, n);
  TridiagonalIteration<R> iteration(t.diagonal, t.off_diagonal, inner);
  require(iteration.run(), "the iteration for the eigenvalues does not converge");
  HermitianEigensystem<S> result{t.diagonal / unit, inner.template cast<S>()};
  t.apply(result.vectors);
  return result;
}

OPBRIDGE_OPERATOR(
    "opbridge::eigh(Tensor A, *, bool upper=False, bool complex=False) -> (Tensor eigenvalues, Tensor "
    "eigenvectors)")
    .shape([](const Shape& a, bool, bool complex) {
      const MatrixShape m = square_shape(a, complex, "A");
      return std::tuple{tensor_shape(m.batch, {m.rows}, false), a};
    })
    .cpu(floating_types, []<class T>(Context& context, TensorView<const T> a, bool upper, bool complex,
                                     TensorView<T> eigenvalues, TensorView<T> eigenvectors) {
      with_element<T>(complex, [&]<class S>() {
        const auto from = matrices<S>(a);
        const auto values = vectors<T>(eigenvalues);
        const auto to = matrices<S>(eigenvectors);
        for_each_matrix(context, from.size(), 10 * cube(from.rows()), [&](std::int64_t i) {
          Matrix<S> matrix = from[i];
          // The other triangle is not read.
          if (upper) {
            matrix.template triangularView<Eigen::StrictlyLower>().setZero();
          } else {
            matrix.template triangularView<Eigen::StrictlyUpper>().setZero();
          }
          require(matrix.allFinite(), "the matrix contains NaN or infinities");
          const HermitianEigensystem<S> result = hermitian_eigensystem<S>(std::move(matrix), upper);
          values.write(i, result.values);
          to.write(i, result.vectors);
        });
      });
    });

}  // namespace
}  // namespace opbridge::op
