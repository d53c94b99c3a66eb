// Bessel functions of order 0 and 1.
#include <cmath>
#include <limits>

#include "bessel_k.h"
#include "elementwise.h"

namespace opbridge::op {
namespace {

constexpr double kEpsilon = std::numeric_limits<double>::epsilon() / 2;
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kEuler = 0.57721566490153286061;
constexpr double kTwoPi = 6.28318530717958647693;

// PyTorch's functions of the first and second kind are NaN at infinity.
template <double (*function)(double)>
double finite(double x) {
  return std::isinf(x) ? kNan : function(x);
}

double spherical_j0(double x) {
  if (std::isinf(x)) return 0;
  return x == 0 ? 1 : std::sin(x) / x;
}

// I(x) for x >= 0, by the power series (DLMF 10.25.2), whose terms are all positive.
double bessel_i_series(int order, double x) {
  double term = order == 0 ? 1 : x / 2, sum = term;
  for (int k = 1; term > kEpsilon * sum; ++k) {
    term *= x * x / 4 / (k * (k + order));
    sum += term;
  }
  return sum;
}

// exp(-x) I(x) for x >= 20, by the asymptotic series (DLMF 10.40.1).
double scaled_bessel_i_asymptotic(int order, double x) {
  double term = 1, sum = 1;
  for (int k = 1; k < 40 && std::abs(term) > kEpsilon; ++k) {
    term *= -(4 * order * order - (2 * k - 1) * (2 * k - 1)) / (8 * k * x);
    sum += term;
  }
  return sum / std::sqrt(kTwoPi) / std::sqrt(x);
}

template <int order, bool scaled>
double bessel_i(double x) {
  const double size = std::abs(x);
  const bool is_large = size >= 20;
  double value = is_large ? scaled_bessel_i_asymptotic(order, size) : bessel_i_series(order, size);
  if (is_large != scaled) value *= std::exp(scaled ? -size : size);
  return order == 1 ? std::copysign(value, x) : value;
}

// K(x) for 0 < x <= 1 (DLMF 10.31.1 and 10.31.2, with psi(k + 1) as a harmonic number minus Euler's
// constant).
template <int order>
double bessel_k_series(double x) {
  const double log = std::log(x / 2);
  double term = order == 0 ? 1 : x / 2, harmonic = -kEuler, sum = 0;
  for (int k = 0; k == 0 || (k < 20 && term != 0); ++k) {
    const double psi =
        order == 0 ? harmonic : harmonic + 0.5 / (k + 1);  // the mean of psi(k + 1) and psi(k + 2)
    sum += (psi - log) * term;
    harmonic += 1.0 / (k + 1);
    term *= x * x / 4 / ((k + 1) * (k + 1 + order));
  }
  return order == 0 ? sum : 1 / x - sum;
}

template <int order, bool scaled>
double bessel_k(double x) {
  if (x == 0) return kInfinity;
  if (!(x > 0)) return kNan;
  if (x > 1) return scaled_bessel_k_integral(order, x) * (scaled ? 1 : std::exp(-x));
  return bessel_k_series<order>(x) * (scaled ? std::exp(x) : 1);
}

const Registration operators[] = {
    unary<"bessel_j0", finite<::j0>>(),
    unary<"bessel_j1", finite<::j1>>(),
    unary<"bessel_y0", finite<::y0>>(),
    unary<"bessel_y1", finite<::y1>>(),
    unary<"i0", bessel_i<0, false>>(),
    unary<"i0e", bessel_i<0, true>>(),
    unary<"i1", bessel_i<1, false>>(),
    unary<"i1e", bessel_i<1, true>>(),
    unary<"modified_bessel_k0", bessel_k<0, false>>(),
    unary<"modified_bessel_k1", bessel_k<1, false>>(),
    unary<"scaled_modified_bessel_k0", bessel_k<0, true>>(),
    unary<"scaled_modified_bessel_k1", bessel_k<1, true>>(),
    unary<"spherical_bessel_j0", spherical_j0>(),
};

}  // namespace
}  // namespace opbridge::op
