// The modified Bessel function of the second kind.
#pragma once

#include <algorithm>
#include <cmath>

namespace opbridge::op {

// exp(x) K(x) of any order, for x > 0.5, by the trapezoidal rule on the integral over t of
// exp(x - x cosh t) cosh(order t) from 0 on (DLMF 10.32.9). The rule converges geometrically (Trefethen and
// Weideman 2014, SIAM Review 56, 385); with these steps it is exact to rounding.
inline double scaled_bessel_k_integral(double order, double x) {
  if (std::isinf(x)) return 0;
  const double step = std::min(0.2, 0.6 / std::sqrt(x)), scale = std::sqrt(2 * x);
  double sum = 0.5;
  for (int i = 1;; ++i) {
    const double t = i * step, root = scale * std::sinh(t / 2);
    const double exponent = root * root;  // x cosh t - x
    if (!(exponent < 45)) return step * sum;
    sum += std::exp(-exponent) * std::cosh(order * t);
  }
}

}  // namespace opbridge::op
