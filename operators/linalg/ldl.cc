// A = L D L^T or A = L D L^H, where D has blocks of size one or two, by diagonal pivoting (Bunch and Kaufman,
// "Some stable methods for calculating inertia and solving symmetric linear systems", 1977), in the format of
// LAPACK's sytrf and hetrf.
#include <cmath>

#include "lu.h"

namespace opbridge::op {
namespace {

template <class S>
struct Ldl {
  Matrix<S> factors;  // D, and L without its unit diagonal
  std::vector<std::int32_t>
      pivots;             // the 1-based row that row k was swapped with; negative for a block of two
  std::int32_t zero = 0;  // the 1-based index of the first zero pivot; 0 if there is none
};

template <class S, class M>
Matrix<S> transposed(const M& matrix, bool hermitian) {
  return hermitian ? Matrix<S>(matrix.adjoint()) : Matrix<S>(matrix.transpose());
}

struct Pivot {
  Eigen::Index row, size;
};

// Chooses the next block of D, given the remaining matrix with all its elements.
template <class M>
Pivot choose_pivot(const M& left) {
  const double alpha = (1 + std::sqrt(17.0)) / 8;
  const Eigen::Index n = left.rows();
  const double own = taxicab(left(0, 0));
  Eigen::Index largest = 0;
  double column = 0;
  for (Eigen::Index i = 1; i < n; ++i) {
    if (taxicab(left(i, 0)) > column) {
      column = taxicab(left(i, 0));
      largest = i;
    }
  }
  if (largest == 0 || own >= alpha * column) return {0, 1};
  double row = 0;
  for (Eigen::Index i = 0; i < n; ++i) {
    if (i != largest) row = std::max(row, taxicab(left(i, largest)));
  }
  if (own >= alpha * column * (column / row)) return {0, 1};
  return {largest, taxicab(left(largest, largest)) >= alpha * row ? 1 : 2};
}

// Solves D X = B in place for a block D; reads only its lower triangle. Computes with quotients, as LAPACK's
// sytrs does: a determinant would overflow earlier.
template <class S, class D, class B>
void solve_block(const D& block, B&& b, bool hermitian) {
  if (block.rows() == 1) {
    divide(b.row(0), block(0, 0));
    return;
  }
  const S below = block(1, 0), above = hermitian ? Eigen::numext::conj(below) : below;
  const S first = block(0, 0) / above, second = block(1, 1) / below, determinant = first * second - S(1);
  for (Eigen::Index j = 0; j < b.cols(); ++j) {
    const S x = b(0, j) / above, y = b(1, j) / below;
    b(0, j) = (second * x - y) / determinant;
    b(1, j) = (first * y - x) / determinant;
  }
}

// Reads only the lower triangle.
template <class S>
Ldl<S> factor_ldl(Matrix<S> a, bool hermitian) {
  const Eigen::Index n = a.rows();
  const Matrix<S> mirrored = transposed<S>(a, hermitian);
  a.template triangularView<Eigen::StrictlyUpper>() = mirrored;
  if (hermitian) a.diagonal() = a.diagonal().real().template cast<S>().eval();
  Ldl<S> ldl;
  for (Eigen::Index k = 0; k < n;) {
    auto left = a.bottomRightCorner(n - k, n - k);
    const Pivot pivot = choose_pivot(left);
    const Eigen::Index swapped = pivot.size - 1;
    if (pivot.row != swapped) {
      left.row(swapped).swap(left.row(pivot.row));
      left.col(swapped).swap(left.col(pivot.row));
    }
    const auto row = static_cast<std::int32_t>(k + pivot.row + 1);
    for (Eigen::Index i = 0; i < pivot.size; ++i) ldl.pivots.push_back(pivot.size == 1 ? row : -row);
    const Eigen::Index rest = n - k - pivot.size;
    const bool vanishes = pivot.size == 1 && !(taxicab(left(0, 0)) > 0);
    if (vanishes && ldl.zero == 0) ldl.zero = static_cast<std::int32_t>(k + 1);
    if (!vanishes && rest > 0) {
      const Matrix<S> rows = transposed<S>(left.bottomLeftCorner(rest, pivot.size), hermitian);
      Matrix<S> solution = rows;
      solve_block<S>(left.topLeftCorner(pivot.size, pivot.size), solution, hermitian);
      const Matrix<S> lower = transposed<S>(solution, hermitian);
      left.bottomRightCorner(rest, rest).noalias() -= lower * rows;
      if (hermitian) {
        auto diagonal = left.bottomRightCorner(rest, rest).diagonal();
        diagonal = diagonal.real().template cast<S>().eval();
      }
      left.bottomLeftCorner(rest, pivot.size) = lower;
    }
    k += pivot.size;
  }
  a.template triangularView<Eigen::StrictlyUpper>().setZero();
  ldl.factors = std::move(a);
  return ldl;
}

// Solves A X = B in place.
template <class S>
void solve_in_place(const Ldl<S>& ldl, Matrix<S>& b, bool hermitian) {
  const Matrix<S>& f = ldl.factors;
  const Eigen::Index n = f.rows();
  const auto pivot_at = [&](Eigen::Index k) { return ldl.pivots[static_cast<std::size_t>(k)]; };
  const auto swap = [&](Eigen::Index k) {
    const Eigen::Index other = std::abs(pivot_at(k)) - 1;
    if (other != k) b.row(k).swap(b.row(other));
  };
  for (Eigen::Index k = 0; k < n;) {
    const Eigen::Index size = pivot_at(k) > 0 ? 1 : 2, rest = n - k - size;
    swap(k + size - 1);
    b.bottomRows(rest) -= (f.block(k + size, k, rest, size) * b.middleRows(k, size)).eval();
    solve_block<S>(f.block(k, k, size, size), b.middleRows(k, size), hermitian);
    k += size;
  }
  for (Eigen::Index end = n; end > 0;) {
    const Eigen::Index size = pivot_at(end - 1) > 0 ? 1 : 2, k = end - size, rest = n - end;
    const Matrix<S> lower = transposed<S>(f.block(end, k, rest, size), hermitian);
    b.middleRows(k, size) -= (lower * b.bottomRows(rest)).eval();
    swap(end - 1);
    end = k;
  }
}

OPBRIDGE_OPERATOR(
    "opbridge::ldl_factor(Tensor A, *, bool hermitian=False, bool check_errors=False, bool complex=False) -> "
    "(Tensor "
    "LD, Tensor pivots, Tensor info)")
    .shape([](const Shape& a, bool, bool, bool complex) {
      const MatrixShape m = square_shape(a, complex, "A");
      return std::tuple{a, tensor_shape(m.batch, {m.rows}, false), m.batch};
    })
    .cpu(floating_types,
         []<class T>(Context& context, TensorView<const T> a, bool hermitian, bool check_errors, bool complex,
                     TensorView<T> factors, TensorView<std::int32_t> pivots, TensorView<std::int32_t> info) {
           with_scalar(complex, [&]<class S>() {
             const auto from = matrices<S>(a);
             const auto to = matrices<S>(factors);
             const std::int64_t n = from.rows();
             for_each_matrix(context, from.size(), cube(n), [&](std::int64_t i) {
               const Ldl<S> ldl = factor_ldl<S>(from[i], hermitian);
               if (check_errors && ldl.zero > 0)
                 matrix_fails(i, from.size(), ldl.zero, "zero pivot is in column", "is singular");
               to.write(i, ldl.factors);
               std::copy(ldl.pivots.begin(), ldl.pivots.end(), pivots.data() + i * n);
               info[i] = ldl.zero;
             });
           });
         });

// Two equal negative pivots denote a block of two.
std::vector<std::int32_t> checked(std::span<const std::int32_t> pivots) {
  const auto n = static_cast<std::int64_t>(pivots.size());
  for (std::size_t k = 0; k < pivots.size(); ++k) {
    const std::int64_t row = std::abs(static_cast<std::int64_t>(pivots[k]));
    require(row >= 1 && row <= n, "pivots must be 1-based rows of the matrix");
    if (pivots[k] > 0) continue;
    require(k + 1 < pivots.size() && pivots[k + 1] == pivots[k], "negative pivots must come in pairs");
    ++k;
  }
  return {pivots.begin(), pivots.end()};
}

OPBRIDGE_OPERATOR(
    "opbridge::ldl_solve(Tensor LD, Tensor pivots, Tensor B, *, bool hermitian=False, bool complex=False) -> "
    "Tensor")
    .shape([](const Shape& factors, const Shape& pivots, const Shape& b, bool, bool complex) {
      const MatrixShape m = square_shape(factors, complex, "LD");
      require_same_shape(pivots, tensor_shape(m.batch, {m.rows}, false), "pivots and the columns of LD");
      const MatrixShape right = matrix_shape(b, complex, "B");
      require_same_shape(right.batch, m.batch, "the batches of B and LD");
      require(right.rows == m.rows, "B must have as many rows as LD");
      return b;
    })
    .cpu(floating_types,
         []<class T>(Context& context, TensorView<const T> factors, TensorView<const std::int32_t> pivots,
                     TensorView<const T> b, bool hermitian, bool complex, TensorView<T> x) {
           with_scalar(complex, [&]<class S>() {
             const auto all = matrices<S>(factors), right = matrices<S>(b);
             const auto to = matrices<S>(x);
             const std::int64_t n = all.rows();
             for_each_matrix(context, all.size(), cube(n), [&](std::int64_t i) {
               const std::span<const std::int32_t> rows(pivots.data() + i * n, static_cast<std::size_t>(n));
               const Ldl<S> ldl{all[i], checked(rows), 0};
               Matrix<S> solution = right[i];
               solve_in_place(ldl, solution, hermitian);
               to.write(i, solution);
             });
           });
         });

}  // namespace
}  // namespace opbridge::op
