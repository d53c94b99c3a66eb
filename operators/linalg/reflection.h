// A Householder reflection H = I - tau v v^H with v(0) = 1, with the signs and magnitudes of LAPACK's larfg.
// H^H x is a real multiple of the first unit vector, with the sign of -Re x(0). If x is already such a
// multiple, H is I.
#pragma once

#include <cmath>
#include <limits>

#include "matrices.h"

namespace opbridge::op {

// The greatest |x| of a finite matrix, 0 if it is empty. If |x| of a complex number overflows, this is the
// greatest finite number. Eigen's abs of complex numbers overflows as soon as squares do.
template <class M>
RealOf<typename M::Scalar> greatest_size(const M& matrix) {
  using R = RealOf<typename M::Scalar>;
  R result = 0;
  for (Eigen::Index j = 0; j < matrix.cols(); ++j) {
    for (Eigen::Index i = 0; i < matrix.rows(); ++i) result = std::max(result, std::abs(matrix(i, j)));
  }
  return std::min(result, std::numeric_limits<R>::max());
}

// |x| with the sign of y; zero counts as positive whatever its sign bit, as in the Fortran of PyTorch's
// LAPACK.
template <class R>
R with_sign(R x, R y) {
  return y < 0 ? -std::abs(x) : std::abs(x);
}

// Replaces the first component of `x` by that of H^H x, and the others by v; returns tau.
template <class X, class S = typename std::remove_reference_t<X>::Scalar>
S make_reflection(X&& x) {
  using R = RealOf<S>;
  const S alpha = x(0);
  const R real = Eigen::numext::real(alpha);
  // The components to eliminate: all real numbers in x but the first.
  const Eigen::Index count = (Eigen::NumTraits<S>::IsComplex ? 2 : 1) * x.size() - 1;
  const Eigen::Map<const Vector<R>> rest(reinterpret_cast<const R*>(x.data()) + 1, count);
  const R size = count > 0 ? rest.stableNorm() : R(0);
  if (size == 0) return S(0);
  const R beta = -with_sign(std::hypot(real, size), real);
  // Tiny numbers have too few bits for an accurate v, and their inverse overflows.
  constexpr R kSmall = std::numeric_limits<R>::min() / std::numeric_limits<R>::epsilon();
  if (std::abs(beta) < kSmall) {
    x *= 1 / kSmall;
    const S tau = make_reflection(x);
    x(0) *= kSmall;
    return tau;
  }
  x.tail(x.size() - 1) *= S(1) / (alpha - beta);
  x(0) = beta;
  return (beta - alpha) / beta;
}

// H a and a H; v(0) is stored as one.
template <class S, class A>
void reflect_left(const Vector<S>& v, S tau, A&& a) {
  if (tau == S(0)) return;
  const Eigen::Matrix<S, 1, Eigen::Dynamic> sums = v.adjoint() * a;
  a.noalias() -= (tau * v) * sums;
}
template <class S, class A>
void reflect_right(const Vector<S>& v, S tau, A&& a) {
  if (tau == S(0)) return;
  const Vector<S> sums = a * v;
  a.noalias() -= (tau * sums) * v.adjoint();
}

}  // namespace opbridge::op
