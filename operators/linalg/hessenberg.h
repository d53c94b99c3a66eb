// A = Q H Q^H with H zero below its first subdiagonal, by reflections as in LAPACK's gehd2 and unghr.
#pragma once

#include "reflection.h"

namespace opbridge::op {

// Replaces `a`, which is not yet triangular in rows and columns first to last, by H. Returns Q, or nothing if
// `vectors` is false.
template <class S>
Matrix<S> reduce_to_hessenberg(Matrix<S>& a, Eigen::Index first, Eigen::Index last, bool vectors) {
  const Eigen::Index n = a.rows();
  std::vector<Vector<S>> reflections;
  Vector<S> tau = Vector<S>::Zero(n);
  for (Eigen::Index i = first; i < last; ++i) {
    const Eigen::Index size = last - i;
    Vector<S> v = a.col(i).segment(i + 1, size);
    tau[i] = make_reflection(v);
    a.col(i).segment(i + 1, size).setZero();
    a(i + 1, i) = v[0];
    v[0] = 1;
    reflect_right<S>(v, tau[i], a.block(0, i + 1, last + 1, size));
    reflect_left<S>(v, Eigen::numext::conj(tau[i]), a.block(i + 1, i + 1, size, n - i - 1));
    if (vectors) reflections.push_back(std::move(v));
  }
  if (!vectors) return {};
  Matrix<S> q = Matrix<S>::Identity(n, n);
  for (Eigen::Index i = last; i-- > first;) {
    const Eigen::Index size = last - i;
    reflect_left<S>(reflections[static_cast<std::size_t>(i - first)], tau[i],
                    q.block(i + 1, i + 1, size, size));
  }
  return q;
}

}  // namespace opbridge::op
