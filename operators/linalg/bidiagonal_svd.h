// Singular values and vectors of a real upper bidiagonal matrix by implicit QR iteration. The shift is zero
// where small values would lose their relative accuracy (Demmel and Kahan, "Accurate singular values of
// bidiagonal matrices", 1990). Directions, shifts and signs are those of LAPACK's bdsqr, so that the vectors
// have PyTorch's signs.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "rotation.h"

namespace opbridge::op {

template <class R>
class BidiagonalSvd {
 public:
  // Takes the diagonal and the superdiagonal. `u` and `v`, null or with as many columns, are multiplied by
  // the vectors.
  BidiagonalSvd(Vector<R>& d, Vector<R>& e, Matrix<R>* u, Matrix<R>* v)
      : d_(d), e_(e), u_(u), v_(v), n_(d.size()) {}

  // Turns the matrix, whose `e` is the subdiagonal, into an upper bidiagonal one.
  void raise() {
    for (Index i = 0; i + 1 < n_; ++i) {
      R r;
      const Rotation<R> q = make_rotation(d_[i], e_[i], r);
      d_[i] = r;
      e_[i] = q.s * d_[i + 1];
      d_[i + 1] *= q.c;
      rotate(u_, i, q);
    }
  }

  // `d` becomes the singular values, the greatest first. Returns false if the iteration does not converge.
  bool run() {
    if (n_ > 1 && !iterate()) return false;
    Matrix<R>* const flipped = n_ == 1 ? u_ : v_;  // as in bdsdc
    for (Index i = 0; i < n_; ++i) {
      if (d_[i] < 0 && flipped) flipped->col(i) *= -1;
      d_[i] = std::abs(d_[i]);
    }
    sort();
    return true;
  }

 private:
  using Index = Eigen::Index;
  static constexpr R kEpsilon = std::numeric_limits<R>::epsilon() / 2;

  static void rotate(Matrix<R>* vectors, Index i, Rotation<R> q) {
    if (vectors) op::rotate(vectors->col(i), vectors->col(i + 1), q);
  }

  // A lower bound of the smallest singular value, times sqrt(n).
  R least_singular_value() const {
    R mu = std::abs(d_[0]), least = mu;
    for (Index i = 1; i < n_ && least > 0; ++i) {
      mu = std::abs(d_[i]) * (mu / (mu + std::abs(e_[i - 1])));
      least = std::min(least, mu);
    }
    return least;
  }

  bool iterate() {
    const auto n = static_cast<R>(n_);
    threshold_ = std::max(kTolerance * least_singular_value() / std::sqrt(n),
                          6 * n * n * std::numeric_limits<R>::min());
    Index last = n_ - 1, old_first = -1, old_last = -1;
    bool down = true;
    for (Index left = 30 * n_ * n_; last > 0; --left) {
      if (left == 0) return false;
      // The last block with no zero on its superdiagonal, [first, last].
      Index first = last;
      R greatest = std::abs(d_[last]);
      while (first > 0 && std::abs(e_[first - 1]) > threshold_) {
        --first;
        greatest = std::max({greatest, std::abs(d_[first]), std::abs(e_[first])});
      }
      if (first > 0) e_[first - 1] = 0;
      if (first == last) {
        --last;
        continue;
      }
      if (first == last - 1) {
        solve_pair(first);
        last -= 2;
        continue;
      }
      // The iteration in a new block runs from its larger end to the smaller.
      if (first > old_last || last < old_first) down = std::abs(d_[first]) >= std::abs(d_[last]);
      old_first = first;
      old_last = last;
      R least;
      if (deflates(first, last, down, least)) continue;
      const R shift = choose_shift(first, last, down, least, greatest);
      if (shift == 0) {
        down ? sweep_down_unshifted(first, last) : sweep_up_unshifted(first, last);
      } else {
        down ? sweep_down(first, last, shift) : sweep_up(first, last, shift);
      }
      R& end = down ? e_[last - 1] : e_[first];
      if (std::abs(end) <= threshold_) end = 0;
    }
    return true;
  }

  // Zeroes a negligible superdiagonal element. If there is none, `least` bounds the smallest singular value.
  bool deflates(Index first, Index last, bool down, R& least) {
    R& end = down ? e_[last - 1] : e_[first];
    if (std::abs(end) <= kTolerance * std::abs(d_[down ? last : first])) {
      end = 0;
      return true;
    }
    R mu = std::abs(d_[down ? first : last]);
    least = mu;
    for (Index step = 0; step < last - first; ++step) {
      const Index i = down ? first + step : last - 1 - step;
      if (std::abs(e_[i]) <= kTolerance * mu) {
        e_[i] = 0;
        return true;
      }
      mu = std::abs(d_[down ? i + 1 : i]) * (mu / (mu + std::abs(e_[i])));
      least = std::min(least, mu);
    }
    return false;
  }

  R choose_shift(Index first, Index last, bool down, R least, R greatest) const {
    if (static_cast<R>(n_) * kTolerance * (least / greatest) <= std::max(kEpsilon, R(0.01) * kTolerance)) {
      return 0;
    }
    const Index i = down ? last - 1 : first;
    const R shift = smaller_value(d_[i], e_[i], d_[i + 1]);
    const R start = std::abs(d_[down ? first : last]);
    return start > 0 && (shift / start) * (shift / start) < kEpsilon ? 0 : shift;
  }

  // The smaller singular value of [f g; 0 h].
  static R smaller_value(R f, R g, R h) {
    const R small = std::min(std::abs(f), std::abs(h)), large = std::max(std::abs(f), std::abs(h));
    if (small == 0) return 0;
    const R size = std::abs(g);
    if (size < large) {
      const R sum = 1 + small / large, difference = (large - small) / large, ratio = size / large;
      return small * 2 / (std::hypot(sum, ratio) + std::hypot(difference, ratio));
    }
    const R ratio = large / size;
    if (ratio == 0) return small * large / size;
    const R sum = 1 + small / large, difference = (large - small) / large;
    return 2 * small * ratio / (std::hypot(sum * ratio, R(1)) + std::hypot(difference * ratio, R(1)));
  }

  // A sweep replaces the matrix B by L B R^T with rotations L and R.
  void sweep_down_unshifted(Index first, Index last) {
    Rotation<R> right{1, 0}, left{1, 0};
    for (Index i = first; i < last; ++i) {
      R r;
      right = make_rotation(d_[i] * right.c, e_[i], r);
      if (i > first) e_[i - 1] = left.s * r;
      left = make_rotation(left.c * r, d_[i + 1] * right.s, d_[i]);
      rotate(v_, i, right);
      rotate(u_, i, left);
    }
    const R h = d_[last] * right.c;
    d_[last] = h * left.c;
    e_[last - 1] = h * left.s;
  }

  void sweep_up_unshifted(Index first, Index last) {
    Rotation<R> left{1, 0}, right{1, 0};
    for (Index i = last; i > first; --i) {
      R r;
      left = make_rotation(d_[i] * left.c, e_[i - 1], r);
      if (i < last) e_[i] = right.s * r;
      right = make_rotation(right.c * r, d_[i - 1] * left.s, d_[i]);
      rotate(u_, i - 1, {left.c, -left.s});
      rotate(v_, i - 1, {right.c, -right.s});
    }
    const R h = d_[first] * left.c;
    d_[first] = h * right.c;
    e_[first] = h * right.s;
  }

  R start(R d, R shift) const { return (std::abs(d) - shift) * (with_sign(R(1), d) + shift / d); }

  void sweep_down(Index first, Index last, R shift) {
    R f = start(d_[first], shift), g = e_[first], r;
    for (Index i = first; i < last; ++i) {
      const Rotation<R> right = make_rotation(f, g, r);
      if (i > first) e_[i - 1] = r;
      f = right.c * d_[i] + right.s * e_[i];
      e_[i] = right.c * e_[i] - right.s * d_[i];
      g = right.s * d_[i + 1];
      d_[i + 1] *= right.c;
      const Rotation<R> left = make_rotation(f, g, d_[i]);
      f = left.c * e_[i] + left.s * d_[i + 1];
      d_[i + 1] = left.c * d_[i + 1] - left.s * e_[i];
      if (i + 1 < last) {
        g = left.s * e_[i + 1];
        e_[i + 1] *= left.c;
      }
      rotate(v_, i, right);
      rotate(u_, i, left);
    }
    e_[last - 1] = f;
  }

  void sweep_up(Index first, Index last, R shift) {
    R f = start(d_[last], shift), g = e_[last - 1], r;
    for (Index i = last; i > first; --i) {
      const Rotation<R> left = make_rotation(f, g, r);
      if (i < last) e_[i] = r;
      f = left.c * d_[i] + left.s * e_[i - 1];
      e_[i - 1] = left.c * e_[i - 1] - left.s * d_[i];
      g = left.s * d_[i - 1];
      d_[i - 1] *= left.c;
      const Rotation<R> right = make_rotation(f, g, d_[i]);
      f = right.c * e_[i - 1] + right.s * d_[i - 1];
      d_[i - 1] = right.c * d_[i - 1] - right.s * e_[i - 1];
      if (i - 1 > first) {
        g = right.s * e_[i - 2];
        e_[i - 2] *= right.c;
      }
      rotate(u_, i - 1, {left.c, -left.s});
      rotate(v_, i - 1, {right.c, -right.s});
    }
    e_[first] = f;
  }

  // Solves the 2x2 block [f g; 0 h].
  void solve_pair(Index i) {
    R f = d_[i], h = d_[i + 1];
    const R g = e_[i];
    // The transpose with rows and columns reversed has f and h exchanged.
    const bool swapped = std::abs(h) > std::abs(f);
    if (swapped) std::swap(f, h);
    Rotation<R> right{1, 0}, left{1, 0};  // singular vectors of the greater value
    R greater = f, smaller = h;
    if (g != 0 && std::abs(f) < kEpsilon * std::abs(g)) {
      right = {f / g, 1};
      left = {1, h / g};
      greater = g;
      smaller = -h * (f / g);
    } else if (g != 0) {
      // In units of f, s and r are the sum and the difference of the two singular values.
      const R m = g / f, l = (std::abs(f) - std::abs(h)) / std::abs(f), t = 2 - l;
      const R s = std::hypot(t, m), r = std::hypot(l, m), a = (s + r) / 2;
      const R tangent = (m / (s + t) + (r + l == 0 ? with_sign(R(1), m) : m / (r + l))) * (1 + a);
      const R length = std::hypot(tangent, R(2));
      right = {2 / length, tangent / length};
      left = {(right.c + right.s * m) / a, h / f * right.s / a};
      greater = f * a;
      smaller = h / a;
    }
    if (swapped) {
      std::swap(left, right);
      std::swap(left.c, left.s);
      std::swap(right.c, right.s);
    }
    d_[i] = greater;
    e_[i] = 0;
    d_[i + 1] = smaller;
    rotate(v_, i, right);
    rotate(u_, i, left);
  }

  // Selection sort, as in LAPACK: it determines the order of the vectors of equal values.
  void sort() {
    for (Index end = n_ - 1; end > 0; --end) {
      Index least = 0;
      for (Index i = 1; i <= end; ++i) {
        if (d_[i] <= d_[least]) least = i;
      }
      if (least == end) continue;
      std::swap(d_[least], d_[end]);
      if (u_) u_->col(least).swap(u_->col(end));
      if (v_) v_->col(least).swap(v_->col(end));
    }
  }

  static inline const R kTolerance = std::clamp(std::pow(kEpsilon, R(-0.125)), R(10), R(100)) * kEpsilon;

  Vector<R>& d_;
  Vector<R>& e_;
  Matrix<R>* u_;
  Matrix<R>* v_;
  Index n_;
  R threshold_ = 0;
};

}  // namespace opbridge::op
