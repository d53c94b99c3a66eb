// Nodes that the runtime does not fuse, exchange or remove: a Max with -inf, which changes no floating-point
// number. `root` gets the constant.
#pragma once

#include <functional>

#include "ir/readers.h"
#include "ir/uses.h"
#include "opbridge/ir.h"

namespace opbridge::onnxruntime {

// Appends one behind the node, which goes on to make its only result by way of it.
void set_apart(ir::Node& node, ir::Graph& root, ir::Graph& graph, ir::Names& names);

// Sets apart the nodes for which `is_to_be` holds, in `root` and its bodies; returns whether there are any.
bool set_apart_where(ir::Graph& root, ir::Names& names,
                     const std::function<bool(const ir::Node&, const ir::Readers&)>& is_to_be);

// Appends one from which `node` takes its first input, in place of that value.
void set_apart_from_input(ir::Node& node, ir::Graph& root, ir::Graph& graph, ir::Names& names);

}  // namespace opbridge::onnxruntime
