// Batches of matrices, (…, rows, columns). With `complex` they are (…, rows, columns, 2): real and imaginary
// parts are stored as pairs. Algorithms that do not iterate compute in float64: for float32, only inputs and
// results are rounded, not intermediate values.
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <complex>
#include <limits>
#include <string>
#include <vector>

#include "opbridge/operator.h"

namespace opbridge::op {

// Column-major.
template <class S>
using Matrix = Eigen::Matrix<S, Eigen::Dynamic, Eigen::Dynamic>;
template <class S>
using Vector = Eigen::Matrix<S, Eigen::Dynamic, 1>;
template <class S>
using RealOf = typename Eigen::NumTraits<S>::Real;

// |Re| + |Im|, by which LAPACK compares complex numbers.
template <class S>
RealOf<S> taxicab(S x) {
  if constexpr (Eigen::NumTraits<S>::IsComplex) {
    return std::abs(x.real()) + std::abs(x.imag());
  } else {
    return std::abs(x);
  }
}

// Calls f<S>() with the type S to compute in.
template <class F>
void with_scalar(bool complex, F&& f) {
  if (complex) {
    f.template operator()<std::complex<double>>();
  } else {
    f.template operator()<double>();
  }
}

// Like with_scalar, but computes in T, the element type, as PyTorch does.
template <class T, class F>
void with_element(bool complex, F&& f) {
  if (complex) {
    f.template operator()<std::complex<T>>();
  } else {
    f.template operator()<T>();
  }
}

// The matrices of a tensor (or vectors, as matrices of one column), to compute with in S.
template <class S, class T>
class Batch {
  static constexpr bool is_complex = Eigen::NumTraits<S>::IsComplex;
  using Plain = std::remove_const_t<T>;
  using Element = std::conditional_t<is_complex, std::complex<Plain>, Plain>;
  using RowMajor = Eigen::Matrix<Element, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  using Map = Eigen::Map<std::conditional_t<std::is_const_v<T>, const RowMajor, RowMajor>>;

 public:
  static Batch matrices(TensorView<T> tensor) { return Batch(tensor, 2); }
  static Batch vectors(TensorView<T> tensor) { return Batch(tensor, 1); }

  std::int64_t size() const { return size_; }
  std::int64_t rows() const { return rows_; }
  std::int64_t columns() const { return columns_; }

  Matrix<S> operator[](std::int64_t i) const { return map(i).template cast<S>(); }
  template <class M>
  void write(std::int64_t i, const Eigen::MatrixBase<M>& matrix) const {
    map(i) = matrix.template cast<Element>();
  }

 private:
  Batch(TensorView<T> tensor, int dims) : data_(tensor.data()) {
    std::span<const std::int64_t> all = tensor.dims();
    if (is_complex) all = all.first(all.size() - 1);
    const std::span<const std::int64_t> last = all.last(static_cast<std::size_t>(dims));
    rows_ = last.front();
    columns_ = dims == 2 ? last.back() : 1;
    for (std::int64_t dim : all.first(all.size() - last.size())) size_ *= dim;
  }

  Map map(std::int64_t i) const {
    // std::complex is laid out as a pair of numbers, by definition.
    using Pointer = std::conditional_t<std::is_const_v<T>, const Element*, Element*>;
    T* start = data_ + i * rows_ * columns_ * (is_complex ? 2 : 1);
    return Map(reinterpret_cast<Pointer>(start), rows_, columns_);
  }

  T* data_;
  std::int64_t size_ = 1, rows_, columns_;
};

template <class S, class T>
Batch<S, T> matrices(TensorView<T> tensor) {
  return Batch<S, T>::matrices(tensor);
}
template <class S, class T>
Batch<S, T> vectors(TensorView<T> tensor) {
  return Batch<S, T>::vectors(tensor);
}

// Divides `x` by the divisor. Eigen's division of complex vectors squares the divisor, which may overflow or
// underflow.
template <class X, class S>
void divide(X&& x, S divisor) {
  if (x.size() == 0) return;
  if constexpr (!Eigen::NumTraits<S>::IsComplex) {
    x /= divisor;
  } else if (taxicab(divisor) >= std::numeric_limits<RealOf<S>>::min()) {
    x *= S(1) / divisor;
  } else {
    x = x.unaryExpr([divisor](S y) { return y / divisor; });
  }
}

// Solves T X = B in place for a triangular view T.
template <class T, class S>
void solve_triangle(const T& triangle, Matrix<S>& b) {
  using R = RealOf<S>;
  const auto diagonal = triangle.nestedExpression().diagonal();
  const bool has_small =
      diagonal.unaryExpr([](S x) { return x != S(0) && taxicab(x) < std::numeric_limits<R>::min(); }).any();
  if (!has_small) {
    triangle.solveInPlace(b);
    return;
  }
  // For several columns at once, Eigen multiplies by inverses, which may overflow.
  for (Eigen::Index j = 0; j < b.cols(); ++j) {
    auto column = b.col(j);
    triangle.solveInPlace(column);
  }
}

// Calls f(i) for each matrix of a batch; `work` is the approximate number of operations for each.
template <class F>
void for_each_matrix(Context& context, std::int64_t count, std::int64_t work, F&& f) {
  const std::int64_t grain = std::max<std::int64_t>(1, 65536 / std::max<std::int64_t>(1, work));
  context.parallel_for(count, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) f(i);
  });
}
inline std::int64_t cube(std::int64_t n) { return n > 100000 ? n : n * n * n; }

// The shape of a batch of matrices, for shape rules.
struct MatrixShape {
  Shape batch;
  Dim rows, columns;
};

inline Shape tensor_shape(Shape batch, std::initializer_list<Dim> dims, bool complex) {
  batch.insert(batch.end(), dims);
  if (complex) batch.push_back(2);
  return batch;
}
inline Shape tensor_shape(const MatrixShape& m, bool complex) {
  return tensor_shape(m.batch, {m.rows, m.columns}, complex);
}

inline Shape without_pairs(Shape shape, bool complex, std::size_t least, const std::string& name) {
  const std::size_t pairs = complex ? 1 : 0;
  require(shape.size() >= least + pairs, name + " must have at least " + std::to_string(least + pairs) +
                                             " dims, not shape " + to_string(shape));
  if (complex) {
    require(shape.back() == 2, name + " is complex: its last dim must be 2, real and imaginary part");
    shape.pop_back();
  }
  return shape;
}

inline MatrixShape matrix_shape(const Shape& tensor, bool complex, const std::string& name) {
  Shape shape = without_pairs(tensor, complex, 2, name);
  const Dim columns = shape.back(), rows = shape[shape.size() - 2];
  shape.erase(shape.end() - 2, shape.end());
  return {shape, rows, columns};
}

inline MatrixShape square_shape(const Shape& tensor, bool complex, const std::string& name) {
  MatrixShape m = matrix_shape(tensor, complex, name);
  require(m.rows == m.columns, name + " must be square matrices, not of shape " + to_string(tensor));
  return m;
}

// The shape of the solution of a system of equations with square matrices `m`: that of the right-hand sides.
inline Shape solution_shape(const Shape& b, const MatrixShape& m, bool left, bool complex,
                            const std::string& name) {
  const MatrixShape right = matrix_shape(b, complex, "B");
  require_same_shape(right.batch, m.batch, "the batches of B and " + name);
  require((left ? right.rows : right.columns) == m.rows,
          "B must have as many rows as " + name + ", or columns if left is false");
  return b;
}

// Reports an element of a matrix (a minor, a diagonal element, …) by its 1-based index `order`.
[[noreturn]] inline void matrix_fails(std::int64_t i, std::int64_t count, std::int64_t order,
                                      const std::string& element, const std::string& what) {
  const std::string which = count > 1 ? "matrix " + std::to_string(i) + " of the batch" : "the matrix";
  throw Error(ErrorCode::invalid_argument,
              which + " " + what + ": its " + element + " " + std::to_string(order));
}

}  // namespace opbridge::op
