#include "lu.h"

namespace opbridge::op {

template <class S>
Lu<S> Lu<S>::of(Matrix<S> a) {
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
void Lu<S>::solve(Matrix<S>& b, bool adjoint) const {
  const auto lower = factors.template triangularView<Eigen::UnitLower>();
  const auto upper = factors.template triangularView<Eigen::Upper>();
  if (!adjoint) {
    swap_rows(b, pivots);
    lower.solveInPlace(b);
    solve_triangle(upper, b);
    return;
  }
  solve_triangle(upper.adjoint(), b);
  lower.adjoint().solveInPlace(b);
  for (auto k = static_cast<Eigen::Index>(pivots.size()); k-- > 0;) {
    const Eigen::Index pivot = pivots[static_cast<std::size_t>(k)];
    if (pivot != k) b.row(k).swap(b.row(pivot));
  }
}

template struct Lu<double>;
template struct Lu<std::complex<double>>;

}  // namespace opbridge::op
