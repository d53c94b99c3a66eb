// Functions of two tensors that other lowerings use.
#pragma once

#include "opbridge/symbolic.h"

namespace opbridge::lowering {

// The angle of (x, y), which have the same floating-point type; minus zero counts as negative.
Value atan2(GraphBuilder& g, Value y, Value x);

// `base` to the power of `exponent`, integers of the same opmath type that are broadcast to `dims`. The
// result wraps around. For a negative exponent it is 0 unless the base is 1 or -1.
Value power_of_integers(GraphBuilder& g, Value base, Value exponent, const std::vector<Dim>& dims);

}  // namespace opbridge::lowering
