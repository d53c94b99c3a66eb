// Queries about a node or a value that need no other part of the graph.
#pragma once

#include <span>
#include <string_view>

#include "opbridge/ir.h"

namespace opbridge::ir {

// Whether the operator belongs to ONNX's own domain.
bool is_standard(const Node& node);

bool is_one_of(std::span<const std::string_view> operators, const Node& node);

// Whether the node returns elements of its first input, rearranged, selected or repeated.
bool moves_elements(const Node& node);

// The node that makes the value, if it is of that operator; otherwise null.
const Node* producer_of(const Value* value, std::string_view op);

// The element type of a tensor; undefined if the value is null or not a tensor.
ElementType element_type(const Value* value);

// The type of a tensor; a number counts as one without dims. Throws Error(invalid_argument) for a list.
TensorType as_tensor_type(const Value& value);

}  // namespace opbridge::ir
