// Attributes that hold doubles exactly: ONNX's own, FLOAT and FLOATS, are float32.
#pragma once

#include <optional>
#include <vector>

#include "opbridge/ir.h"

namespace opbridge::builder {

// Whether float32 holds the value exactly.
bool is_float32(double value);

// Adds the attribute "NAME_float64" for each FLOAT or FLOATS attribute NAME with a value that float32 does
// not hold, as opbridge/operator_abi.h describes.
void add_exact_floats(std::vector<ir::Attribute>& attributes);

// The value of the attribute `name`, the exact one if the node has it. Null if it has no such attribute.
std::optional<ir::AttributeValue> exact_attribute(const ir::Node& node, const std::string& name);

}  // namespace opbridge::builder
