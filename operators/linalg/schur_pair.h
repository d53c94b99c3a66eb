// The Schur form of a real 2x2 matrix, as by LAPACK's lanv2. It is either triangular, or has equal diagonal
// elements and off-diagonal elements of opposite signs: a complex pair of eigenvalues.
#pragma once

#include <algorithm>
#include <complex>
#include <limits>

#include "reflection.h"
#include "rotation.h"

namespace opbridge::op {

// Replaces [a b; c d] by q [a b; c d] q^T, where q is the returned rotation.
template <class R>
Rotation<R> make_schur_pair(R& a, R& b, R& c, R& d) {
  constexpr R kEpsilon = std::numeric_limits<R>::epsilon();
  const auto sign = [](R x) { return with_sign(R(1), x); };
  if (c == 0) return {1, 0};
  if (b == 0) {
    std::swap(a, d);
    b = -c;
    c = 0;
    return {0, 1};
  }
  if (a == d && sign(b) != sign(c)) return {1, 0};

  const R p = (a - d) / 2;
  const R larger = std::max(std::abs(b), std::abs(c));
  const R smaller = std::min(std::abs(b), std::abs(c)) * sign(b) * sign(c);
  const R unit = std::max(std::abs(p), larger);
  const R discriminant = (p / unit) * p + (larger / unit) * smaller;
  if (discriminant >= 4 * kEpsilon) {
    const R z = p + with_sign(std::sqrt(unit) * std::sqrt(discriminant), p);
    a = d + z;
    d -= (larger / z) * smaller;
    const R length = std::hypot(c, z);
    const Rotation<R> q{z / length, c / length};
    b -= c;
    c = 0;
    return q;
  }

  // For complex or nearly equal eigenvalues, makes the diagonal elements equal.
  const R sum = b + c, difference = a - d, length = std::hypot(sum, difference);
  Rotation<R> q;
  q.c = std::sqrt((1 + std::abs(sum) / length) / 2);
  q.s = -(p / (length * q.c)) * sign(sum);
  const R aa = a * q.c + b * q.s, bb = b * q.c - a * q.s, cc = c * q.c + d * q.s, dd = d * q.c - c * q.s;
  b = bb * q.c + dd * q.s;
  c = cc * q.c - aa * q.s;
  a = d = ((aa * q.c + cc * q.s) + (dd * q.c - bb * q.s)) / 2;
  if (c == 0) return q;
  if (b == 0) {
    b = -c;
    c = 0;
    return {-q.s, q.c};
  }
  if (sign(b) != sign(c)) return q;
  const R root_b = std::sqrt(std::abs(b)), root_c = std::sqrt(std::abs(c));
  const R apart = with_sign(root_b * root_c, c), scale = 1 / std::sqrt(std::abs(b + c));
  d = a - apart;
  a += apart;
  b -= c;
  c = 0;
  const Rotation<R> further{root_b * scale, root_c * scale};
  return {q.c * further.c - q.s * further.s, q.c * further.s + q.s * further.c};
}

// The eigenvalues of such a matrix; in a complex pair, the one with positive imaginary part comes first.
template <class R>
std::pair<std::complex<R>, std::complex<R>> eigenvalues_of_pair(R a, R b, R c, R d) {
  const R imaginary = c == 0 ? R(0) : std::sqrt(std::abs(b)) * std::sqrt(std::abs(c));
  return {{a, imaginary}, {d, -imaginary}};
}

}  // namespace opbridge::op
