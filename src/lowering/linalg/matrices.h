// Batches of matrices for the kernels of linear algebra (operators/linalg), real or complex, then as pairs in
// a last dim (see complex.h).
#pragma once

#include <string_view>
#include <vector>

#include "lowering/common.h"
#include "opbridge/registry.h"
#include "opbridge/symbolic.h"

namespace opbridge::lowering {

// (batch…, rows, columns), of pairs where `complex`.
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

// What PyTorch calls `argument`.
Matrices matrices(const GraphBuilder& g, Value value, std::string_view argument);

// dims of a tensor of such numbers.
std::vector<Dim> shape(std::vector<Dim> batch, std::initializer_list<Dim> dims, bool complex);

Matrices expanded(GraphBuilder& g, const Matrices& a, const std::vector<Dim>& batch);
Matrices transposed(GraphBuilder& g, const Matrices& a);
Matrices adjoint(GraphBuilder& g, const Matrices& a);
Matrices product(GraphBuilder& g, const Matrices& a, const Matrices& b);
// Each column times a number: `factors` (batch…, columns), real.
Matrices scaled_columns(GraphBuilder& g, const Matrices& a, Value factors);

// The kernels. `full`: all vectors, or as many as there are singular values.
struct Svd {
  Matrices u;
  Value values;  // the greatest first
  Matrices vh;
};
Svd svd(GraphBuilder& g, const Matrices& a, bool full);
Value singular_values(GraphBuilder& g, const Matrices& a);

struct Eigh {
  Value values;  // the least first
  Matrices vectors;
};
Eigh eigh(GraphBuilder& g, const Matrices& a, bool upper);

struct Inverse {
  Matrices inverse;
  Value info;  // int32 (batch…): above 0 where there is none
};
Inverse inverse(GraphBuilder& g, const Matrices& a, bool check_errors);

}  // namespace opbridge::lowering
