// Functions of two tensors that other lowerings are made of.
#pragma once

#include "opbridge/symbolic.h"

namespace opbridge::lowering {

// The angle of (x, y), in float32; minus zero counts as negative.
Value atan2(GraphBuilder& g, Value y, Value x);

}  // namespace opbridge::lowering
