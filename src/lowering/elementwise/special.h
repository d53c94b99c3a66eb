// Functions of two tensors that other lowerings are made of.
#pragma once

#include "opbridge/symbolic.h"

namespace opbridge::lowering {

// The angle of (x, y), of one floating-point type; minus zero counts as negative.
Value atan2(GraphBuilder& g, Value y, Value x);

// `base` to the power of `exponent`, integers in one kernel type that are broadcast to `dims`. It wraps
// around; to a negative exponent it is 0, but for a base of 1 or -1.
Value power_of_integers(GraphBuilder& g, Value base, Value exponent, const std::vector<Dim>& dims);

}  // namespace opbridge::lowering
