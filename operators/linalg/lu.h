// P A = L U with partial pivoting, as in LAPACK's getrf.
#pragma once

#include "matrices.h"

namespace opbridge::op {

// Compiled in lu.cc for double and std::complex<double>.
template <class S>
struct Lu {
  Matrix<S> factors;                 // U, and L without its unit diagonal below
  std::vector<Eigen::Index> pivots;  // row k was swapped with pivots[k]
  std::int32_t zero = 0;             // the 1-based index of the first zero pivot; 0 if there is none

  // The factorization of `a`.
  static Lu of(Matrix<S> a);

  // Solves A X = B in place, or A^H X = B if `adjoint`.
  void solve(Matrix<S>& b, bool adjoint = false) const;

  // Whether the permutation is odd.
  bool is_odd() const {
    bool odd = false;
    for (std::size_t k = 0; k < pivots.size(); ++k) odd ^= pivots[k] != static_cast<Eigen::Index>(k);
    return odd;
  }
};

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

}  // namespace opbridge::op
