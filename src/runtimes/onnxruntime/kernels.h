// The element types that ONNX Runtime's CPU kernels compute in; ONNX itself allows more.
#pragma once

#include <optional>
#include <string_view>

#include "onnx/schema_table.h"

namespace opbridge::onnx {

// The types that `variable`, one of schema.types(), may have in ONNX Runtime. Nothing where the variable is
// free, or the operator unknown to it.
std::optional<TypeSet> runtime_types(const OpSchema& schema, const TypeParameter& variable);

// The type to compute `type` in where the runtime has kernels for `has` alone: `type` itself; the next wider
// one that is among them, whose results cast back are those of `type`; nothing where there is none. float16
// stays, because ONNX Runtime casts it by itself.
std::optional<ElementType> runtime_type(TypeSet has, ElementType type);

}  // namespace opbridge::onnx
