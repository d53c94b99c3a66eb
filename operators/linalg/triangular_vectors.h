// Eigenvectors of a triangular matrix, or of a quasi-triangular real one, by back substitution, as by
// LAPACK's trevc. A vanishing difference of eigenvalues is replaced by a tiny one.
#pragma once

#include <array>
#include <limits>

#include "reflection.h"

namespace opbridge::op {

// S is the element type of T, F that of the vector: complex for a complex pair of a real T.
template <class S, class F>
class BackSubstitution {
  using R = RealOf<S>;
  using Index = Eigen::Index;

 public:
  BackSubstitution(const Matrix<S>& t, const Vector<R>& column_sums, F eigenvalue)
      : t_(t), column_sums_(column_sums), eigenvalue_(eigenvalue) {
    const auto n = static_cast<R>(t.rows());
    const R least = std::numeric_limits<R>::min() * (n / kPrecision);
    tiny_ = std::max(kPrecision * taxicab(eigenvalue), least);
    huge_ = (1 - kPrecision) / least;
  }

  // Solves (T - eigenvalue) x = 0 for the components of `x` above row `end`. The components below are given;
  // the others contain the sums -T(k, end:) x(end:).
  void run(Vector<F>& x, Index end) {
    for (Index j = end - 1; j >= 0; --j) {
      if (!Eigen::NumTraits<S>::IsComplex && j > 0 && t_(j, j - 1) != S(0)) {
        --j;
        const std::array<F, 2> found = solve_two(x, j);
        bound(x, std::max(taxicab(found[0]), taxicab(found[1])),
              std::max(column_sums_[j], column_sums_[j + 1]), found, j);
        x.head(j) -= x[j] * t_.col(j).head(j) + x[j + 1] * t_.col(j + 1).head(j);
      } else {
        const F found = solve_one(x, j);
        bound(x, taxicab(found), column_sums_[j], std::array{found}, j);
        x.head(j) -= x[j] * t_.col(j).head(j);
      }
    }
  }

 private:
  static constexpr R kPrecision = std::numeric_limits<R>::epsilon();

  // Stores the components found. Scales all of x down if the next sums would overflow.
  template <std::size_t count>
  void bound(Vector<F>& x, R size, R column, const std::array<F, count>& found, Index j) const {
    for (std::size_t i = 0; i < count; ++i) x[j + static_cast<Index>(i)] = found[i];
    if (size > 1 && column > huge_ / size) x *= 1 / size;
  }

  // Scales x down if b / divisor would overflow.
  void shrink(Vector<F>& x, R b, R divisor) const {
    if (divisor < 1 && b > 1 && b >= huge_ * divisor) x *= 1 / b;
  }

  F solve_one(Vector<F>& x, Index j) const {
    F divisor = t_(j, j) - eigenvalue_;
    if (taxicab(divisor) < tiny_) divisor = tiny_;
    shrink(x, taxicab(x[j]), taxicab(divisor));
    return x[j] / divisor;
  }

  // Solves two equations by elimination; the pivot is the greatest of the four elements.
  std::array<F, 2> solve_two(Vector<F>& x, Index j) const {
    F a[2][2] = {{t_(j, j) - eigenvalue_, t_(j, j + 1)}, {t_(j + 1, j), t_(j + 1, j + 1) - eigenvalue_}};
    R greatest = 0;
    int row = 0, column = 0;
    for (int k = 0; k < 2; ++k) {
      for (int i = 0; i < 2; ++i) {
        if (taxicab(a[i][k]) <= greatest) continue;
        greatest = taxicab(a[i][k]);
        row = i;
        column = k;
      }
    }
    if (greatest < tiny_) {
      shrink(x, std::max(taxicab(x[j]), taxicab(x[j + 1])), tiny_);
      return {x[j] / tiny_, x[j + 1] / tiny_};
    }
    const F pivot = a[row][column], factor = a[1 - row][column] / pivot, other = a[row][1 - column];
    F rest = a[1 - row][1 - column] - other * factor;
    if (taxicab(rest) < tiny_) rest = tiny_;
    const auto right = [&] { return std::array{x[j + row], x[j + 1 - row] - factor * x[j + row]}; };
    shrink(x, std::max(taxicab(right()[0] * (rest / pivot)), taxicab(right()[1])), taxicab(rest));
    const auto [first, second] = right();
    std::array<F, 2> found;
    found[static_cast<std::size_t>(1 - column)] = second / rest;
    found[static_cast<std::size_t>(column)] = (first - other * (second / rest)) / pivot;
    return found;
  }

  const Matrix<S>& t_;
  const Vector<R>& column_sums_;
  F eigenvalue_;
  R tiny_, huge_;
};

// The eigenvectors of Z T Z^H, each of length about one.
template <class S>
Matrix<std::complex<RealOf<S>>> eigenvectors_of_schur(const Matrix<S>& t, const Matrix<S>& z) {
  using R = RealOf<S>;
  using C = std::complex<R>;
  const Eigen::Index n = t.rows();
  Vector<R> sums = Vector<R>::Zero(n);
  for (Eigen::Index j = 1; j < n; ++j) {
    for (Eigen::Index i = 0; i < j; ++i) sums[j] += taxicab(t(i, j));
  }
  Matrix<C> vectors(n, n);
  for (Eigen::Index k = n - 1; k >= 0; --k) {
    if (!Eigen::NumTraits<S>::IsComplex && k > 0 && t(k, k - 1) != S(0)) {
      --k;
      const R above = Eigen::numext::real(t(k, k + 1)), below = Eigen::numext::real(t(k + 1, k));
      const R imaginary = std::sqrt(std::abs(below)) * std::sqrt(std::abs(above));
      Vector<C> x = Vector<C>::Zero(n);
      if (std::abs(above) >= std::abs(below)) {
        x[k] = 1;
        x[k + 1] = C(0, imaginary / above);
      } else {
        x[k] = -imaginary / below;
        x[k + 1] = C(0, 1);
      }
      x.head(k) = -(x[k] * t.col(k).head(k) + x[k + 1] * t.col(k + 1).head(k));
      BackSubstitution<S, C>(t, sums, C(Eigen::numext::real(t(k, k)), imaginary)).run(x, k);
      x *= 1 / greatest_size(x);
      vectors.col(k) = z.leftCols(k + 2) * x.head(k + 2);
      vectors.col(k + 1) = vectors.col(k).conjugate();
    } else {
      Vector<S> x = Vector<S>::Zero(n);
      x[k] = 1;
      x.head(k) = -t.col(k).head(k);
      BackSubstitution<S, S>(t, sums, t(k, k)).run(x, k);
      x *= 1 / greatest_size(x);
      vectors.col(k) = (z.leftCols(k + 1) * x.head(k + 1)).template cast<C>();
    }
  }
  return vectors;
}

}  // namespace opbridge::op
