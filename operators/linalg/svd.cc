// A = U diag(S) Vh, by the steps of LAPACK's gesdd for small matrices: a QR factorization first if A is tall,
// then reduction to bidiagonal form, then iteration.
#include <Eigen/Householder>

#include "bidiagonal_svd.h"
#include "householder.h"

namespace opbridge::op {
namespace {

template <class S>
struct Svd {
  Matrix<S> u;
  Vector<RealOf<S>> values;
  Matrix<S> v;
};

// a = left B right^H of a matrix with no fewer rows than columns, where B is upper bidiagonal. `right` leaves
// the first row unchanged.
template <class S>
struct Bidiagonal {
  Reflections<S> left, right;
  Vector<RealOf<S>> diagonal, above;
};

template <class S>
Bidiagonal<S> make_bidiagonal(Matrix<S> a) {
  const Eigen::Index m = a.rows(), n = a.cols(), others = std::max<Eigen::Index>(n - 1, 0);
  Bidiagonal<S> b{{Matrix<S>::Zero(m, n), Vector<S>(n)},
                  {Matrix<S>::Zero(others, others), Vector<S>(others)},
                  Vector<RealOf<S>>(n),
                  Vector<RealOf<S>>(others)};
  Vector<S> workspace(std::max(m, n));
  for (Eigen::Index k = 0; k < n; ++k) {
    const Eigen::Index below = m - k - 1, right = n - k - 1;
    S tau;
    Vector<S> v(below);
    a.col(k).tail(below + 1).makeHouseholder(v, tau, b.diagonal[k]);
    b.left.factors.col(k).tail(below) = v;
    b.left.tau[k] = Eigen::numext::conj(tau);
    if (right == 0) break;
    a.bottomRightCorner(below + 1, right).applyHouseholderOnTheLeft(v, tau, workspace.data());
    const Vector<S> row = a.row(k).tail(right).adjoint();
    Vector<S> w(right - 1);
    row.makeHouseholder(w, tau, b.above[k]);
    b.right.factors.col(k).tail(right - 1) = w;
    b.right.tau[k] = Eigen::numext::conj(tau);
    a.bottomRightCorner(below, right)
        .applyHouseholderOnTheRight(w, Eigen::numext::conj(tau), workspace.data());
  }
  return b;
}

// Whether to start with a QR or LQ factorization. The limits are LAPACK's for complex matrices. For real ones
// they are those of MKL 2024.2, which PyTorch's CPU build calls.
template <class S>
bool begins_with_qr(Eigen::Index rows, Eigen::Index columns) {
  if (rows == columns) return false;
  if (Eigen::NumTraits<S>::IsComplex) return std::max(rows, columns) >= 17 * std::min(rows, columns) / 9;
  return rows > columns ? rows >= 3 * columns / 2 : columns >= 20 * rows;
}

// [inner 0; 0 1] of the given size.
template <class S>
Matrix<S> bordered(const Matrix<S>& inner, Eigen::Index rows, Eigen::Index columns) {
  Matrix<S> result = Matrix<S>::Identity(rows, columns);
  result.topLeftCorner(inner.rows(), inner.cols()) = inner;
  return result;
}

template <class S>
Svd<S> decompose(Matrix<S> a, bool full, bool vectors) {
  using R = RealOf<S>;
  const Eigen::Index rows = a.rows(), columns = a.cols(), count = std::min(rows, columns);
  const Eigen::Index length = std::max(rows, columns);
  const bool wide = rows < columns;
  if (count == 0) {
    const Eigen::Index u = full ? rows : 0, v = full ? columns : 0;
    return {Matrix<S>::Identity(rows, u), {}, Matrix<S>::Identity(columns, v)};
  }
  // Scales `a` so that squares neither overflow nor underflow, nor does the inverse of the unit.
  constexpr int kLimit = std::numeric_limits<R>::max_exponent - 3;
  const R greatest = greatest_size(a);
  const R unit = greatest > 0 ? std::ldexp(R(1), std::clamp(std::ilogb(greatest), -kLimit, kLimit)) : 1;
  a *= 1 / unit;

  const bool is_long = begins_with_qr<S>(rows, columns);
  Reflections<S> outer;
  if (is_long) {
    outer = Reflections<S>::of(wide ? Matrix<S>(a.adjoint()) : a);
    Matrix<S> r = outer.factors.topRows(count).template triangularView<Eigen::Upper>();
    a = wide ? Matrix<S>(r.adjoint()) : r;
  }
  const bool lower = a.rows() < a.cols();
  Bidiagonal<S> b = make_bidiagonal<S>(lower ? Matrix<S>(a.adjoint()) : a);
  Matrix<R> u = Matrix<R>::Identity(count, count), v = u;
  BidiagonalSvd<R> iteration(b.diagonal, b.above, vectors ? &u : nullptr, vectors ? &v : nullptr);
  if (lower) iteration.raise();
  require(iteration.run(), "the iteration for the singular values does not converge");
  b.diagonal *= unit;
  if (!vectors) return {{}, b.diagonal, {}};

  // `tall` gets the reflections from the left. If A's adjoint was reduced, these belong to V.
  Matrix<R>&tall = lower ? v : u, &square = lower ? u : v;
  const auto width = [&](Eigen::Index size) { return full ? size : count; };
  const Eigen::Index inner = std::max(a.rows(), a.cols());
  Matrix<S> first = bordered<S>(tall.template cast<S>(), inner, is_long ? inner : width(inner));
  b.left.apply(first, false);
  Matrix<S> second = square.template cast<S>();
  b.right.apply(second.bottomRows(count - 1), false);
  Svd<S> result{std::move(first), b.diagonal, std::move(second)};
  if (lower) result.u.swap(result.v);
  if (is_long) {
    Matrix<S>& side = wide ? result.v : result.u;
    side = bordered<S>(side, length, width(length));
    outer.apply(side, false);
  }
  return result;
}

OPBRIDGE_OPERATOR(
    "opbridge::svd(Tensor A, *, bool full_matrices=True, bool vectors=True, bool complex=False) -> (Tensor "
    "U, Tensor "
    "S, Tensor Vh)")
    .shape([](const Shape& a, bool full, bool vectors, bool complex) {
      const MatrixShape m = matrix_shape(a, complex, "A");
      const Dim count = min(m.rows, m.columns);
      const Shape values = tensor_shape(m.batch, {count}, false);
      if (!vectors) return std::tuple{Shape{0}, values, Shape{0}};
      return std::tuple{tensor_shape(m.batch, {m.rows, full ? m.rows : count}, complex), values,
                        tensor_shape(m.batch, {full ? m.columns : count, m.columns}, complex)};
    })
    .cpu(floating_types, []<class T>(Context& context, TensorView<const T> a, bool full, bool vectors,
                                     bool complex, TensorView<T> u, TensorView<T> s, TensorView<T> vh) {
      with_element<T>(complex, [&]<class S>() {
        const auto from = matrices<S>(a);
        const auto values = op::vectors<T>(s);
        for_each_matrix(context, from.size(), 10 * cube(from.rows()), [&](std::int64_t i) {
          const Matrix<S> matrix = from[i];
          require(matrix.allFinite(), "the matrix contains NaN or infinities");
          const Svd<S> result = decompose<S>(matrix, full, vectors);
          values.write(i, result.values);
          if (!vectors) return;
          matrices<S>(u).write(i, result.u);
          matrices<S>(vh).write(i, result.v.adjoint());
        });
      });
    });

}  // namespace
}  // namespace opbridge::op
