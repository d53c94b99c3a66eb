// Converts OnnxModel to ModelProto.
#pragma once

#include "onnx/external_layout.h"
#include "onnx/message.h"
#include "opbridge/convert.h"

namespace opbridge::onnx {

// Deterministic: equal models give equal bytes, with fields in the order of their numbers, as protobuf's own
// implementation writes them. Weights are borrowed. Large weights go to `external`, or into the result if it
// is null. Throws Error(internal) if the graph holds what a lowered graph must not, and Error(unsupported)
// for element types without raw bytes.
Rope serialize(const OnnxModel& model, bool source_lines, ExternalLayout* external);

}  // namespace opbridge::onnx
