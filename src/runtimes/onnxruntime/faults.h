// The rewrites of the legalize stage, each for one fault of ONNX Runtime and in a file of its own, whose head
// names the versions, the model that shows the fault, and the test. Those that return a bool report whether
// they changed anything.
#pragma once

#include "opbridge/ir.h"

namespace opbridge::onnxruntime {

// A float64 scalar that scales a MatMul becomes a vector.
bool spread_float64_scales(ir::Graph& graph);

// Cast(Transpose(x)) becomes Transpose(Cast(x)) in front of a MatMul.
bool cast_before_rotations(ir::Graph& graph);

// A Pad in front of a pool gets a form that is not fused into the pool.
void keep_pads_before_pools(ir::Graph& graph, int opset);

}  // namespace opbridge::onnxruntime
