// Target classes of losses.
#pragma once

#include "opbridge/symbolic.h"

namespace opbridge::lowering {

// The dim of the classes: 1, or 0 without a batch. Throws if `self` has no dim.
int64_t class_axis(Value self);

// The target classes as int64. For a single sample without batch dim, `target` may have a dim, of which
// PyTorch reads the first element.
Value class_indices(GraphBuilder& g, Value target, Value x);

// True at the target's class; false everywhere if the target is ignored or out of range.
Value class_mask(GraphBuilder& g, Value like, Value target, int64_t axis);

// Scores and targets of multilabel_margin_loss. A sample without batch dim is a batch of one.
struct Multilabel {
  Value x;          // (batch, classes)
  Value listed;     // true before the -1 that ends the sample's targets: (batch, targets)
  Value is_listed;  // whether a target is that class: (batch, targets, classes)
  Value is_target;  // whether any target is that class: (batch, 1, classes)
  Value gaps;       // 1 - score of the target + score of the class: (batch, targets, classes)
};

// `self` has an opmath type.
Multilabel read_multilabel(GraphBuilder& g, Value self, Value target);

}  // namespace opbridge::lowering
