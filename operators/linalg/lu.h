// P A = L U with partial pivoting, as in LAPACK's getrf.
#pragma once

#include "matrices.h"

namespace opbridge::op {

template <class S>
struct Lu {
  Matrix<S> factors;                 // U, and L without its unit diagonal below
  std::vector<Eigen::Index> pivots;  // row k was swapped with pivots[k]
  std::int32_t zero = 0;             // the 1-based index of the first zero pivot; 0 if there is none

  bool is_odd() const {
    bool odd = false;
    for (std::size_t k = 0; k < pivots.size(); ++k) odd ^= pivots[k] != static_cast<Eigen::Index>(k);
    return odd;
  }
};

template <class S>
Lu<S> factor_lu(Matrix<S> a) {
  constexpr Eigen::Index kPanel = 32;
  const Eigen::Index rows = a.rows(), columns = a.cols(), count = std::min(rows, columns);
  Lu<S> lu;
  for (Eigen::Index start = 0; start < count; start += kPanel) {
    const Eigen::Index end = std::min(start + kPanel, count);
    for (Eigen::Index k = start; k < end; ++k) {
      Eigen::Index pivot = k;
      for (Eigen::Index i = k + 1; i < rows; ++i) {
        if (taxicab(a(i, k)) > taxicab(a(pivot, k))) pivot = i;
      }
      lu.pivots.push_back(pivot);
      if (pivot != k) a.row(k).swap(a.row(pivot));
      const Eigen::Index below = rows - k - 1, right = end - k - 1;
      if (a(k, k) != S(0)) {
        divide(a.col(k).tail(below), a(k, k));
      } else if (lu.zero == 0) {
        lu.zero = static_cast<std::int32_t>(k + 1);
      }
      // Below a zero pivot, the column contains only zeros or NaN; the update spreads NaN.
      a.block(k + 1, k + 1, below, right).noalias() -= a.col(k).tail(below) * a.row(k).segment(k + 1, right);
    }
    const Eigen::Index width = end - start, right = columns - end, below = rows - end;
    if (right == 0) continue;
    auto top = a.block(start, end, width, right);
    a.block(start, start, width, width).template triangularView<Eigen::UnitLower>().solveInPlace(top);
    a.block(end, end, below, right).noalias() -= a.block(end, start, below, width) * top;
  }
  lu.factors = std::move(a);
  return lu;
}

template <class S>
void swap_rows(Matrix<S>& b, const std::vector<Eigen::Index>& pivots) {
  for (std::size_t k = 0; k < pivots.size(); ++k) {
    const auto row = static_cast<Eigen::Index>(k);
    if (pivots[k] != row) b.row(row).swap(b.row(pivots[k]));
  }
}

// Converts the 1-based pivots of LAPACK to 0-based rows, for the i-th matrix.
inline std::vector<Eigen::Index> read_pivots(TensorView<const std::int32_t> pivots, std::int64_t i,
                                             std::int64_t count, std::int64_t rows) {
  std::vector<Eigen::Index> result;
  for (std::int64_t k = 0; k < count; ++k) {
    const std::int64_t row = pivots[i * count + k];
    require(row >= 1 && row <= rows, "pivots must be 1-based rows of the matrix");
    result.push_back(row - 1);
  }
  return result;
}

// Solves A X = B in place, or A^H X = B if `adjoint`.
template <class S>
void solve_in_place(const Lu<S>& lu, Matrix<S>& b, bool adjoint = false) {
  const auto lower = lu.factors.template triangularView<Eigen::UnitLower>();
  const auto upper = lu.factors.template triangularView<Eigen::Upper>();
  if (!adjoint) {
    swap_rows(b, lu.pivots);
    lower.solveInPlace(b);
    solve_triangle(upper, b);
    return;
  }
  solve_triangle(upper.adjoint(), b);
  lower.adjoint().solveInPlace(b);
  for (auto k = static_cast<Eigen::Index>(lu.pivots.size()); k-- > 0;) {
    const Eigen::Index pivot = lu.pivots[static_cast<std::size_t>(k)];
    if (pivot != k) b.row(k).swap(b.row(pivot));
  }
}

}  // namespace opbridge::op
