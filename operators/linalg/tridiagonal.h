// A = Q T Q^H of a Hermitian matrix, T real and tridiagonal, by reflections as LAPACK's hetd2: from the first
// column down for the lower triangle, from the last one up for the upper.
#pragma once

#include "householder.h"
#include "reflection.h"

namespace opbridge::op {

template <class S>
struct Tridiagonal {
  Vector<RealOf<S>> diagonal, beside;
  Reflections<S>
      q;  // leaves alone the first row, or of the upper triangle the last, and counts from the other end
  bool upper;

  // Q b
  void apply(Matrix<S>& b) const {
    if (b.rows() < 2) return;
    if (upper) b = b.colwise().reverse().eval();
    apply_q(q, b.bottomRows(b.rows() - 1), false);
    if (upper) b = b.colwise().reverse().eval();
  }
};

// Reads one triangle only.
template <class S>
Tridiagonal<S> make_tridiagonal(Matrix<S> a, bool upper) {
  using R = RealOf<S>;
  const Eigen::Index n = a.rows(), others = std::max<Eigen::Index>(n - 1, 0);
  // The upper triangle is the lower one of the matrix with rows and columns in reverse.
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
    t.beside[k] = Eigen::numext::real(v[0]);
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
    t.beside.reverseInPlace();
  }
  return t;
}

}  // namespace opbridge::op
