#pragma once

#include "opbridge/symbolic.h"

namespace opbridge::lowering {

// Softmax or LogSoftmax along one axis, in the form of the opset. `x` has an opmath type.
Value softmax_node(GraphBuilder& g, const char* op, Value x, int64_t axis);

}  // namespace opbridge::lowering
