// Runs the lowerings to standard ONNX of operator libraries (opbridge/operator_abi.h).
#pragma once

#include <optional>
#include <vector>

#include "opbridge/operator_abi.h"
#include "opbridge/symbolic.h"

namespace opbridge::builder {

using LowerFunction = decltype(&opbridge_lower);

// Runs the lowering of operator `index` in the library whose entry point is `lower`. Returns nothing if the
// lowering requests the operator's own node.
std::optional<std::vector<Value>> run_lowering(LowerFunction lower, int32_t index,
                                               const OperatorSchema& schema, const SymbolicCall& call);

}  // namespace opbridge::builder
