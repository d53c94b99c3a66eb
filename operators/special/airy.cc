// Airy's function Ai.
#include <cmath>
#include <limits>

#include "bessel_k.h"
#include "elementwise.h"

namespace opbridge::op {
namespace {

constexpr double kPi = 3.14159265358979323846;

// The power series (DLMF 9.4.1). For negative x its terms cancel; long double tolerates that down to -8.
double airy_series(long double x) {
  constexpr long double kValue = 0.355028053887817239260L, kSlope = 0.258819403792806798405L;
  const long double cube = x * x * x;
  long double even = kValue, odd = kSlope * x, sum = even - odd;
  for (int k = 3; k < 150; k += 3) {
    even *= cube / (k * (k - 1));
    odd *= cube / (k * (k + 1));
    sum += even - odd;
  }
  return static_cast<double>(sum);
}

// The asymptotic series for x < -8 (DLMF 9.7.9). The phase is rounded as in PyTorch; from about -1e9 on, this
// rounding determines the value.
double airy_asymptotic(double x) {
  const double z = -2 * x * std::sqrt(-x) / 3;
  double sums[2] = {}, term = 1;
  for (int k = 0; k < 24; ++k) {
    sums[k % 2] += k % 4 < 2 ? term : -term;
    term *= (6 * k + 1) * (6 * k + 3) * (6 * k + 5) / (216.0 * (k + 1) * (2 * k + 1) * z);
  }
  const double phase = z + kPi / 4;
  return (std::sin(phase) * sums[0] - std::cos(phase) * sums[1]) / std::sqrt(kPi * std::sqrt(-x));
}

double airy_ai(double x) {
  if (std::isinf(x)) return std::numeric_limits<double>::quiet_NaN();  // as in PyTorch
  if (x < -8) return airy_asymptotic(x);
  if (!(x > 1)) return airy_series(x);
  const double z = 2 * x * std::sqrt(x) / 3;  // DLMF 9.6.2
  return std::sqrt(x / 3) / kPi * std::exp(-z) * scaled_bessel_k_integral(1. / 3, z);
}

const Registration operators[] = {
    unary<"airy_ai", airy_ai>(),
};

}  // namespace
}  // namespace opbridge::op
