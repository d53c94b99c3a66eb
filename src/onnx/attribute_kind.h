// The kind of ONNX attribute that an IR value becomes.
#pragma once

#include "onnx/schema_table.h"
#include "opbridge/ir.h"

namespace opbridge::onnx {

// `undefined` for values that ONNX attributes cannot hold: None, a complex number, a symbolic size, an
// ir::Value, a null pointer, and a type that TypeProto cannot express.
AttributeKind kind_of(const ir::AttributeValue& value);

// Whether TypeProto can express it: the element type is known, and all elements of a list share it.
bool has_type_proto(const ir::Type& type);

}  // namespace opbridge::onnx
