// Eigenvalues and eigenvectors of any square matrix, by the steps of LAPACK's geev, so that the order and the
// scaling of the vectors are PyTorch's.
#pragma once

#include "balance.h"
#include "hessenberg.h"
#include "schur_complex.h"
#include "schur_real.h"
#include "triangular_vectors.h"

namespace opbridge::op {

template <class R>
struct Eigensystem {
  Vector<std::complex<R>> values;
  Matrix<std::complex<R>> vectors;
};

// Scales vectors to length one and makes the largest component real. In the complex pair of a real matrix it
// may be negative: LAPACK rotates the real and imaginary parts like the components of a plane.
template <class R>
void normalize(Matrix<std::complex<R>>& vectors, const Vector<std::complex<R>>& values, bool real) {
  using C = std::complex<R>;
  for (Eigen::Index k = 0; k < vectors.cols(); ++k) {
    auto v = vectors.col(k);
    v *= 1 / v.stableNorm();
    if (real && values[k].imag() == 0) continue;
    // The second vector of a pair is the conjugate of the first.
    if (real && values[k].imag() < 0) {
      v = vectors.col(k - 1).conjugate();
      continue;
    }
    Eigen::Index largest;
    v.cwiseAbs2().maxCoeff(&largest);
    const C component = v(largest);
    if (real) {
      R r;
      const auto turn = std::is_same_v<R, float> ? make_rotation<R> : make_older_rotation<R>;
      const Rotation<R> q = turn(component.real(), component.imag(), r);
      v *= C(q.c, -q.s);
    } else {
      v *= std::conj(component) / std::abs(component);
    }
    v(largest) = v(largest).real();
  }
}

template <class S>
Eigensystem<RealOf<S>> eigensystem(Matrix<S> a, bool with_vectors) {
  using R = RealOf<S>;
  const Eigen::Index n = a.rows();
  Eigensystem<R> result{Vector<std::complex<R>>(n), {}};
  if (n == 0) return result;
  // Between `low` and its inverse, squares neither overflow nor underflow.
  const R low = std::sqrt(std::numeric_limits<R>::min()) / std::numeric_limits<R>::epsilon();
  const R greatest = greatest_size(a);
  const R goal = greatest > 0 && greatest < low ? low : greatest > 1 / low ? 1 / low : greatest;
  const bool scaled = goal != greatest;
  if (scaled) a = (a / greatest) * goal;

  const Balance<S> balance(a);
  Matrix<S> z = reduce_to_hessenberg(a, balance.first(), balance.last(), with_vectors);
  using Schur = std::conditional_t<Eigen::NumTraits<S>::IsComplex, ComplexSchur<R>, RealSchur<R>>;
  Schur schur(a, balance.first(), balance.last(), with_vectors ? &z : nullptr, result.values);
  require(schur.run(), "the iteration for the eigenvalues does not converge");
  if (with_vectors) {
    result.vectors = eigenvectors_of_schur(a, z);
    balance.undo(result.vectors);
    normalize(result.vectors, result.values, !Eigen::NumTraits<S>::IsComplex);
  }
  if (scaled) result.values = (result.values / goal) * greatest;
  return result;
}

}  // namespace opbridge::op
