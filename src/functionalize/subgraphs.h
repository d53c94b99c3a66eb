// The bodies of control-flow nodes.
#pragma once

#include <functional>

#include "opbridge/ir.h"

namespace opbridge::functionalization {

// Calls `visit` for each value that the subgraphs of a node use or return, their own values and outer ones.
// `visit` may assign to the reference.
void for_each_use_in_subgraphs(const ir::Node& node, const std::function<void(ir::Value*&)>& visit);

}  // namespace opbridge::functionalization
