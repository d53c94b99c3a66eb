// P A = L U with partial pivoting, in the format of LAPACK's getrf. A zero pivot is an error only with
// check_errors; info contains its index.
#include "lu.h"

namespace opbridge::op {
namespace {

OPBRIDGE_OPERATOR(
    "opbridge::lu_factor(Tensor A, *, bool check_errors=False, bool complex=False) -> (Tensor LU, Tensor "
    "pivots, "
    "Tensor info)")
    .shape([](const Shape& a, bool, bool complex) {
      const MatrixShape m = matrix_shape(a, complex, "A");
      return std::tuple{a, tensor_shape(m.batch, {min(m.rows, m.columns)}, false), m.batch};
    })
    .cpu(floating_types, []<class T>(Context& context, TensorView<const T> a, bool check_errors, bool complex,
                                     TensorView<T> factors, TensorView<std::int32_t> pivots,
                                     TensorView<std::int32_t> info) {
      with_scalar(complex, [&]<class S>() {
        const auto from = matrices<S>(a);
        const auto to = matrices<S>(factors);
        const std::int64_t count = std::min(from.rows(), from.columns());
        for_each_matrix(context, from.size(), cube(count), [&](std::int64_t i) {
          const Lu<S> lu = Lu<S>::of(from[i]);
          if (check_errors && lu.zero > 0)
            matrix_fails(i, from.size(), lu.zero, "zero pivot is in column", "is singular");
          to.write(i, lu.factors);
          for (std::int64_t k = 0; k < count; ++k)
            pivots[i * count + k] = static_cast<std::int32_t>(lu.pivots[static_cast<std::size_t>(k)] + 1);
          info[i] = lu.zero;
        });
      });
    });

}  // namespace
}  // namespace opbridge::op
