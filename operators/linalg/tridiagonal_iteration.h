// Eigenvalues and eigenvectors of a real symmetric tridiagonal matrix by implicit QL or QR iteration,
// starting at the smaller end (Dubrulle, Martin and Wilkinson, "The implicit QL algorithm", 1968). The steps
// are those of LAPACK's steqr, so that the vectors have its signs.
#pragma once

#include <limits>

#include "rotation.h"

namespace opbridge::op {

template <class R>
class TridiagonalIteration {
  using Index = Eigen::Index;

 public:
  // Takes the diagonal and the subdiagonal. `z` is multiplied by the eigenvectors from the right.
  TridiagonalIteration(Vector<R>& d, Vector<R>& e, Matrix<R>& z) : d_(d), e_(e), z_(z), n_(d.size()) {}

  // `d` becomes the eigenvalues, the least first. Returns false if the iteration does not converge.
  bool run() {
    left_ = 30 * n_;
    for (Index begin = 0; begin < n_;) {
      Index end = begin;
      while (end + 1 < n_ && !splits(end)) ++end;
      if (end + 1 < n_) e_[end] = 0;
      if (end > begin && !solve_block(begin, end)) return false;
      begin = end + 1;
    }
    sort();
    return true;
  }

 private:
  static constexpr R kEpsilon = std::numeric_limits<R>::epsilon() / 2;

  bool splits(Index i) const {
    const R size = std::abs(e_[i]);
    return size == 0 || size <= std::sqrt(std::abs(d_[i])) * std::sqrt(std::abs(d_[i + 1])) * kEpsilon;
  }

  // Solves rows begin to end, scaled so that squares neither overflow nor underflow.
  bool solve_block(Index begin, Index end) {
    const R least = std::sqrt(std::numeric_limits<R>::min()) / (kEpsilon * kEpsilon);
    const R greatest = std::sqrt(1 / std::numeric_limits<R>::min()) / 3;
    auto d = d_.segment(begin, end - begin + 1);
    auto e = e_.segment(begin, end - begin);
    const R size = std::max(d.cwiseAbs().maxCoeff(), e.cwiseAbs().maxCoeff());
    if (size == 0) return true;
    const R goal = size > greatest ? greatest : size < least ? least : size;
    if (goal != size) {
      d = (d / size) * goal;
      e = (e / size) * goal;
    }
    const bool down = std::abs(d_[end]) >= std::abs(d_[begin]);
    const bool converges = down ? iterate(begin, end, 1) : iterate(end, begin, -1);
    if (goal != size) {
      d = (d / goal) * size;
      e = (e / goal) * size;
    }
    return converges;
  }

  // The off-diagonal element between i and its neighbour in the direction of `step`.
  R& off_diagonal(Index i, Index step) { return e_[step > 0 ? i : i - 1]; }

  // Finds eigenvalues one after the other, from `first` to `last`.
  bool iterate(Index first, Index last, Index step) {
    while ((last - first) * step >= 0) {
      Index end = first;
      while (end != last && !is_negligible(end, step)) end += step;
      if (end != last) off_diagonal(end, step) = 0;
      if (end == first) {
        first += step;
      } else if (end == first + step) {
        solve_pair(std::min(first, end));
        first += 2 * step;
      } else {
        if (left_ == 0) return false;
        --left_;
        sweep(first, end, step);
      }
    }
    return true;
  }

  bool is_negligible(Index i, Index step) {
    const R size = std::abs(off_diagonal(i, step));
    return size * size <=
           (kEpsilon * kEpsilon * std::abs(d_[i])) * std::abs(d_[i + step]) + std::numeric_limits<R>::min();
  }

  // Chases a bulge from `end` to `first`.
  void sweep(Index first, Index end, Index step) {
    R g = (d_[first + step] - d_[first]) / (2 * off_diagonal(first, step));
    g = d_[end] - d_[first] + off_diagonal(first, step) / (g + with_sign(std::hypot(g, R(1)), g));
    Rotation<R> q{1, 1};
    R p = 0, r;
    for (Index i = end - step;; i -= step) {
      const R f = q.s * off_diagonal(i, step), b = q.c * off_diagonal(i, step);
      q = make_older_rotation(g, f, r);
      if (i != end - step) off_diagonal(i + step, step) = r;
      g = d_[i + step] - p;
      r = (d_[i] - g) * q.s + 2 * q.c * b;
      p = q.s * r;
      d_[i + step] = g + p;
      g = q.c * r - b;
      rotate(z_.col(i + step), z_.col(i), q);
      if (i == first) break;
    }
    d_[first] -= p;
    off_diagonal(first, step) = g;
  }

  // Solves rows i and i+1, as LAPACK's laev2 does: the eigenvalue of greater magnitude comes first.
  void solve_pair(Index i) {
    const R a = d_[i], b = e_[i], c = d_[i + 1];
    const R sum = a + c, difference = a - c, twice = std::abs(2 * b), distance = std::abs(difference);
    const R larger = std::abs(a) > std::abs(c) ? a : c, smaller = std::abs(a) > std::abs(c) ? c : a;
    const R ratio = std::min(distance, twice) / std::max(distance, twice);
    const R root = distance == twice ? twice * std::sqrt(R(2))
                                     : std::max(distance, twice) * std::sqrt(1 + ratio * ratio);
    if (sum == 0) {
      d_[i] = root / 2;
      d_[i + 1] = -root / 2;
    } else {
      d_[i] = (sum < 0 ? sum - root : sum + root) / 2;
      d_[i + 1] = (larger / d_[i]) * smaller - (b / d_[i]) * b;
    }
    e_[i] = 0;
    const R x = difference + (difference >= 0 ? root : -root);
    Rotation<R> q{1, 0};
    if (std::abs(x) > twice) {
      const R tangent = -2 * b / x;
      q.s = 1 / std::sqrt(1 + tangent * tangent);
      q.c = tangent * q.s;
    } else if (twice != 0) {
      const R tangent = -x / (2 * b);
      q.c = 1 / std::sqrt(1 + tangent * tangent);
      q.s = tangent * q.c;
    }
    if ((sum >= 0) == (difference >= 0)) q = {-q.s, q.c};
    rotate(z_.col(i), z_.col(i + 1), q);
  }

  // Selection sort, as in LAPACK: it determines the order of the vectors of equal values.
  void sort() {
    for (Index i = 0; i + 1 < n_; ++i) {
      Index least = i;
      for (Index j = i + 1; j < n_; ++j) {
        if (d_[j] < d_[least]) least = j;
      }
      if (least == i) continue;
      std::swap(d_[least], d_[i]);
      z_.col(least).swap(z_.col(i));
    }
  }

  Vector<R>& d_;
  Vector<R>& e_;
  Matrix<R>& z_;
  Index n_, left_ = 0;
};

}  // namespace opbridge::op
