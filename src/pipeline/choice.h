// Programs of several ways, made by choose() (opbridge/frontend.h), on their way to one model.
#pragma once

#include "opbridge/convert.h"
#include "opbridge/ir.h"

namespace opbridge {

bool is_choice(const ir::Graph& graph);

struct Choice {
  ir::Graph condition, if_true, if_false;
};

// The parts of a graph for which is_choice() holds.
Choice parts_of(ir::Graph choice);

// A model with an If, whose branches are the nodes of `if_true` and `if_false`. `condition` has the inputs of
// the program, the others may have further ones (parameters); its only output is the condition. A weight of
// both is stored once. Throws Error(unsupported) if the outputs differ in number, element type or
// rank, or in what they are the new values of.
OnnxModel join(OnnxModel condition, OnnxModel if_true, OnnxModel if_false);

}  // namespace opbridge
