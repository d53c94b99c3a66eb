// Hints for the errors of `g.op`: attributes and inputs that an operator has in another opset.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "onnx/schema_table.h"

namespace opbridge::builder {

// For an attribute that `schema` lacks: "; it is an input since opset 13", "; ONNX has it since opset 14", ";
// ONNX has it up to opset 17"; empty if no version has it.
std::string missing_attribute_hint(const onnx::OpSchema& schema, std::string_view attribute, int opset);

// For more inputs than `schema` has, if a later version has the first surplus one: "; axes is an attribute up
// to opset 12", "; ONNX has input axes since opset 18".
std::string surplus_input_hint(const onnx::OpSchema& schema, size_t first_surplus, int opset);

}  // namespace opbridge::builder
