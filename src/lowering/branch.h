// Branches: If nodes.
#pragma once

#include <functional>
#include <vector>

#include "opbridge/symbolic.h"

namespace opbridge::lowering {

// Makes the nodes of one way of a branch, and returns its results.
using Way = std::function<std::vector<Value>(GraphBuilder&)>;

// The `outputs` results of `then` if `condition` holds, which is a bool without axes, else those of
// `otherwise`.
std::vector<Value> either(GraphBuilder& g, Value condition, size_t outputs, const Way& then,
                          const Way& otherwise);

// The results of `nothing` where `count` is 0 or, as the number of elements of range(1, 0), negative; else
// those of `some`. Decided at export if the count is known then.
//
// PyTorch takes the sizes of inputs to be positive, yet they may be 0 when the model runs: a lower bound of 1
// does not exclude it.
std::vector<Value> unless_none(GraphBuilder& g, const Dim& count, size_t outputs, const Way& nothing,
                               const Way& some);

}  // namespace opbridge::lowering
