// The stage behind simplify for Target::onnx: the model relies on ONNX's standard alone.
//
// A node of another domain is replaced where bodies.h has a body of standard operators for it. A body of one
// node takes the node's place. A longer one becomes an ONNX function, which the node calls: of the node's
// name, or of `name_1`, `name_2`, … where calls of one operator have different bodies, because a body holds
// the types, ranks and attributes of its call.
#pragma once

#include "opbridge/convert.h"
#include "runtimes/refusal.h"

namespace opbridge::standard {

// `refuse` is called for every node that has neither a body nor a function in the model; the node stays as it
// is.
void legalize(OnnxModel& model, const runtimes::Refuse& refuse);

}  // namespace opbridge::standard
