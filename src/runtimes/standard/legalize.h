// The stage after simplify for Target::onnx: makes the model rely on the ONNX standard alone.
//
// A node of another domain is replaced where bodies.h has a body of standard operators for it. A body of one
// node takes the node's place. A longer one becomes an ONNX function, which the node calls. The function has
// the node's name, or `name_1`, `name_2`, … if calls of one operator have different bodies: a body depends on
// the types, ranks and attributes of its call.
#pragma once

#include "opbridge/convert.h"
#include "runtimes/refusal.h"

namespace opbridge::standard {

// `refuse` is called for every node that has neither a body nor a function in the model; the node stays as it
// is.
void legalize(OnnxModel& model, const runtimes::Refuse& refuse);

}  // namespace opbridge::standard
