#pragma once

#include <optional>

#include "opbridge/symbolic.h"

namespace opbridge::lowering {

// input @ weight^T (+ bias), as torch.nn.functional.linear. `weight` is (out, in), or (in), which removes the
// last dim.
Value linear(GraphBuilder& g, Value input, Value weight, std::optional<Value> bias);

}  // namespace opbridge::lowering
