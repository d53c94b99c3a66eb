// A = Q R by Householder reflections, as LAPACK's geqrf has it: Q is the product of I - tau[k] v v^H, where v
// is zero above row k, one in it, and column k of the factors below.
#pragma once

#include <Eigen/Householder>
#include <Eigen/QR>

#include "matrices.h"

namespace opbridge::op {

template <class S>
struct Reflections {
  Matrix<S> factors;  // R, and below its diagonal the v
  Vector<S> tau;
};

template <class S>
Reflections<S> factor_qr(const Matrix<S>& a) {
  if (a.size() == 0) return {a, Vector<S>::Zero(std::min(a.rows(), a.cols()))};
  const Eigen::HouseholderQR<Matrix<S>> qr(a);
  // Eigen's reflections take A to R; these make Q.
  return {qr.matrixQR(), qr.hCoeffs().conjugate()};
}

// Q b, or Q^H b.
template <class S, class B>
void apply_q(const Reflections<S>& r, B&& b, bool adjoint) {
  if (r.tau.size() == 0 || b.size() == 0) return;
  Eigen::HouseholderSequence<Matrix<S>, Vector<S>> q(r.factors, r.tau);
  q.setLength(r.tau.size());
  if (adjoint) {
    b.applyOnTheLeft(q.adjoint());
  } else {
    b.applyOnTheLeft(q);
  }
}

// The first columns of Q.
template <class S>
Matrix<S> first_columns_of_q(const Reflections<S>& r, Eigen::Index columns) {
  Matrix<S> q = Matrix<S>::Identity(r.factors.rows(), columns);
  apply_q(r, q, false);
  return q;
}

}  // namespace opbridge::op
