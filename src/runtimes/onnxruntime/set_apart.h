// Nodes that the runtime does not fuse, exchange or remove: a Max with -inf, which changes no floating-point
// number. `root` gets the constant.
#pragma once

#include "ir/uses.h"
#include "opbridge/ir.h"

namespace opbridge::onnxruntime {

// Appends one behind the node, which goes on to make its only result by way of it.
void set_apart(ir::Node& node, ir::Graph& root, ir::Graph& graph, ir::Names& names);

// Appends one from which `node` takes its first input, in place of that value.
void set_apart_from_input(ir::Node& node, ir::Graph& root, ir::Graph& graph, ir::Names& names);

}  // namespace opbridge::onnxruntime
