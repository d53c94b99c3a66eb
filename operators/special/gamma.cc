// The logarithm of the gamma function, its derivatives, and Hurwitz' zeta function.
#include <cmath>
#include <limits>

#include "elementwise.h"

namespace opbridge::op {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kPi = 3.14159265358979323846;

// The Bernoulli numbers B(2), B(4), … (DLMF 24.2).
constexpr double kBernoulli[] = {1. / 6,       -1. / 30, 1. / 42,       -1. / 30,      5. / 66,
                                 -691. / 2730, 7. / 6,   -3617. / 510., 43867. / 798., -174611. / 330.};

// Unlike std::lgamma, does not write the sign to a global variable.
double lgamma(double x) {
  int sign;
  return ::lgamma_r(x, &sign);
}

// Stirling's series from 10 on (DLMF 5.11.2), the recurrence (5.5.2) below 10, and reflection (5.5.4) for x <
// 0.
double digamma(double x) {
  if (x == 0) return std::copysign(kInfinity, -x);
  if (x < 0) {
    if (x == std::floor(x)) return kNan;
    return digamma(1 - x) - kPi / std::tan(kPi * (x - std::trunc(x)));
  }
  double result = 0;
  for (; x < 10; x += 1) result -= 1 / x;
  double power = 1;
  result += std::log(x) - 1 / (2 * x);
  for (int k = 1; k <= 8; ++k) {
    power /= x * x;
    result -= kBernoulli[k - 1] / (2 * k) * power;
  }
  return result;
}

// The sum of (q + k)^-s over k = 0, 1, … for s > 1: term by term up to s + 10, then by Euler-Maclaurin (DLMF
// 25.11.5 with 25.11.7).
double zeta_by_sum(double s, double q) {
  constexpr double kEpsilon = std::numeric_limits<double>::epsilon() / 4;
  double sum = 0;
  for (const double enough = s + 10; q < enough; q += 1) {
    const double term = std::pow(q, -s);
    sum += term;
    if (std::abs(term) < kEpsilon * std::abs(sum) || (q > 1 && term == 0)) return sum;
  }
  const double power = std::pow(q, -s);
  if (power == 0) return sum;
  sum += power * q / (s - 1) + power / 2;
  double factor = s * power / q / 2;  // s (s + 1) … (s + 2j - 2) / (2j)! q^(-s - 2j + 1)
  for (int j = 1; j <= 10; ++j) {
    const double term = kBernoulli[j - 1] * factor;
    sum += term;
    if (std::abs(term) <= kEpsilon * std::abs(sum)) break;
    factor *= (s + 2 * j - 1) / (2 * j + 1) * (s + 2 * j) / (2 * j + 2) / (q * q);
  }
  return sum;
}

// If s or q is infinite or NaN, and at poles, returns the result of PyTorch's algorithm.
double zeta(double s, double q) {
  if (s == 1) return kInfinity;
  if (s < 1) return kNan;
  if (q <= 0 && q == std::floor(q)) return kInfinity;
  if (std::isnan(s) || std::isnan(q) || q == kInfinity) return kNan;
  if (s == kInfinity) return q < 1 ? kInfinity : q == 1 ? 1 : kNan;
  if (q > 0) {
    const double sum = zeta_by_sum(s, q);
    // PyTorch multiplies the power, which has underflowed, by a product of 23 factors from s on, which may be
    // infinite.
    return sum == 0 && std::isinf(std::pow(s, 23)) ? kNan : sum;
  }
  if (s != std::floor(s)) return kNan;
  if (q > -1e4) return zeta_by_sum(s, q);
  // The terms with a negative base are, up to sign, those of a sum from `part` to 1 - q.
  const double part = -q - std::floor(-q);
  const double below = zeta_by_sum(s, part) - zeta_by_sum(s, 1 - q);
  return zeta_by_sum(s, 1 - part) + (std::fmod(s, 2) == 0 ? below : -below);
}

// The reflection of the first derivative (DLMF 5.15.6) at its poles. As in PyTorch, rounding makes the result
// finite.
template <class T>
T trigamma_at_pole(T x) {
  constexpr T kPiOfType = static_cast<T>(kPi);
  const T sine = std::sin(kPiOfType * x);
  return kPiOfType * kPiOfType / (sine * sine) - static_cast<T>(zeta(2, 1 - static_cast<double>(x)));
}

// The n-th derivative of digamma (DLMF 5.15.1, 25.11.12).
template <class T>
double polygamma(std::int64_t order, T x) {
  if (order == 0) return digamma(x);
  if (order == 1 && x == static_cast<T>(kInfinity)) return 0;
  if (order == 1 && x < 0 && x == std::floor(x)) return trigamma_at_pole(x);
  const double n = static_cast<std::int32_t>(order);  // as in PyTorch, whose kernel takes an int
  const double magnitude = std::tgamma(n + 1) * zeta(n + 1, x);
  return std::fmod(n, 2) == 0 ? -magnitude : magnitude;
}

OPBRIDGE_OPERATOR("opbridge::polygamma(int n, Tensor self) -> Tensor")
    .shape([](std::int64_t n, const Shape& self) {
      require(n >= 0, "n must not be negative");
      return self;
    })
    .cpu(floating_types,
         []<class T>(Context& context, std::int64_t n, TensorView<const T> self, TensorView<T> out) {
           context.parallel_for(out.size(), kElementsPerPart, [&](std::int64_t begin, std::int64_t end) {
             for (std::int64_t i = begin; i < end; ++i) out[i] = static_cast<T>(polygamma(n, self[i]));
           });
         });

const Registration operators[] = {
    unary<"lgamma", lgamma>(),
    unary<"digamma", digamma>(),
    binary<"zeta", zeta>(),
};

}  // namespace
}  // namespace opbridge::op
