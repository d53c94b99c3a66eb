// Reading and writing the arguments of torch-level nodes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "opbridge/ir.h"

namespace opbridge::functionalization {

// The tensor that a view operator takes or an in-place operator writes: the argument `self`, or if there is
// none, the first tensor. Null if no argument is a tensor.
ir::Value** subject(std::vector<ir::Attribute>& arguments);
ir::Value* subject(const ir::Node& node);

// Null if the argument is missing or None.
const ir::AttributeValue* given(const ir::Node& node, std::string_view argument);

// The following throw Error(unsupported) if the argument is given and has another type, such as a number that
// is known only when the model runs.
int64_t integer(const ir::Node& node, std::string_view argument, int64_t if_missing);
std::vector<int64_t> integers(const ir::Node& node,
                              std::string_view argument);  // one integer counts as a list
bool flag(const ir::Node& node, std::string_view argument, bool if_missing);
Dim size(const ir::Node& node, std::string_view argument);  // accepts a symbolic scalar too

// The index of an axis, in [0, rank); a negative number counts from the end. Throws for rank 0.
size_t axis(const ir::Node& node, int64_t number, size_t rank);
size_t axis(const ir::Node& node, std::string_view argument, int64_t if_missing, size_t rank);

// A list of integers if all dims are static, otherwise a list of Dims.
ir::AttributeValue sizes(const std::vector<Dim>& dims);

// Adds `argument` of `from`, if it is given.
void copy_argument(std::vector<ir::Attribute>& to, const ir::Node& from, std::string_view argument);

// Throws Error(unsupported) with the node's location in the user's program.
[[noreturn]] void refuse(const ir::Node& node, const std::string& message);

}  // namespace opbridge::functionalization
