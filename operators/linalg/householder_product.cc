// The product of geqrf's reflections, as by LAPACK's orgqr, and its product with a matrix, as by ormqr. The
// arguments are those of torch.linalg.householder_product and torch.ormqr.
#include "householder.h"

namespace opbridge::op {
namespace {

// Requires reflections in the columns of `a` and their factors in `tau`.
void require_reflections(const MatrixShape& a, const Shape& tau, bool complex) {
  const Shape numbers = without_pairs(tau, complex, 1, "tau");
  require(numbers.size() == a.batch.size() + 1, "tau must have one dim less than a");
  for (std::size_t i = 0; i < a.batch.size(); ++i)
    require(numbers[i] == a.batch[i], "tau and a must have the same batch");
  require(numbers.back() <= a.columns, "tau must not be longer than the number of columns of a");
  require(numbers.back() <= a.rows, "tau must not be longer than the number of rows of a");
}

template <class S, class T>
Reflections<S> read(const Batch<S, T>& a, const Batch<S, T>& tau, std::int64_t i) {
  return {a[i].leftCols(tau.rows()), tau[i].col(0)};
}

OPBRIDGE_OPERATOR("opbridge::householder_product(Tensor a, Tensor tau, *, bool complex=False) -> Tensor")
    .shape([](const Shape& a, const Shape& tau, bool complex) {
      const MatrixShape m = matrix_shape(a, complex, "a");
      require(m.columns <= m.rows, "a must not have more columns than rows");
      require_reflections(m, tau, complex);
      return a;
    })
    .cpu(floating_types, []<class T>(Context& context, TensorView<const T> a, TensorView<const T> tau,
                                     bool complex, TensorView<T> q) {
      with_scalar(complex, [&]<class S>() {
        const auto from = matrices<S>(a);
        const auto factors = vectors<S>(tau);
        const auto to = matrices<S>(q);
        for_each_matrix(context, from.size(), cube(from.columns()), [&](std::int64_t i) {
          to.write(i, read(from, factors, i).first_columns(from.columns()));
        });
      });
    });

OPBRIDGE_OPERATOR(
    "opbridge::ormqr(Tensor a, Tensor tau, Tensor C, *, bool left=True, bool transpose=False, bool "
    "complex=False) "
    "-> Tensor")
    .shape([](const Shape& a, const Shape& tau, const Shape& c, bool left, bool, bool complex) {
      const MatrixShape m = matrix_shape(a, complex, "a"), other = matrix_shape(c, complex, "C");
      require_reflections(m, tau, complex);
      require_same_shape(other.batch, m.batch, "the batches of C and a");
      require((left ? other.rows : other.columns) == m.rows,
              "C must have as many rows as a, or columns if left is false");
      return c;
    })
    .cpu(floating_types,
         []<class T>(Context& context, TensorView<const T> a, TensorView<const T> tau, TensorView<const T> c,
                     bool left, bool transpose, bool complex, TensorView<T> out) {
           with_scalar(complex, [&]<class S>() {
             const auto from = matrices<S>(a), others = matrices<S>(c);
             const auto factors = vectors<S>(tau);
             const auto to = matrices<S>(out);
             for_each_matrix(context, from.size(), cube(from.rows()), [&](std::int64_t i) {
               Matrix<S> other = others[i];
               // C Q is the adjoint of Q^H C^H.
               if (!left) other.adjointInPlace();
               read(from, factors, i).apply(other, transpose == left);
               if (!left) other.adjointInPlace();
               to.write(i, other);
             });
           });
         });

}  // namespace
}  // namespace opbridge::op
