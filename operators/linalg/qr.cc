// A = Q R by Householder reflections, with the signs of LAPACK's geqrf and orgqr. The modes are those of
// torch.linalg.qr.
#include "householder.h"

namespace opbridge::op {
namespace {

OPBRIDGE_OPERATOR(
    "opbridge::qr(Tensor A, *, str mode=\"reduced\", bool complex=False) -> (Tensor Q, Tensor R)")
    .shape([](const Shape& a, std::string_view mode, bool complex) {
      require(mode == "reduced" || mode == "complete" || mode == "r",
              "mode must be reduced, complete or r, not " + std::string(mode));
      const MatrixShape m = matrix_shape(a, complex, "A");
      const Dim inner = mode == "complete" ? m.rows : min(m.rows, m.columns);
      const Shape q =
          mode == "r" ? tensor_shape({}, {0}, complex) : tensor_shape(m.batch, {m.rows, inner}, complex);
      return std::tuple{q, tensor_shape(m.batch, {inner, m.columns}, complex)};
    })
    .cpu(floating_types, []<class T>(Context& context, TensorView<const T> a, std::string_view mode,
                                     bool complex, TensorView<T> q, TensorView<T> r) {
      with_scalar(complex, [&]<class S>() {
        const auto from = matrices<S>(a);
        const auto to_r = matrices<S>(r);
        for_each_matrix(context, from.size(), cube(from.rows()), [&](std::int64_t i) {
          const Reflections<S> factors = Reflections<S>::of(from[i]);
          Matrix<S> upper = Matrix<S>::Zero(to_r.rows(), to_r.columns());
          const Eigen::Index count = std::min(upper.rows(), from.rows());
          upper.topRows(count) = factors.factors.topRows(count);
          upper.template triangularView<Eigen::StrictlyLower>().setZero();
          to_r.write(i, upper);
          if (mode == "r") return;
          const auto to_q = matrices<S>(q);
          to_q.write(i, factors.first_columns(to_q.columns()));
        });
      });
    });

}  // namespace
}  // namespace opbridge::op
