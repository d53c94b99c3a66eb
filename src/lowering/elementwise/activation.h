#pragma once

#include <string>

#include "opbridge/symbolic.h"

namespace opbridge::lowering {

// GELU (Hendrycks and Gimpel 2016, arXiv:1606.08415) of floating-point numbers, as `aten::gelu` computes it:
// ONNX's Gelu from opset 20 on, else the nodes that runtimes fuse. `approximate` is "none" or "tanh".
Value gelu(GraphBuilder& g, Value self, const std::string& approximate);

// Softmax of the elements where `hidden` is false, which may have axes of size 1 beside `axis`; 0 where it is
// true. NaN if it hides a whole row. `x` has an opmath type.
Value softmax_of_shown(GraphBuilder& g, Value x, Value hidden, int64_t axis);

}  // namespace opbridge::lowering
