// A = Q R by Householder reflections, as in LAPACK's geqrf. Q is the product of I - tau[k] v v^H. v is zero
// above row k, one in row k, and column k of the factors below it.
#pragma once

#include <Eigen/Householder>

#include "reflection.h"

namespace opbridge::op {

template <class S>
struct Reflections {
  Matrix<S> factors;  // R, and the vectors v below its diagonal
  Vector<S> tau;
};

// Replaces b by Q b or Q^H b.
template <class V, class S, class B>
void apply_q(const V& factors, const Vector<S>& tau, B&& b, bool adjoint) {
  if (tau.size() == 0 || b.size() == 0) return;
  Eigen::HouseholderSequence<V, Vector<S>> q(factors, tau);
  q.setLength(tau.size());
  if (adjoint) {
    b.applyOnTheLeft(q.adjoint());
  } else {
    b.applyOnTheLeft(q);
  }
}
template <class S, class B>
void apply_q(const Reflections<S>& r, B&& b, bool adjoint) {
  apply_q(r.factors, r.tau, b, adjoint);
}

// Eigen's own factorization squares the elements, which may overflow or underflow.
template <class S>
Reflections<S> factor_qr(Matrix<S> a) {
  constexpr Eigen::Index kPanel = 48;  // from this number on, Eigen applies reflections as a block
  const Eigen::Index rows = a.rows(), columns = a.cols(), count = std::min(rows, columns);
  Vector<S> tau(count), workspace(columns);
  for (Eigen::Index start = 0; start < count; start += kPanel) {
    const Eigen::Index end = std::min(start + kPanel, count);
    for (Eigen::Index k = start; k < end; ++k) {
      tau[k] = make_reflection(a.col(k).tail(rows - k));
      a.block(k, k + 1, rows - k, end - k - 1)
          .applyHouseholderOnTheLeft(a.col(k).tail(rows - k - 1), Eigen::numext::conj(tau[k]),
                                     workspace.data());
    }
    if (end == columns) break;
    const Vector<S> of_panel = tau.segment(start, end - start);
    apply_q(a.block(start, start, rows - start, end - start), of_panel,
            a.bottomRightCorner(rows - start, columns - end), true);
  }
  return {std::move(a), std::move(tau)};
}

// The first columns of Q.
template <class S>
Matrix<S> first_columns_of_q(const Reflections<S>& r, Eigen::Index columns) {
  Matrix<S> q = Matrix<S>::Identity(r.factors.rows(), columns);
  apply_q(r, q, false);
  return q;
}

}  // namespace opbridge::op
