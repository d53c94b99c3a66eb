// Converts GraphProto to ir::Graph.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "onnx/tensor_reader.h"
#include "opbridge/ir.h"

namespace opbridge::onnx {

// The depth of nested graphs is limited, so that no file can exhaust the stack.
inline constexpr int most_nesting = 64;

// Throws Error(invalid_file) if the graph violates ONNX's rules, and Error(unsupported) if the IR cannot
// represent it. Adds to `overridable` the names of the initializers that are also inputs.
ir::Graph read_graph(std::string_view message, TensorReader& tensors, std::vector<std::string>& overridable);

// ONNX has two names for the default domain, "" and "ai.onnx"; here it is "".
std::string_view normalized_domain(std::string_view domain);

// The operator's name as in ir::Node::op: "Relu", "custom::f".
std::string qualified_name(std::string_view domain, std::string_view op_type);

}  // namespace opbridge::onnx
