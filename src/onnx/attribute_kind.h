// Which ONNX attribute a value of the IR becomes.
#pragma once

#include "onnx/schema_table.h"
#include "opbridge/ir.h"

namespace opbridge::onnx {

// `undefined` for what no ONNX attribute can hold: None, a complex number, a size that is symbolic, a value,
// a null pointer, a type that no TypeProto can name.
AttributeKind kind_of(const ir::AttributeValue& value);

// Whether a TypeProto can name it: the element type is known, and it is the same for all elements of a list.
bool has_type_proto(const ir::Type& type);

}  // namespace opbridge::onnx
