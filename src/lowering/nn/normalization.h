#pragma once

#include <optional>
#include <vector>

#include "opbridge/symbolic.h"

namespace opbridge::lowering {

// Layer normalization over the last axes, whose sizes are `normalized_shape`, as `aten::layer_norm`.
Value layer_norm(GraphBuilder& g, Value input, std::vector<Dim> normalized_shape, std::optional<Value> weight,
                 std::optional<Value> bias, double eps, Ignored);

}  // namespace opbridge::lowering
