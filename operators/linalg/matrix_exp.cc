// Scaling and squaring (Higham, "The scaling and squaring method for the matrix exponential revisited",
// 2005).
#include <array>
#include <cmath>
#include <limits>

#include "lu.h"

namespace opbridge::op {
namespace {

// The coefficients of p in the Padé approximant p(x) / q(x) of degree 13, where q(x) = p(-x).
constexpr std::array<double, 14> kPade = {64764752532480000.,
                                          32382376266240000.,
                                          7771770303897600.,
                                          1187353796428800.,
                                          129060195264000.,
                                          10559470521600.,
                                          670442572800.,
                                          33522128640.,
                                          1323241920.,
                                          40840800.,
                                          960960.,
                                          16380.,
                                          182.,
                                          1.};
constexpr double kNormLimit = 5.371920351148152;  // the approximant is exact to rounding up to this norm

// The 1-norm in units of 2^64, because the norm itself may overflow.
template <class S>
double norm_in_units(const Matrix<S>& a) {
  return a.unaryExpr([](S x) { return std::abs(x * 0x1p-64); }).colwise().sum().maxCoeff();
}

template <class S>
Matrix<S> exponential(Matrix<S> a) {
  const Eigen::Index n = a.rows();
  if (n == 0) return a;
  if (!a.allFinite()) return Matrix<S>::Constant(n, n, std::numeric_limits<double>::quiet_NaN());
  const double norm = norm_in_units(a);
  int squarings = 0;
  if (norm > 0) squarings = std::max(0, 64 + static_cast<int>(std::ceil(std::log2(norm / kNormLimit))));
  a *= std::ldexp(1.0, -squarings);
  const Matrix<S> identity = Matrix<S>::Identity(n, n), a2 = a * a, a4 = a2 * a2, a6 = a4 * a2;
  const auto& c = kPade;
  const Matrix<S> high_odd = c[13] * a6 + c[11] * a4 + c[9] * a2;
  const Matrix<S> high_even = c[12] * a6 + c[10] * a4 + c[8] * a2;
  const Matrix<S> odd_factor = a6 * high_odd + c[7] * a6 + c[5] * a4 + c[3] * a2 + c[1] * identity;
  const Matrix<S> odd = a * odd_factor;
  const Matrix<S> even = a6 * high_even + c[6] * a6 + c[4] * a4 + c[2] * a2 + c[0] * identity;
  Matrix<S> result = even + odd;
  Lu<S>::of(even - odd).solve(result);
  for (int i = 0; i < squarings; ++i) result = (result * result).eval();
  return result;
}

OPBRIDGE_OPERATOR("opbridge::matrix_exp(Tensor A, *, bool complex=False) -> Tensor")
    .shape([](const Shape& a, bool complex) {
      square_shape(a, complex, "A");
      return a;
    })
    .cpu(floating_types,
         []<class T>(Context& context, TensorView<const T> a, bool complex, TensorView<T> out) {
           with_scalar(complex, [&]<class S>() {
             const auto from = matrices<S>(a);
             const auto to = matrices<S>(out);
             for_each_matrix(context, from.size(), 10 * cube(from.rows()),
                             [&](std::int64_t i) { to.write(i, exponential<S>(from[i])); });
           });
         });

}  // namespace
}  // namespace opbridge::op
