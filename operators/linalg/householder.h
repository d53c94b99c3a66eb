// A = Q R by Householder reflections, as in LAPACK's geqrf. Q is the product of I - tau[k] v v^H. v is zero
// above row k, one in row k, and column k of the factors below it.
#pragma once

#include "matrices.h"

namespace opbridge::op {

// Compiled in householder.cc for the real and complex element types.
template <class S>
struct Reflections {
  Matrix<S> factors;  // R, and the vectors v below its diagonal
  Vector<S> tau;

  // The factorization of `a`.
  static Reflections of(Matrix<S> a);

  // Replaces b by Q b or Q^H b.
  void apply(Eigen::Ref<Matrix<S>> b, bool adjoint) const;

  // The first columns of Q.
  Matrix<S> first_columns(Eigen::Index columns) const;
};

}  // namespace opbridge::op
