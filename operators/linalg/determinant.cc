// Determinants by LU factorization, and the sign and logarithm of torch.linalg.slogdet. Singular matrices are
// allowed.
#include <cmath>

#include "lu.h"

namespace opbridge::op {
namespace {

// torch.sgn, infinities included; 0 for a real NaN.
double sign_of(double x) { return x > 0 ? 1 : x < 0 ? -1 : 0; }
std::complex<double> sign_of(std::complex<double> x) { return x == 0.0 ? x : x / std::abs(x); }

// x, x / |x|, and log |x|, which does not overflow even if x does.
template <class S>
struct Determinant {
  S value = S(1), sign = S(1);
  double log = 0;

  void times(S factor) {
    value *= factor;
    sign *= sign_of(factor);
    log += std::log(std::abs(factor));
  }
};

OPBRIDGE_OPERATOR(
    "opbridge::determinant(Tensor A, *, bool complex=False) -> (Tensor det, Tensor sign, Tensor logabsdet)")
    .shape([](const Shape& a, bool complex) {
      const Shape batch = square_shape(a, complex, "A").batch, numbers = tensor_shape(batch, {}, complex);
      return std::tuple{numbers, numbers, batch};
    })
    .cpu(floating_types, []<class T>(Context& context, TensorView<const T> a, bool complex, TensorView<T> det,
                                     TensorView<T> sign, TensorView<T> logabsdet) {
      with_scalar(complex, [&]<class S>() {
        const auto from = matrices<S>(a);
        for_each_matrix(context, from.size(), cube(from.rows()), [&](std::int64_t i) {
          const Lu<S> lu = Lu<S>::of(from[i]);
          Determinant<S> result;
          if (lu.is_odd()) result.value = result.sign = S(-1);
          for (Eigen::Index k = 0; k < lu.factors.rows(); ++k) result.times(lu.factors(k, k));
          logabsdet[i] = static_cast<T>(result.log);
          const auto store = [&](TensorView<T> to, S number) {
            if constexpr (Eigen::NumTraits<S>::IsComplex) {
              to[2 * i] = static_cast<T>(number.real());
              to[2 * i + 1] = static_cast<T>(number.imag());
            } else {
              to[i] = static_cast<T>(number);
            }
          };
          store(det, result.value);
          store(sign, result.sign);
        });
      });
    });

}  // namespace
}  // namespace opbridge::op
