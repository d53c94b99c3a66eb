// Lowerings to standard ONNX that libraries of operators carry (opbridge/operator_abi.h).
#pragma once

#include <optional>
#include <vector>

#include "opbridge/operator_abi.h"
#include "opbridge/symbolic.h"

namespace opbridge {

using LowerFunction = decltype(&opbridge_lower);

// Lets operator `index` of the library whose entry is `lower` make the nodes of the call. Missing where it
// leaves the call to the operator's own node.
std::optional<std::vector<Value>> run_lowering(LowerFunction lower, int32_t index,
                                               const OperatorSchema& schema, const SymbolicCall& call);

}  // namespace opbridge
