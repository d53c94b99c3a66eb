#pragma once

#include <unordered_map>

#include "opbridge/ir.h"

namespace opbridge {

// How often each value is used: by nodes, at any depth of subgraphs, and as an output.
using Uses = std::unordered_map<const ir::Value*, int>;

Uses count_uses(ir::Graph& graph);

}  // namespace opbridge
