// H = Z T Z^H of a complex Hessenberg matrix, T triangular, by single-shift QR iteration, with the steps of
// LAPACK's zlahqr. The subdiagonal stays real. The deflation criterion is that of Ahues and Tisseur ("A new
// deflation criterion for the QR algorithm", 1997).
#pragma once

#include <limits>

#include "reflection.h"

namespace opbridge::op {

template <class R>
class ComplexSchur {
  using Index = Eigen::Index;
  using C = std::complex<R>;

 public:
  // Rows and columns first to last of `h` are not triangular yet. `z` is multiplied by Z from the right; it
  // is null if T is not wanted either.
  ComplexSchur(Matrix<C>& h, Index first, Index last, Matrix<C>* z, Vector<C>& values)
      : h_(h), z_(z), values_(values), first_(first), last_(last) {}

  // Returns false if the iteration does not converge.
  bool run() {
    from_ = z_ ? 0 : first_;
    to_ = z_ ? h_.rows() - 1 : last_;
    for (Index i = first_ + 1; i <= last_; ++i) make_real(i);
    least_ = std::numeric_limits<R>::min() * (static_cast<R>(last_ - first_ + 1) / kPrecision);
    for (Index end = last_; end >= first_;) {
      const Index begin = isolate(end);
      if (begin < 0) return false;
      end = begin - 1;
    }
    values_ = h_.diagonal();
    return true;
  }

 private:
  static constexpr R kPrecision = std::numeric_limits<R>::epsilon();

  // Makes h(i, i-1) real by a similarity with a unit at index i.
  void make_real(Index i) {
    const C below = h_(i, i - 1);
    if (below.imag() == 0) return;
    C phase = below / taxicab(below);
    phase /= std::abs(phase);
    h_(i, i - 1) = std::abs(below);
    h_.row(i).segment(i, to_ - i + 1) *= std::conj(phase);
    h_.col(i).segment(from_, std::min(to_, i + 1) - from_ + 1) *= phase;
    if (z_) z_->col(i) *= phase;
  }

  // Iterates on the block that ends at `end` until its last row decouples, and returns that row; negative if
  // it takes too many steps.
  Index isolate(Index end) {
    const Index limit = 30 * std::max<Index>(10, last_ - first_ + 1);
    for (Index count = 1; count <= limit + 1; ++count) {
      Index begin = end;
      while (begin > first_ && !is_negligible(begin)) --begin;
      if (begin > first_) h_(begin, begin - 1) = 0;
      if (begin == end) return begin;
      if (!z_) {
        from_ = begin;
        to_ = end;
      }
      sweep(begin, end, choose_shift(begin, end, count));
    }
    return -1;
  }

  // Whether h(k, k-1) is negligible compared with its neighbours.
  bool is_negligible(Index k) const {
    const R below = taxicab(h_(k, k - 1));
    if (below <= least_) return true;
    R around = taxicab(h_(k - 1, k - 1)) + taxicab(h_(k, k));
    if (around == 0) {
      if (k - 2 >= first_) around += std::abs(h_(k - 1, k - 2).real());
      if (k + 1 <= last_) around += std::abs(h_(k + 1, k).real());
    }
    if (std::abs(h_(k, k - 1).real()) > kPrecision * around) return false;
    const R above = taxicab(h_(k - 1, k)), corner = taxicab(h_(k, k)),
            apart = taxicab(h_(k - 1, k - 1) - h_(k, k));
    const R ab = std::max(below, above), ba = std::min(below, above);
    const R aa = std::max(corner, apart), bb = std::min(corner, apart);
    const R sum = aa + ab;
    return ba * (ab / sum) <= std::max(least_, kPrecision * (bb * (aa / sum)));
  }

  // Wilkinson's shift: the eigenvalue of the last two rows that is closer to the last diagonal element. Every
  // tenth shift is exceptional, to break cycles.
  C choose_shift(Index begin, Index end, Index count) const {
    if (count % 20 == 0) return R(0.75) * std::abs(h_(end, end - 1).real()) + h_(end, end);
    if (count % 10 == 0) return R(0.75) * std::abs(h_(begin + 1, begin).real()) + h_(begin, begin);
    const C corner = h_(end, end);
    const C product = std::sqrt(h_(end - 1, end)) * std::sqrt(h_(end, end - 1));
    R size = taxicab(product);
    if (size == 0) return corner;
    const C x = (h_(end - 1, end - 1) - corner) / R(2);
    const R distance = taxicab(x);
    size = std::max(size, distance);
    const C a = x / size, b = product / size;
    C y = size * std::sqrt(a * a + b * b);
    if (distance > 0) {
      const C direction = x / distance;
      if (direction.real() * y.real() + direction.imag() * y.imag() < 0) y = -y;
    }
    return corner - product * (product / (x + y));
  }

  // One step on rows begin to end. Updates the rows from from_ on and the columns up to to_.
  void sweep(Index begin, Index end, C shift) {
    Vector<C> v(2);
    const Index start = first_column(begin, end, shift, v);
    for (Index k = start; k < end; ++k) {
      if (k > start) v = h_.col(k - 1).segment(k, 2);
      const C tau = make_reflection(v);
      if (k > start) {
        h_(k, k - 1) = v[0];
        h_(k + 1, k - 1) = 0;
      }
      const C v2 = v[1];
      const R t2 = (tau * v2).real();
      for (Index j = k; j <= to_; ++j) {
        const C sum = std::conj(tau) * h_(k, j) + t2 * h_(k + 1, j);
        h_(k, j) -= sum;
        h_(k + 1, j) -= sum * v2;
      }
      const auto columns = [&](Matrix<C>& a, Index top, Index bottom) {
        for (Index j = top; j <= bottom; ++j) {
          const C sum = tau * a(j, k) + t2 * a(j, k + 1);
          a(j, k) -= sum;
          a(j, k + 1) -= sum * std::conj(v2);
        }
      };
      columns(h_, from_, std::min(k + 2, end));
      if (z_) columns(*z_, 0, z_->rows() - 1);
      if (k == start && start > begin) keep_real(start, end, C(1) - tau);
    }
    make_last_real(end);
  }

  // Finds a row where two small subdiagonal elements let the step begin. Sets `v` to the first column of H -
  // shift there, up to scaling.
  Index first_column(Index begin, Index end, C shift, Vector<C>& v) const {
    for (Index m = end - 1;; --m) {
      C corner = h_(m, m) - shift;
      R below = h_(m + 1, m).real();
      const R size = taxicab(corner) + std::abs(below);
      corner /= size;
      below /= size;
      v << corner, below;
      if (m == begin) return m;
      const R around = taxicab(h_(m, m)) + taxicab(h_(m + 1, m + 1));
      if (std::abs(h_(m, m - 1).real()) * std::abs(below) <= kPrecision * (taxicab(corner) * around))
        return m;
    }
  }

  // A step that begins inside the block multiplies the negligible h(start, start-1) by `factor`. Multiplying
  // other rows by units makes the subdiagonal real again.
  void keep_real(Index start, Index end, C factor) {
    const C phase = factor / std::abs(factor);
    h_(start + 1, start) *= std::conj(phase);
    if (start + 2 <= end) h_(start + 2, start + 1) *= phase;
    for (Index j = start; j <= end; ++j) {
      if (j == start + 1) continue;
      if (to_ > j) h_.row(j).segment(j + 1, to_ - j) *= phase;
      h_.col(j).segment(from_, j - from_) *= std::conj(phase);
      if (z_) z_->col(j) *= std::conj(phase);
    }
  }

  void make_last_real(Index end) {
    const C below = h_(end, end - 1);
    if (below.imag() == 0) return;
    const R size = std::abs(below);
    h_(end, end - 1) = size;
    const C phase = below / size;
    if (to_ > end) h_.row(end).segment(end + 1, to_ - end) *= std::conj(phase);
    h_.col(end).segment(from_, end - from_) *= phase;
    if (z_) z_->col(end) *= phase;
  }

  Matrix<C>& h_;
  Matrix<C>* z_;
  Vector<C>& values_;
  Index first_, last_, from_ = 0, to_ = 0;
  R least_ = 0;
};

}  // namespace opbridge::op
