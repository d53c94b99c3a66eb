// The modified Bessel function of the second kind.
#pragma once

#include <algorithm>
#include <cmath>
#include <utility>

namespace opbridge::op {

// exp(x) K(x) of any order, for x > 0.5. Integrates exp(x - x cosh t) cosh(order t) over t >= 0 (DLMF
// 10.32.9) by the trapezoidal rule, which converges geometrically (Trefethen and Weideman 2014, SIAM Review
// 56, 385). With these steps it is exact to rounding. Each step computes the hyperbolic functions from their
// two previous values.
inline double scaled_bessel_k_integral(double order, double x) {
  if (std::isinf(x)) return 0;
  const double step = std::min(0.2, 0.6 / std::sqrt(x)), scale = std::sqrt(2 * x);
  const double sinh_factor = 2 * std::cosh(step / 2), cosh_factor = 2 * std::cosh(order * step);
  double last_root = 0, root = scale * std::sinh(step / 2);  // its square is x cosh t - x
  double last_cosh = 1, cosh = cosh_factor / 2;              // cosh(order t)
  double sum = 0.5;
  while (root * root < 45) {
    sum += std::exp(-root * root) * cosh;
    last_root = std::exchange(root, sinh_factor * root - last_root);
    last_cosh = std::exchange(cosh, cosh_factor * cosh - last_cosh);
  }
  return step * sum;
}

}  // namespace opbridge::op
