// Dequantized values that later operators only move: the runtime moves the integers instead.
#pragma once

#include "opbridge/ir.h"

namespace opbridge::onnxruntime {

// The DequantizeLinear that makes the value, directly or through such operators; null if there is none, or if
// its integers are constant.
const ir::Node* dequantization_of(const ir::Value* value);

// The node that makes the value, before any Transpose nodes; null if there is none.
const ir::Node* before_transposes(const ir::Value* value);

}  // namespace opbridge::onnxruntime
