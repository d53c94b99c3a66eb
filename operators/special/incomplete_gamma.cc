// The regularized incomplete gamma functions P(a, x) and Q(a, x) = 1 - P(a, x).
#include <cmath>
#include <limits>

#include "elementwise.h"

namespace opbridge::op {
namespace {

constexpr double kEpsilon = std::numeric_limits<double>::epsilon() / 2;
constexpr double kPi = 3.14159265358979323846;

// u - log(1 + u)
double less_log1p(double u) {
  if (std::abs(u) > 0.1) return u - std::log1p(u);
  double sum = 0, power = -u;
  for (int k = 2; k < 20; ++k) {
    power *= -u;
    sum -= power / k;
  }
  return -sum;
}

// log(gamma(1 + a))
double lgamma1p(double a) {
  constexpr double kEuler = 0.57721566490153286061, kZeta3 = 1.2020569031595942854;
  if (a < 1e-5) return a * (-kEuler + a * (kPi * kPi / 12 - a * kZeta3 / 3));  // DLMF 5.7.3
  int sign;
  return ::lgamma_r(1 + a, &sign);
}

// x^a exp(-x) / gamma(a + 1). For large a it uses Stirling's series (DLMF 5.11.1) to avoid cancellation.
double density(double a, double x) {
  if (a < 20) return std::exp(a * std::log(x) - x - lgamma1p(a));
  const double stirling = (1 - (1 - 2 / (7 * a * a)) / (30 * a * a)) / (12 * a);
  const double u = (x - a) / a;
  return std::exp(-a * less_log1p(u) - stirling) / std::sqrt(2 * kPi * a);
}

// P by its power series (DLMF 8.11.4).
double lower_by_series(double a, double x) {
  double sum = 1, term = 1;
  for (double n = a + 1; term > kEpsilon * sum; n += 1) {
    term *= x / n;
    sum += term;
  }
  return density(a, x) * sum;
}

// Q by its continued fraction (DLMF 8.9.2), with Lentz's method.
double upper_by_fraction(double a, double x) {
  double b = x + 1 - a, c = std::numeric_limits<double>::max(), d = 1 / b, value = d;
  for (int i = 1; i < 10000; ++i) {
    const double numerator = -i * (i - a);
    b += 2;
    d = 1 / (numerator * d + b);
    c = b + numerator / c;
    value *= c * d;
    if (std::abs(c * d - 1) <= kEpsilon) break;
  }
  return density(a, x) * a * value;
}

// Q for small a and x <= 1, where it may be far below 1 (DLMF 8.7.1).
double upper_of_small(double a, double x) {
  const double exponent = a * std::log(x) - lgamma1p(a);
  double sum = 0, term = 1;
  for (int n = 1; n < 25; ++n) {
    term *= -x / n;
    sum += term / (a + n);
  }
  return -std::expm1(exponent) - std::exp(exponent) * a * sum;
}

// The first two terms of Temme's uniform expansion for large a (DLMF 8.12.3, 8.12.4, 8.12.7 and 8.12.10): Q
// for sign 1, P for sign -1.
double temme(double a, double x, double sign) {
  const double u = (x - a) / a;
  const double eta = std::copysign(std::sqrt(2 * less_log1p(u)), u);
  double c0, c1;
  if (std::abs(eta) < 0.02) {
    c0 = -1. / 3 + eta * (1. / 12 - eta * (2. / 135 - eta * (1. / 864 + eta / 2835)));
    c1 = -1. / 540 + eta * (-1. / 288 + eta * (1. / 378 - eta * 77 / 77760));
  } else {
    c0 = 1 / u - 1 / eta;
    c1 = 1 / (eta * eta * eta) - 1 / (u * u * u) - 1 / (u * u) - 1 / (12 * u);
  }
  const double rest = std::exp(-a * eta * eta / 2) / std::sqrt(2 * kPi * a) * (c0 + c1 / a);
  return std::erfc(sign * eta * std::sqrt(a / 2)) / 2 + sign * rest;
}

struct Parts {
  double lower, upper;
};

Parts incomplete_gamma(double a, double x) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr Parts kNone{kNan, kNan}, kAll{1, 0}, kNothing{0, 1};
  if (a < 0 || x < 0) return kNone;
  if (a == 0) return x > 0 ? kAll : kNone;
  // As in PyTorch, even if a is NaN.
  if (x == 0) return kNothing;
  if (std::isinf(a)) return std::isinf(x) ? kNone : kNothing;
  if (std::isinf(x)) return kAll;
  if (std::isnan(a) || std::isnan(x)) return kNone;
  if (a > 1e4 && std::abs(x - a) < 0.3 * a) return {temme(a, x, -1), temme(a, x, 1)};
  // The exponent of the prefactor that PyTorch uses.
  int sign;
  const double exponent = a * std::log(x) - x - ::lgamma_r(a, &sign);
  if (std::isnan(exponent)) return kNone;
  if (a < 1 && x <= 1) {
    const bool vanishes = exponent < -709.78271289338399678;  // if a is subnormal
    return {vanishes ? 0 : lower_by_series(a, x), upper_of_small(a, x)};
  }
  if (x < a + 1) {
    const double lower = lower_by_series(a, x);
    return {lower, 1 - lower};
  }
  const double upper = upper_by_fraction(a, x);
  return {1 - upper, upper};
}

double igamma(double a, double x) { return incomplete_gamma(a, x).lower; }
double igammac(double a, double x) { return incomplete_gamma(a, x).upper; }

const Registration operators[] = {
    binary<"igamma", igamma>(),
    binary<"igammac", igammac>(),
};

}  // namespace
}  // namespace opbridge::op
