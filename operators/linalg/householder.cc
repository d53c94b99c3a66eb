#include "householder.h"

#include <Eigen/Householder>

#include "reflection.h"

namespace opbridge::op {
namespace {

template <class S>
void apply_q(const Eigen::Ref<const Matrix<S>>& factors, const Vector<S>& tau, Eigen::Ref<Matrix<S>> b,
             bool adjoint) {
  if (tau.size() == 0 || b.size() == 0) return;
  Eigen::HouseholderSequence<Eigen::Ref<const Matrix<S>>, Vector<S>> q(factors, tau);
  q.setLength(tau.size());
  if (adjoint) {
    b.applyOnTheLeft(q.adjoint());
  } else {
    b.applyOnTheLeft(q);
  }
}

}  // namespace

// Eigen's own factorization squares the elements, which may overflow or underflow.
template <class S>
Reflections<S> Reflections<S>::of(Matrix<S> a) {
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
    apply_q<S>(a.block(start, start, rows - start, end - start), of_panel,
               a.bottomRightCorner(rows - start, columns - end), true);
  }
  return {std::move(a), std::move(tau)};
}

template <class S>
void Reflections<S>::apply(Eigen::Ref<Matrix<S>> b, bool adjoint) const {
  apply_q<S>(factors, tau, b, adjoint);
}

template <class S>
Matrix<S> Reflections<S>::first_columns(Eigen::Index columns) const {
  Matrix<S> q = Matrix<S>::Identity(factors.rows(), columns);
  apply(q, false);
  return q;
}

template struct Reflections<float>;
template struct Reflections<double>;
template struct Reflections<std::complex<float>>;
template struct Reflections<std::complex<double>>;

}  // namespace opbridge::op
