// Balances a matrix as LAPACK's gebal does. Permutes rows and columns that are already triangular to both
// ends of the matrix. Then scales by powers of two until each remaining row is about as long as its column
// (Parlett and Reinsch, "Balancing a matrix for calculation of eigenvalues and eigenvectors", 1969; in the
// 2-norm: James, Langou and Lowery, "On matrix balancing and eigenvector computation", 2014).
#pragma once

#include <limits>

#include "reflection.h"

namespace opbridge::op {

template <class S>
class Balance {
  using R = RealOf<S>;
  using Index = Eigen::Index;

 public:
  explicit Balance(Matrix<S>& a) : first_(0), last_(a.rows() - 1), swapped_(a.rows()), scale_(a.rows()) {
    permute(a);
    scale_.setOnes();
    scale(a);
  }

  // The remaining rows and columns, which are not triangular: first to last.
  Index first() const { return first_; }
  Index last() const { return last_; }

  // Turns the eigenvectors of the balanced matrix into those of the original one.
  template <class V>
  void undo(Matrix<V>& vectors) const {
    for (Index i = first_; i <= last_; ++i) vectors.row(i) *= scale_[i];
    for (Index i = first_; i-- > 0;) swap_rows(vectors, i);
    for (Index i = last_ + 1; i < vectors.rows(); ++i) swap_rows(vectors, i);
  }

 private:
  template <class V>
  void swap_rows(Matrix<V>& vectors, Index i) const {
    if (swapped_[i] != i) vectors.row(i).swap(vectors.row(swapped_[i]));
  }

  void exchange(Matrix<S>& a, Index i, Index end) {
    swapped_[end] = i;
    if (i == end) return;
    a.col(i).head(last_ + 1).swap(a.col(end).head(last_ + 1));
    const Index width = a.cols() - first_;
    a.row(i).tail(width).swap(a.row(end).tail(width));
  }

  // Whether row i (or column i) of the remaining part is zero off the diagonal.
  bool row_is_done(const Matrix<S>& a, Index i) const {
    for (Index j = 0; j <= last_; ++j) {
      if (j != i && a(i, j) != S(0)) return false;
    }
    return true;
  }
  bool column_is_done(const Matrix<S>& a, Index j) const {
    for (Index i = first_; i <= last_; ++i) {
      if (i != j && a(i, j) != S(0)) return false;
    }
    return true;
  }

  void permute(Matrix<S>& a) {
    // The search restarts after each exchange; the order of the eigenvalues depends on it.
    for (Index i = last_; i >= 0; --i) {
      if (!row_is_done(a, i)) continue;
      exchange(a, i, last_);
      if (last_ == 0) return;
      i = last_--;
    }
    for (Index j = first_; j <= last_; ++j) {
      if (!column_is_done(a, j)) continue;
      exchange(a, j, first_);
      j = first_++;
    }
  }

  void scale(Matrix<S>& a) {
    constexpr R kLeast = std::numeric_limits<R>::min() / std::numeric_limits<R>::epsilon();
    constexpr R kGreatest = 1 / kLeast, kLow = 2 * kLeast, kHigh = 1 / kLow;
    const Index size = last_ - first_ + 1;
    if (size <= 1) return;
    for (bool changed = true; changed;) {
      changed = false;
      for (Index i = first_; i <= last_; ++i) {
        R column = a.col(i).segment(first_, size).stableNorm(),
          row = a.row(i).segment(first_, size).stableNorm();
        if (column == 0 || row == 0) continue;
        R most_of_column = greatest_size(a.col(i).head(last_ + 1));
        R most_of_row = greatest_size(a.row(i).tail(a.cols() - first_));
        const R sum = column + row;
        R factor = 1;
        while (column < row / 2 && std::max({factor, column, most_of_column}) < kHigh &&
               std::min(row / 2, most_of_row) > kLow) {
          factor *= 2, column *= 2, most_of_column *= 2;
          row /= 2, most_of_row /= 2;
        }
        while (column / 2 >= row && std::max(row, most_of_row) < kHigh &&
               std::min({factor, column / 2, most_of_column}) > kLow) {
          factor /= 2, column /= 2, most_of_column /= 2;
          row *= 2, most_of_row *= 2;
        }
        if (column + row >= R(0.95) * sum) continue;
        if (factor < 1 && scale_[i] < 1 && factor * scale_[i] <= kLeast) continue;
        if (factor > 1 && scale_[i] > 1 && scale_[i] >= kGreatest / factor) continue;
        scale_[i] *= factor;
        changed = true;
        a.row(i).tail(a.cols() - first_) *= 1 / factor;
        a.col(i).head(last_ + 1) *= factor;
      }
    }
  }

  Index first_, last_;
  Vector<Index> swapped_;  // the row with which each was exchanged, if any
  Vector<R> scale_;
};

}  // namespace opbridge::op
