// Bodies of standard ONNX operators for opbridge's operators, with a function and a file for each family.
//
// A body is registered like a lowering: the operator's schema line, the first opset at which the body holds,
// and a function that makes its nodes. g.result() is the type of the node's output. Where the body does not
// hold for the node's types, sizes or attributes, it calls g.refuse().
#pragma once

#include "opbridge/registry.h"

namespace opbridge::standard {

// All bodies.
const SymbolicRegistry& bodies();

void register_distance(SymbolicRegistry& registry);
void register_elementary(SymbolicRegistry& registry);
void register_linalg(SymbolicRegistry& registry);
void register_points(SymbolicRegistry& registry);
void register_searching(SymbolicRegistry& registry);
void register_special(SymbolicRegistry& registry);
void register_vision(SymbolicRegistry& registry);

}  // namespace opbridge::standard
