// Measures how far two tensors differ.
#pragma once

#include <cstdint>
#include <string>

#include "opbridge/ir.h"

namespace opbridge::tensor {

// Elements agree if |actual - expected| <= absolute + relative * |expected|. Equal infinities agree, and NaN
// agrees with NaN.
struct Tolerance {
  double relative = 0;
  double absolute = 0;

  // Tolerances above the rounding errors that a deep model accumulates and below the errors of a wrong
  // formula: 1e-4 for float32, 1e-6 for float64, 1e-2 for float16, 5e-2 for bfloat16. A complex type has the
  // tolerance of its parts. Integers and bool must be equal.
  static Tolerance of(ElementType type);
};

struct Difference {
  double max_absolute = 0;
  double max_relative = 0;  // relative to the expected value: infinite if that is 0
  double cosine = 1;        // of the angle between both tensors, as vectors of their finite elements
  int64_t mismatches = 0;   // the elements that differ by more than the tolerance
  std::string mismatch;     // the mismatch in one line; empty if the tensors agree
};

// Shapes and element types must be equal. Throws Error(unsupported) for sub-byte element types, float8 and
// strings, and Error(invalid_argument) for a tolerance that is negative or NaN.
Difference compare(const ir::Weight& actual, const ir::Weight& expected, Tolerance tolerance);

}  // namespace opbridge::tensor
