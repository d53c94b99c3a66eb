#pragma once

#include <string>

#include "opbridge/symbolic.h"

namespace opbridge::lowering {

// GELU (Hendrycks and Gimpel 2016, arXiv:1606.08415) of floating-point numbers, as `aten::gelu` computes it:
// ONNX's Gelu from opset 20 on, else the nodes that runtimes fuse. `approximate` is "none" or "tanh".
Value gelu(GraphBuilder& g, Value self, const std::string& approximate);

}  // namespace opbridge::lowering
