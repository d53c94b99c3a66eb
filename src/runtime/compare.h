// How far two tensors lie from each other.
#pragma once

#include <string>

#include "opbridge/ir.h"

namespace opbridge::runtime {

// An element agrees where |actual - expected| <= absolute + relative * |expected|; equal infinities agree,
// and NaN agrees with NaN.
struct Tolerance {
  double relative = 0;
  double absolute = 0;

  // What the rounding at every node of a deep model adds up to, and no wrong formula stays under: 1e-4 for
  // float32, 1e-6 for float64, 1e-2 for float16, 5e-2 for bfloat16, of complex types that of their parts; 0,
  // that is equality, for integers and bool.
  static Tolerance of(ElementType type);
};

struct Difference {
  double max_absolute = 0;
  double max_relative = 0;  // to the expected value
  std::string mismatch;     // what is wrong, in one line; empty where the tensors agree
};

// Shapes and element types must be the same. Throws Error(unsupported) for element types under a byte, float8
// and strings.
Difference compare(const ir::Weight& actual, const ir::Weight& expected, Tolerance tolerance);

}  // namespace opbridge::runtime
