// OnnxModel to ModelProto.
#pragma once

#include "onnx/external_layout.h"
#include "onnx/message.h"
#include "opbridge/convert.h"

namespace opbridge::onnx {

// The same model gives the same bytes, with the fields in the order of their numbers, as protobuf's own
// implementation writes them. Weights are borrowed. `external` takes those that are not small; where it is
// null, all are in the result. Throws Error(internal) for what a lowered graph must not hold,
// Error(unsupported) for element types that have no raw bytes.
Rope serialize(const OnnxModel& model, bool source_lines, ExternalLayout* external);

}  // namespace opbridge::onnx
