// The element types that ONNX Runtime's CPU kernels support; ONNX itself allows more.
#pragma once

#include <optional>

#include "onnx/schema_table.h"

namespace opbridge::onnxruntime {

// The types that `variable`, one of schema.types(), may have in ONNX Runtime. Missing if the variable is
// free, and if the operator is unknown to the runtime.
std::optional<onnx::TypeSet> kernel_types(const onnx::OpSchema& schema, const onnx::TypeParameter& variable);

}  // namespace opbridge::onnxruntime
