// Plane rotations [c s; -s c] with the signs of LAPACK's lartg, which changed in LAPACK 3.10 (Anderson, "Safe
// scaling in the level 1 BLAS", 2017). PyTorch's CPU build, with MKL 2024.2, uses both conventions.
#pragma once

#include <cmath>

#include "reflection.h"

namespace opbridge::op {

template <class R>
struct Rotation {
  R c, s;
};

// The rotation that maps (f, g) to (r, 0).
template <class R>
Rotation<R> make_rotation(R f, R g, R& r) {
  if (g == 0) {
    r = f;
    return {1, 0};
  }
  if (f == 0) {
    r = std::abs(g);
    return {0, with_sign(R(1), g)};
  }
  const R size = std::hypot(f, g);
  r = with_sign(size, f);
  return {std::abs(f) / size, g / r};
}

// The convention before LAPACK 3.10: r has the sign of f only if f is the larger.
template <class R>
Rotation<R> make_older_rotation(R f, R g, R& r) {
  if (f == 0 && g != 0) {
    r = g;
    return {0, 1};
  }
  const Rotation<R> q = make_rotation(f, g, r);
  if (r >= 0 || std::abs(f) > std::abs(g)) return q;
  r = -r;
  return {-q.c, -q.s};
}

// Replaces (x, y) by (c x + s y, c y - s x), element by element.
template <class R, class X, class Y>
void rotate(X&& x, Y&& y, Rotation<R> q) {
  for (Eigen::Index k = 0; k < x.size(); ++k) {
    const auto a = x(k), b = y(k);
    x(k) = q.c * a + q.s * b;
    y(k) = q.c * b - q.s * a;
  }
}

}  // namespace opbridge::op
