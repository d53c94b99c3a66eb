// Orthogonal polynomials of a degree that is itself an element.
#include <cmath>
#include <limits>

#include "elementwise.h"

namespace opbridge::op {
namespace {

// As PyTorch reads a degree: truncated; what is below zero or no number makes the polynomial 0.
bool is_degree(double n) { return n > -1 && n < 0x1p63; }

double parity(double n) { return std::fmod(n, 2) == 0 ? 1 : -1; }

enum class Kind { first, second, third, fourth };

// Chebyshev polynomials of four kinds, T, U, V and W (DLMF 18.5.1 to 18.5.4), by the recurrence 18.9.2 for
// small degrees, by cosine and sine otherwise, hyperbolic ones where x > 1.
template <Kind kind>
double chebyshev(double x, double n) {
  if (!is_degree(n)) return 0;
  n = std::trunc(n);
  if (n <= 8) {
    double last = 1, value = 1,
           next = kind == Kind::first    ? x
                  : kind == Kind::second ? 2 * x
                  : kind == Kind::third  ? 2 * x - 1
                                         : 2 * x + 1;
    for (int k = 0; k < n; ++k) {
      last = value;
      value = next;
      next = 2 * x * value - last;
    }
    return value;
  }
  if (x < 0) {  // V and W mirror each other
    constexpr Kind mirrored = kind == Kind::third ? Kind::fourth : kind == Kind::fourth ? Kind::third : kind;
    return parity(n) * chebyshev<mirrored>(-x, n);
  }
  if (x < 1) {
    const double angle = std::acos(x);
    switch (kind) {
      case Kind::first:
        return std::cos(n * angle);
      case Kind::second:
        return std::sin((n + 1) * angle) / std::sin(angle);
      case Kind::third:
        return std::cos((n + 0.5) * angle) / std::cos(angle / 2);
      case Kind::fourth:
        return std::sin((n + 0.5) * angle) / std::sin(angle / 2);
    }
  }
  // The same of an imaginary angle, without what would overflow before the result does.
  const double angle = std::acosh(x), growth = std::exp(n * angle);
  switch (kind) {
    case Kind::first:
      return std::cosh(n * angle);
    case Kind::second:
      return x == 1 ? n + 1 : growth * (std::expm1(-2 * (n + 1) * angle) / std::expm1(-2 * angle));
    case Kind::third:
      return growth * (1 + std::exp(-(2 * n + 1) * angle)) / (1 + std::exp(-angle));
    case Kind::fourth:
      return x == 1 ? 2 * n + 1 : growth * (std::expm1(-(2 * n + 1) * angle) / std::expm1(-angle));
  }
}

template <Kind kind>
double shifted_chebyshev(double x, double n) {
  return chebyshev<kind>(2 * x - 1, n);
}

// Goes from degree to degree: next(k, p(k), p(k - 1)) is p(k + 1).
template <class Next>
double by_recurrence(double n, double p0, double p1, Next next) {
  double last = p0, value = p1;
  if (n < 1) return p0;
  for (double k = 1; k + 1 <= n && !std::isnan(value); ++k) {
    const double following = next(k, value, last);
    last = value;
    value = following;
  }
  return value;
}

// Degrees of PyTorch's Hermite polynomials end here.
constexpr double kMostHermite = 512;
constexpr double kMostSteps = 1'000'000;

void require_feasible(double n) { require(n <= kMostSteps, "a degree exceeds 1000000"); }

// DLMF 18.9.1 with table 18.9.1, all of these.
double hermite_h(double x, double n) {
  if (!is_degree(n)) return 0;
  if (n >= kMostHermite + 1) return std::numeric_limits<double>::quiet_NaN();
  return by_recurrence(std::trunc(n), 1, 2 * x,
                       [&](double k, double value, double last) { return 2 * x * value - 2 * k * last; });
}

double hermite_he(double x, double n) {
  if (!is_degree(n)) return 0;
  if (n >= kMostHermite + 1) return std::numeric_limits<double>::quiet_NaN();
  return by_recurrence(std::trunc(n), 1, x,
                       [&](double k, double value, double last) { return x * value - k * last; });
}

double laguerre_l(double x, double n) {
  if (!is_degree(n)) return 0;
  if (x == 0) return 1;
  require_feasible(n);
  return by_recurrence(std::trunc(n), 1, 1 - x, [&](double k, double value, double last) {
    return ((2 * k + 1 - x) * value - k * last) / (k + 1);
  });
}

double legendre_p(double x, double n) {
  if (!is_degree(n)) return 0;
  n = std::trunc(n);
  if (std::abs(x) == 1) return x > 0 ? 1 : parity(n);
  require_feasible(n);
  return by_recurrence(n, 1, x, [&](double k, double value, double last) {
    return ((2 * k + 1) * x * value - k * last) / (k + 1);
  });
}

const Registration operators[] = {
    binary<"chebyshev_polynomial_t", chebyshev<Kind::first>>(),
    binary<"chebyshev_polynomial_u", chebyshev<Kind::second>>(),
    binary<"chebyshev_polynomial_v", chebyshev<Kind::third>>(),
    binary<"chebyshev_polynomial_w", chebyshev<Kind::fourth>>(),
    binary<"shifted_chebyshev_polynomial_t", shifted_chebyshev<Kind::first>>(),
    binary<"shifted_chebyshev_polynomial_u", shifted_chebyshev<Kind::second>>(),
    binary<"shifted_chebyshev_polynomial_v", shifted_chebyshev<Kind::third>>(),
    binary<"shifted_chebyshev_polynomial_w", shifted_chebyshev<Kind::fourth>>(),
    binary<"hermite_polynomial_h", hermite_h>(),
    binary<"hermite_polynomial_he", hermite_he>(),
    binary<"laguerre_polynomial_l", laguerre_l>(),
    binary<"legendre_polynomial_p", legendre_p>(),
};

}  // namespace
}  // namespace opbridge::op
