// Converts AttributeProto to ir::Attribute.
#pragma once

#include <functional>
#include <string_view>

#include "onnx/tensor_reader.h"
#include "onnx/type_reader.h"
#include "opbridge/ir.h"

namespace opbridge::onnx {

// `read_graph` reads the message of a subgraph. A type that the IR cannot represent becomes ir::Opaque.
// Throws Error(invalid_file).
ir::Attribute read_attribute(std::string_view message, TensorReader& tensors, TypeReader& types,
                             const std::function<ir::GraphPtr(std::string_view)>& read_graph);

}  // namespace opbridge::onnx
