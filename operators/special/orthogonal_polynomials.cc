// Orthogonal polynomials whose degree is a tensor element.
#include <cmath>
#include <limits>
#include <type_traits>

#include "elementwise.h"

namespace opbridge::op {
namespace {

// PyTorch truncates a degree. For a negative degree or NaN, the polynomial is 0.
bool is_degree(double n) { return n > -1 && n < 0x1p63; }

double parity(double n) { return std::fmod(n, 2) == 0 ? 1 : -1; }

enum class Kind { first, second, third, fourth };

// Chebyshev polynomials of the four kinds T, U, V and W (DLMF 18.5.1 to 18.5.4). Small degrees use the
// recurrence 18.9.2, others cosine and sine, or hyperbolic functions for x > 1.
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
  // The formulas for an imaginary angle, arranged so that nothing overflows before the result does.
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

// For |x| > 1, PyTorch uses the recurrence. Once two successive values overflow to infinity, their difference
// is NaN.
template <class T, Kind kind>
T chebyshev_or_nan(double x, T n) {
  const auto value = [&](double degree) { return static_cast<T>(chebyshev<kind>(x, degree)); };
  if (std::abs(x) > 1 && n >= 2 && !std::isfinite(value(std::trunc(n) - 2)))
    return std::numeric_limits<T>::quiet_NaN();
  return value(n);
}

template <Kind kind>
struct Chebyshev {
  template <class T>
  static T of(T x, T n) {
    return chebyshev_or_nan<T, kind>(x, n);
  }
};

template <Kind kind>
struct ShiftedChebyshev {
  template <class T>
  static T of(T x, T n) {
    return chebyshev_or_nan<T, kind>(2 * static_cast<double>(x) - 1, n);
  }
};

// Iterates over degrees: next(k, p(k), p(k - 1)) returns p(k + 1).
template <class T, class Next>
T by_recurrence(T n, T p0, T p1, Next next) {
  T last = p0, value = p1;
  if (n < 1) return p0;
  for (T k = 1; k + 1 <= n && !std::isnan(value); ++k) {
    const T following = next(k, value, last);
    last = value;
    value = following;
  }
  return value;
}

// The highest degree of PyTorch's Hermite polynomials.
template <class T>
constexpr T kMostHermite = std::is_same_v<T, float> ? 128 : 512;
constexpr double kMostSteps = 1'000'000;

void require_feasible(double n) { require(n <= kMostSteps, "a degree exceeds 1000000"); }

// The recurrences below are DLMF 18.9.1 with table 18.9.1.
struct HermiteH {
  template <class T>
  static T value(T x, T n) {
    return by_recurrence<T>(n, 1, x + x, [&](T k, T p, T last) { return (x + x) * p - 2 * k * last; });
  }
};

struct HermiteHe {
  template <class T>
  static T value(T x, T n) {
    return by_recurrence<T>(n, 1, x, [&](T k, T p, T last) { return x * p - k * last; });
  }
};

struct LaguerreL {
  template <class T>
  static T value(T x, T n) {
    if (x == 0) return 1;
    require_feasible(n);
    return by_recurrence<T>(n, 1, 1 - x,
                            [&](T k, T p, T last) { return ((k + k + (1 - x)) * p - k * last) / (k + 1); });
  }
  template <class T>
  static bool is_nan(T) {
    return false;
  }
};

struct LegendreP {
  template <class T>
  static T value(T x, T n) {
    if (std::abs(x) == 1) return x > 0 ? 1 : static_cast<T>(parity(n));
    require_feasible(n);
    return by_recurrence<T>(n, 1, x,
                            [&](T k, T p, T last) { return ((k + k + 1) * x * p - k * last) / (k + 1); });
  }
  template <class T>
  static bool is_nan(T) {
    return false;
  }
};

// Computes in the element type, as PyTorch does: it determines where an intermediate value overflows.
template <class Polynomial, bool is_hermite = false>
struct ByRecurrence {
  template <class T>
  static T of(T x, T n) {
    if (!is_degree(n)) return 0;
    n = std::trunc(n);
    if (is_hermite && n > kMostHermite<T>) return std::numeric_limits<T>::quiet_NaN();
    const T rounded = Polynomial::value(x, n);
    if (!std::isfinite(rounded)) return rounded;
    return static_cast<T>(Polynomial::value(static_cast<double>(x), static_cast<double>(n)));
  }
};

const Registration operators[] = {
    binary_by<"chebyshev_polynomial_t", Chebyshev<Kind::first>>(),
    binary_by<"chebyshev_polynomial_u", Chebyshev<Kind::second>>(),
    binary_by<"chebyshev_polynomial_v", Chebyshev<Kind::third>>(),
    binary_by<"chebyshev_polynomial_w", Chebyshev<Kind::fourth>>(),
    binary_by<"shifted_chebyshev_polynomial_t", ShiftedChebyshev<Kind::first>>(),
    binary_by<"shifted_chebyshev_polynomial_u", ShiftedChebyshev<Kind::second>>(),
    binary_by<"shifted_chebyshev_polynomial_v", ShiftedChebyshev<Kind::third>>(),
    binary_by<"shifted_chebyshev_polynomial_w", ShiftedChebyshev<Kind::fourth>>(),
    binary_by<"hermite_polynomial_h", ByRecurrence<HermiteH, true>>(),
    binary_by<"hermite_polynomial_he", ByRecurrence<HermiteHe, true>>(),
    binary_by<"laguerre_polynomial_l", ByRecurrence<LaguerreL>>(),
    binary_by<"legendre_polynomial_p", ByRecurrence<LegendreP>>(),
};

}  // namespace
}  // namespace opbridge::op
