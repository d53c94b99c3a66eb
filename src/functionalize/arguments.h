// Reading and writing the arguments of torch-level nodes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "opbridge/ir.h"

namespace opbridge::functionalization {

// The tensor that a view shows or an in-place operator writes: the argument `self`, or where there is none
// the first tensor. Null where no argument is a tensor.
ir::Value** subject(std::vector<ir::Attribute>& arguments);
ir::Value* subject(const ir::Node& node);

// Null where the argument is missing or None.
const ir::AttributeValue* given(const ir::Node& node, std::string_view argument);

// These throw Error(unsupported) where the argument is there and is something else, such as a number that is
// only known when the model runs.
int64_t integer(const ir::Node& node, std::string_view argument, int64_t if_missing);
std::vector<int64_t> integers(const ir::Node& node,
                              std::string_view argument);  // one integer counts as a list
bool flag(const ir::Node& node, std::string_view argument, bool if_missing);
Dim size(const ir::Node& node, std::string_view argument);  // the expression, also of a symbolic number

// The index of an axis among `rank`; a negative number counts from the end. A tensor without axes has none.
size_t axis(const ir::Node& node, int64_t number, size_t rank);
size_t axis(const ir::Node& node, std::string_view argument, int64_t if_missing, size_t rank);

// Integers where all of them are, otherwise expressions.
ir::AttributeValue sizes(const std::vector<Dim>& dims);

// Adds `argument` of `from` where it is given.
void copy_argument(std::vector<ir::Attribute>& to, const ir::Node& from, std::string_view argument);

// Throws Error(unsupported) with the node's place in the user's program.
[[noreturn]] void refuse(const ir::Node& node, const std::string& message);

}  // namespace opbridge::functionalization
