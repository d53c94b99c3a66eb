// R and the reflections of A = Q R, in the format of LAPACK's geqrf. The arguments are those of torch.geqrf.
#include "householder.h"

namespace opbridge::op {
namespace {

OPBRIDGE_OPERATOR("opbridge::geqrf(Tensor A, *, bool complex=False) -> (Tensor a, Tensor tau)")
    .shape([](const Shape& a, bool complex) {
      const MatrixShape m = matrix_shape(a, complex, "A");
      return std::tuple{a, tensor_shape(m.batch, {min(m.rows, m.columns)}, complex)};
    })
    .cpu(floating_types, []<class T>(Context& context, TensorView<const T> a, bool complex,
                                     TensorView<T> factors, TensorView<T> tau) {
      with_scalar(complex, [&]<class S>() {
        const auto from = matrices<S>(a);
        const auto to = matrices<S>(factors);
        const auto to_tau = vectors<S>(tau);
        for_each_matrix(context, from.size(), cube(from.rows()), [&](std::int64_t i) {
          const Reflections<S> result = Reflections<S>::of(from[i]);
          to.write(i, result.factors);
          to_tau.write(i, result.tau);
        });
      });
    });

}  // namespace
}  // namespace opbridge::op
