// H = Z T Z^T of a real Hessenberg matrix, T quasi-triangular, by Francis' double-shift QR iteration, with
// the steps of LAPACK's lahqr. The deflation criterion is that of Ahues and Tisseur ("A new deflation
// criterion for the QR algorithm", 1997). Eigenvalues are in diagonal order.
#pragma once

#include "reflection.h"
#include "schur_pair.h"

namespace opbridge::op {

template <class R>
class RealSchur {
  using Index = Eigen::Index;

 public:
  // Rows and columns first to last of `h` are not triangular yet. `z` is multiplied by Z from the right; it
  // is null if T is not wanted either.
  RealSchur(Matrix<R>& h, Index first, Index last, Matrix<R>* z, Vector<std::complex<R>>& values)
      : h_(h), z_(z), values_(values), first_(first), last_(last) {}

  // Returns false if the iteration does not converge.
  bool run() {
    for (Index i = 0; i < h_.rows(); ++i) {
      if (i < first_ || i > last_) values_[i] = h_(i, i);
    }
    least_ = std::numeric_limits<R>::min() * (static_cast<R>(last_ - first_ + 1) / kPrecision);
    for (Index end = last_; end >= first_;) {
      const Index begin = isolate(end);
      if (begin < 0) return false;
      if (begin == end) {
        values_[end] = h_(end, end);
      } else {
        finish_pair(begin);
      }
      end = begin - 1;
    }
    return true;
  }

 private:
  static constexpr R kPrecision = std::numeric_limits<R>::epsilon();

  // Iterates on the block that ends at `end` until its last one or two rows decouple, and returns the first
  // of these; negative if it takes too many steps.
  Index isolate(Index end) {
    const Index limit = 30 * std::max<Index>(10, last_ - first_ + 1);
    for (Index count = 1; count <= limit + 1; ++count) {
      const Index begin = start_of_block(end);
      if (begin > first_) h_(begin, begin - 1) = 0;
      if (begin >= end - 1) return begin;
      const Index from = z_ ? 0 : begin, to = z_ ? h_.rows() - 1 : end;
      sweep(begin, end, from, to, choose_shifts(begin, end, count));
    }
    return -1;
  }

  Index start_of_block(Index end) const {
    Index k = end;
    for (; k > first_ && !is_negligible(k); --k) {
    }
    return k;
  }

  // Whether h(k, k-1) is negligible compared with its neighbours.
  bool is_negligible(Index k) const {
    const R below = std::abs(h_(k, k - 1));
    if (below <= least_) return true;
    R around = std::abs(h_(k - 1, k - 1)) + std::abs(h_(k, k));
    if (around == 0) {
      if (k - 2 >= first_) around += std::abs(h_(k - 1, k - 2));
      if (k + 1 <= last_) around += std::abs(h_(k + 1, k));
    }
    if (below > kPrecision * around) return false;
    const R above = std::abs(h_(k - 1, k)), corner = std::abs(h_(k, k)),
            apart = std::abs(h_(k - 1, k - 1) - h_(k, k));
    const R ab = std::max(below, above), ba = std::min(below, above);
    const R aa = std::max(corner, apart), bb = std::min(corner, apart);
    const R sum = aa + ab;
    return ba * (ab / sum) <= std::max(least_, kPrecision * (bb * (aa / sum)));
  }

  struct Shifts {
    R real1, imaginary1, real2, imaginary2;
  };

  // The eigenvalues of the last two rows. Every tenth pair of shifts is exceptional, to break cycles.
  Shifts choose_shifts(Index begin, Index end, Index count) const {
    R a, b, c, d;
    if (count % 10 == 0) {
      const bool at_end = count % 20 == 0;
      c = at_end ? std::abs(h_(end, end - 1)) + std::abs(h_(end - 1, end - 2))
                 : std::abs(h_(begin + 1, begin)) + std::abs(h_(begin + 2, begin + 1));
      const Index corner = at_end ? end : begin;
      a = d = R(0.75) * c + h_(corner, corner);
      b = R(-0.4375) * c;
    } else {
      a = h_(end - 1, end - 1), b = h_(end - 1, end), c = h_(end, end - 1), d = h_(end, end);
    }
    const R size = std::abs(a) + std::abs(b) + std::abs(c) + std::abs(d);
    if (size == 0) return {0, 0, 0, 0};
    a /= size, b /= size, c /= size, d /= size;
    const R middle = (a + d) / 2, determinant = (a - middle) * (d - middle) - b * c;
    const R root = std::sqrt(std::abs(determinant));
    if (determinant >= 0) return {middle * size, root * size, middle * size, -root * size};
    const R up = middle + root, down = middle - root;
    const R shift = (std::abs(up - d) <= std::abs(down - d) ? up : down) * size;
    return {shift, 0, shift, 0};
  }

  // One double-shift step on rows begin to end. Updates the rows from `from` on and the columns up to `to`.
  void sweep(Index begin, Index end, Index from, Index to, const Shifts& shift) {
    Vector<R> v(3);
    const Index start = first_column(begin, end, shift, v);
    for (Index k = start; k < end; ++k) {
      const Index size = std::min<Index>(3, end - k + 1);
      if (k > start) v = h_.col(k - 1).segment(k, size);
      const R tau = make_reflection(v);
      if (k > start) {
        h_(k, k - 1) = v[0];
        h_.col(k - 1).segment(k + 1, size - 1).setZero();
      } else if (start > begin) {
        h_(k, k - 1) *= 1 - tau;  // not -1: tau is zero if the rest of v underflows
      }
      v[0] = 1;
      apply(h_.block(k, k, size, to - k + 1).transpose(), v, tau);
      apply(h_.block(from, k, std::min(k + 3, end) - from + 1, size), v, tau);
      if (z_) apply(z_->middleCols(k, size), v, tau);
    }
  }

  // Finds a row where two small subdiagonal elements let the step begin. Sets `v` to the first column of (H -
  // shift1) (H - shift2) there, up to scaling.
  Index first_column(Index begin, Index end, const Shifts& shift, Vector<R>& v) const {
    for (Index m = end - 2;; --m) {
      const R corner = h_(m, m), below = h_(m + 1, m);
      const R size = std::abs(corner - shift.real2) + std::abs(shift.imaginary2) + std::abs(below);
      const R ratio = below / size;
      v[0] = ratio * h_(m, m + 1) + (corner - shift.real1) * ((corner - shift.real2) / size) -
             shift.imaginary1 * (shift.imaginary2 / size);
      v[1] = ratio * (corner + h_(m + 1, m + 1) - shift.real1 - shift.real2);
      v[2] = ratio * h_(m + 2, m + 1);
      v /= std::abs(v[0]) + std::abs(v[1]) + std::abs(v[2]);
      if (m == begin) return m;
      const R left = std::abs(h_(m, m - 1)) * (std::abs(v[1]) + std::abs(v[2]));
      const R around = std::abs(h_(m - 1, m - 1)) + std::abs(corner) + std::abs(h_(m + 1, m + 1));
      if (left <= kPrecision * std::abs(v[0]) * around) return m;
    }
  }

  // Applies a reflection to two or three rows.
  template <class A>
  static void apply(A&& a, const Vector<R>& v, R tau) {
    const bool three = a.cols() == 3;
    for (Index j = 0; j < a.rows(); ++j) {
      const R sum = a(j, 0) + v[1] * a(j, 1) + (three ? v[2] * a(j, 2) : R(0));
      a(j, 0) -= sum * tau;
      a(j, 1) -= sum * (tau * v[1]);
      if (three) a(j, 2) -= sum * (tau * v[2]);
    }
  }

  void finish_pair(Index i) {
    R &a = h_(i, i), &b = h_(i, i + 1), &c = h_(i + 1, i), &d = h_(i + 1, i + 1);
    const Rotation<R> q = make_schur_pair(a, b, c, d);
    std::tie(values_[i], values_[i + 1]) = eigenvalues_of_pair(a, b, c, d);
    if (!z_) return;
    const Index right = h_.cols() - i - 2;
    rotate(h_.row(i).tail(right), h_.row(i + 1).tail(right), q);
    rotate(h_.col(i).head(i), h_.col(i + 1).head(i), q);
    rotate(z_->col(i), z_->col(i + 1), q);
  }

  Matrix<R>& h_;
  Matrix<R>* z_;
  Vector<std::complex<R>>& values_;
  Index first_, last_;
  R least_ = 0;
};

}  // namespace opbridge::op
