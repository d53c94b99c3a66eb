// Converts OnnxModel to ModelProto.
#pragma once

#include "onnx/external_layout.h"
#include "onnx/message.h"
#include "onnx/weight_references.h"
#include "opbridge/convert.h"

namespace opbridge::onnx {

// Where large weights are stored: in the files that hold them already, otherwise beside the model, otherwise
// in it. Either may be null.
struct WeightPlaces {
  WeightReferences* references = nullptr;
  ExternalLayout* external = nullptr;
};

// Deterministic: equal models give equal bytes, with fields in the order of their numbers, as protobuf's own
// implementation writes them. Weights are borrowed. Throws Error(internal) if the graph holds what a lowered
// graph must not, and Error(unsupported) for element types without raw bytes.
Rope serialize(const OnnxModel& model, bool source_lines, WeightPlaces places);

}  // namespace opbridge::onnx
