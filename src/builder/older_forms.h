// Operators in the forms that older opsets have, for opbridge's own mappings, which are written for the
// operators of newer ones. A user's mapping gets the nodes that it names.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "opbridge/symbolic.h"

namespace opbridge::builder {

// The results of operator `name` as newer opsets define it, computed with the operators of `g.opset()`.
// Returns nothing if that opset has the operator in this form, or if no other form is known.
std::optional<std::vector<Value>> in_older_form(GraphBuilder& g, std::string_view name,
                                                std::span<const Value> inputs, size_t outputs,
                                                std::span<const ir::Attribute> attributes);

// "Max" or "Min" of integers, which ONNX has since opset 12.
Value extremum_of_integers(GraphBuilder& g, bool greatest, std::span<const Value> values);

// The first opset after `opset` whose form of the operator has these attributes and numbers of inputs and
// outputs; 0 if that of `opset` has them, or none.
int opset_that_adds(std::string_view name, size_t inputs, size_t outputs,
                    std::span<const ir::Attribute> attributes, int opset);

// The first opset after `opset` whose form of the operator takes these element types; 0 if there is none.
int opset_that_takes(std::string_view name, std::span<const Value> inputs,
                     std::span<const ir::Attribute> attributes, int opset);

}  // namespace opbridge::builder
