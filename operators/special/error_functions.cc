// The complementary error function, the normal distribution, and their inverses.
#include <cmath>
#include <limits>

#include "elementwise.h"

namespace opbridge::op {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kSqrt2 = 1.41421356237309504880;
constexpr double kSqrtPi = 1.77245385090551602730;

double erfc(double x) { return std::erfc(x); }

// exp(x^2) erfc(x). From 25 on, where erfc underflows, by its asymptotic series (DLMF 7.12.1).
double erfcx(double x) {
  if (x < -27) return kInfinity;
  if (x < 25 || std::isnan(x)) {
    const double square = x * x, lost = std::fma(x, x, -square);
    return std::exp(square) * (1 + lost) * std::erfc(x);
  }
  double sum = 1, term = 1;
  for (int k = 1; k <= 8; ++k) {
    term *= -(2 * k - 1) / (2 * x * x);
    sum += term;
  }
  return sum / (x * kSqrtPi);
}

double ndtr(double x) { return std::erfc(-x / kSqrt2) / 2; }

double log_ndtr(double x) {
  if (x < -1) return std::log(erfcx(-x / kSqrt2) / 2) - x * x / 2;
  return std::log1p(-std::erfc(x / kSqrt2) / 2);
}

// A step of Halley's method towards a root of erf(x) - y, where `excess` is (erf(x) - y) / erf'(x).
double halley(double x, double excess) { return x - excess / (1 + x * excess); }

// erfinv(y) / y to 7 digits, as a function of w = -log(1 - y^2) up to 16 (Giles 2010, "Approximating the
// erfinv function", table 5).
double erfinv_estimate(double w) {
  constexpr double kLow[] = {2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
                             -0.00125372503, -0.00417768164, 0.246640727,    1.50140941};
  constexpr double kHigh[] = {-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
                              -0.0076224613,   0.00943887047,  1.00167406,    2.83297682};
  const bool low = w < 5;
  const double shifted = low ? w - 2.5 : std::sqrt(w) - 3;
  double result = 0;
  for (const double coefficient : low ? kLow : kHigh) result = result * shifted + coefficient;
  return result;
}

// The inverse of erf for |y| <= 1/2. One step triples the digits.
double erfinv_of_small(double y) {
  const double x = y * erfinv_estimate(-std::log((1 - y) * (1 + y)));
  return halley(x, (std::erf(x) - y) * kSqrtPi / 2 * std::exp(x * x));
}

// The inverse of erfc for 0 < y <= 1/2; for small y it starts from Hastings' approximation (Abramowitz &
// Stegun 26.2.23).
double erfcinv_of_small(double y) {
  const double log = std::log(y);
  const auto improved = [&](double x) { return halley(x, kSqrtPi / 2 * (std::exp(x * x + log) - erfcx(x))); };
  if (y > 1e-6) return improved((1 - y) * erfinv_estimate(-std::log(y * (2 - y))));
  const double t = std::sqrt(-2 * (log - 0.69314718055994530942));
  const double x =
      t - (2.515517 + t * (0.802853 + t * 0.010328)) / (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)));
  return improved(improved(improved(x / kSqrt2)));
}

double erfinv(double y) {
  const double size = std::abs(y);
  if (!(size < 1)) return size == 1 ? std::copysign(kInfinity, y) : kNan;
  return size <= 0.5 ? erfinv_of_small(y) : std::copysign(erfcinv_of_small(1 - size), y);
}

double ndtri(double p) {
  if (!(p > 0 && p < 1)) return p == 0 ? -kInfinity : p == 1 ? kInfinity : kNan;
  if (p < 0.25) return -kSqrt2 * erfcinv_of_small(2 * p);
  if (p > 0.75) return kSqrt2 * erfcinv_of_small(2 * (1 - p));
  return kSqrt2 * erfinv_of_small(2 * p - 1);
}

const Registration operators[] = {
    unary<"erf", std::erf>(),      unary<"erfc", erfc>(), unary<"erfcx", erfcx>(), unary<"erfinv", erfinv>(),
    unary<"log_ndtr", log_ndtr>(), unary<"ndtr", ndtr>(), unary<"ndtri", ndtri>(),
};

}  // namespace
}  // namespace opbridge::op
