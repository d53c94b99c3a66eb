// Batches of matrices for the kernels of operators/linalg, real or complex. Complex numbers are pairs in a
// last dim (see complex.h).
#pragma once

#include <string_view>
#include <vector>

#include "lowering/common.h"
#include "opbridge/registry.h"
#include "opbridge/symbolic.h"

namespace opbridge::lowering {

// (batch…, rows, columns), with a last dim of pairs if `complex`.
struct Matrices {
  Value value;
  bool complex = false;

  int64_t rank() const { return value.rank() - (complex ? 1 : 0); }
  Dim dim(int64_t axis) const { return value.dim(axis < 0 && complex ? axis - 1 : axis); }
  Dim rows() const { return dim(-2); }
  Dim columns() const { return dim(-1); }
  std::vector<Dim> batch() const { return first_dims(value.dims(), rank() - 2); }
  ElementType type() const { return value.element_type(); }
};

// The argument `argument` of the call, whose lowered value is `value`.
Matrices matrices(const GraphBuilder& g, Value value, std::string_view argument);

// The dims of a tensor, with a last dim of pairs if `complex`.
std::vector<Dim> shape(std::vector<Dim> batch, std::initializer_list<Dim> dims, bool complex);

Matrices expanded(GraphBuilder& g, const Matrices& a, const std::vector<Dim>& batch);
Matrices transposed(GraphBuilder& g, const Matrices& a);
Matrices adjoint(GraphBuilder& g, const Matrices& a);
Matrices product(GraphBuilder& g, const Matrices& a, const Matrices& b);
// Multiplies each column by a number of `factors` (batch…, columns), which are real.
Matrices scaled_columns(GraphBuilder& g, const Matrices& a, Value factors);

// Singular value decomposition. `full`: all singular vectors, otherwise as many as there are singular values.
struct Svd {
  Matrices u;
  Value values;  // descending
  Matrices vh;
};
Svd svd(GraphBuilder& g, const Matrices& a, bool full);
Value singular_values(GraphBuilder& g, const Matrices& a);

struct Eigh {
  Value values;  // ascending
  Matrices vectors;
};
Eigh eigh(GraphBuilder& g, const Matrices& a, bool upper);

struct Inverse {
  Matrices inverse;
  Value info;  // int32 (batch…): positive for a singular matrix
};
Inverse inverse(GraphBuilder& g, const Matrices& a, bool check_errors);

}  // namespace opbridge::lowering
