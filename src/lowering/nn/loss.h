// Target classes of losses.
#pragma once

#include "opbridge/symbolic.h"

namespace opbridge::lowering {

// The dim of the classes: 1, or 0 without a batch.
int64_t class_axis(Value self);

// The target classes as int64. For a single sample without batch dim, `target` may have a dim, of which
// PyTorch reads the first element.
Value class_indices(GraphBuilder& g, Value target, Value x);

// True at the target's class; false everywhere if the target is ignored or out of range.
Value class_mask(GraphBuilder& g, Value like, Value target, int64_t axis);

}  // namespace opbridge::lowering
