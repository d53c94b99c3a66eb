// A = Q T Q^H of a Hermitian matrix, where T is real and tridiagonal, by reflections as in LAPACK's hetd2:
// from the first column on for the lower triangle, from the last one back for the upper.
#pragma once

#include "householder.h"
#include "reflection.h"

namespace opbridge::op {

template <class S>
struct Tridiagonal {
  Vector<RealOf<S>> diagonal, off_diagonal;
  Reflections<S> q;  // without the first row; for the upper triangle, without the last, in reverse order
  bool upper;

  // Replaces b by Q b.
  void apply(Matrix<S>& b) const {
    if (b.rows() < 2) return;
    if (upper) b = b.colwise().reverse().eval();
    q.apply(b.bottomRows(b.rows() - 1), false);
    if (upper) b = b.colwise().reverse().eval();
  }
};

// Reads only one triangle.
template <class S>
Tridiagonal<S> make_tridiagonal(Matrix<S> a, bool upper) {
  using R = RealOf<S>;
  const Eigen::Index n = a.rows(), others = std::max<Eigen::Index>(n - 1, 0);
  // Reversing rows and columns turns the upper triangle into the lower one.
  if (upper) a = a.reverse().eval();
  a.diagonal() = a.diagonal().real().template cast<S>().eval();
  Tridiagonal<S> t{
      Vector<R>(n), Vector<R>(others), {Matrix<S>::Zero(others, others), Vector<S>(others)}, upper};
  for (Eigen::Index k = 0; k < n; ++k) {
    t.diagonal[k] = Eigen::numext::real(a(k, k));
    const Eigen::Index below = n - k - 1;
    if (below == 0) break;
    Vector<S> v = a.col(k).tail(below);
    const S tau = make_reflection(v);
    t.off_diagonal[k] = Eigen::numext::real(v[0]);
    t.q.tau[k] = tau;
    t.q.factors.col(k).tail(below) = v;
    v[0] = 1;
    // H^H A H is A - v w^H - w v^H.
    auto rest = a.bottomRightCorner(below, below);
    Vector<S> w = tau * (rest.template selfadjointView<Eigen::Lower>() * v);
    w -= (tau * w.dot(v) / R(2)) * v;
    rest.template selfadjointView<Eigen::Lower>().rankUpdate(v, w, S(-1));
  }
  if (upper) {
    t.diagonal.reverseInPlace();
    t.off_diagonal.reverseInPlace();
  }
  return t;
}

}  // namespace opbridge::op
