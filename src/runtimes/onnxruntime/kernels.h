// The element types that ONNX Runtime's CPU kernels support; ONNX itself allows more.
#pragma once

#include <optional>
#include <string_view>

#include "onnx/schema_table.h"

namespace opbridge::onnx {

// The types that `variable`, one of schema.types(), may have in ONNX Runtime. Nothing if the variable is not
// restricted or the operator is unknown.
std::optional<TypeSet> runtime_types(const OpSchema& schema, const TypeParameter& variable);

// The type in which to compute `type` if the runtime has kernels for the types `has` only: `type` itself, or
// a wider one whose results, cast back, are those of `type`; nothing if there is none. float16 is returned as
// it is, because ONNX Runtime casts it itself.
std::optional<ElementType> runtime_type(TypeSet has, ElementType type);

}  // namespace opbridge::onnx
