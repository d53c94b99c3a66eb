// Inserts Max(x, -inf), which changes no floating-point number and which the runtime neither fuses nor
// removes.
#pragma once

#include <functional>

#include "ir/readers.h"
#include "ir/rewriter.h"
#include "opbridge/ir.h"

namespace opbridge::onnxruntime {

// Inserts such a node after each node for which `matches` holds, in `root` and its bodies; its output takes
// the place of the node's only result.
void set_apart_where(ir::Graph& root, ir::Names& names,
                     const std::function<bool(const ir::Node&, const ir::Readers&)>& matches);

// Appends such a node after `node`, which has been appended already.
void set_apart(ir::Rewriter& rewriter, ir::Node& node);

// Inserts such a node before the first input of `node`.
void set_apart_from_input(ir::Rewriter& rewriter, ir::Node& node);

}  // namespace opbridge::onnxruntime
