// Eigenvalues and eigenvectors of any square matrix, as by LAPACK's geev. NaN, infinities and failure to
// converge are errors.
#include "eigensystem.h"

namespace opbridge::op {
namespace {

OPBRIDGE_OPERATOR(
    "opbridge::eig(Tensor A, *, bool vectors=True, bool complex=False) -> (Tensor eigenvalues, Tensor "
    "eigenvectors)")
    .shape([](const Shape& a, bool vectors, bool complex) {
      const MatrixShape m = square_shape(a, complex, "A");
      return std::tuple{tensor_shape(m.batch, {m.rows}, true), vectors ? tensor_shape(m, true) : Shape{0}};
    })
    .cpu(floating_types, []<class T>(Context& context, TensorView<const T> a, bool vectors, bool complex,
                                     TensorView<T> eigenvalues, TensorView<T> eigenvectors) {
      with_element<T>(complex, [&]<class S>() {
        using C = std::complex<T>;
        const auto from = matrices<S>(a);
        const auto values = op::vectors<C>(eigenvalues);
        for_each_matrix(context, from.size(), 10 * cube(from.rows()), [&](std::int64_t i) {
          const Matrix<S> matrix = from[i];
          require(matrix.allFinite(), "the matrix contains NaN or infinities");
          const Eigensystem<T> result = eigensystem<S>(matrix, vectors);
          values.write(i, result.values);
          if (vectors) matrices<C>(eigenvectors).write(i, result.vectors);
        });
      });
    });

}  // namespace
}  // namespace opbridge::op
