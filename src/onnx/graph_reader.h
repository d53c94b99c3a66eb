// GraphProto to Graph.
#pragma once

#include <string>
#include <string_view>

#include "onnx/tensor_reader.h"
#include "opbridge/ir.h"

namespace opbridge::onnx {

// How deep graphs may lie in graphs, so that no file can exhaust the stack.
inline constexpr int most_nesting = 64;

// Throws Error(invalid_file) where the graph breaks ONNX's rules, Error(unsupported) where the IR has no form
// for it.
ir::Graph read_graph(std::string_view message, TensorReader& tensors);

// The default domain has two names in ONNX, "" and "ai.onnx", and one here.
std::string_view normalized_domain(std::string_view domain);

// As ir::Node::op has it: "Relu", "custom::f".
std::string qualified_name(std::string_view domain, std::string_view op_type);

}  // namespace opbridge::onnx
