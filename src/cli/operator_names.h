// What the arguments of an operator, and the operator, are called in the project that `opbridge new-op`
// writes.
#pragma once

#include <string>

#include "opbridge/schema.h"

namespace opbridge::cli {

// The name of an argument, or one with a prefix where that is a word of C++ or Python, or used in the
// project.
std::string variable_name(const std::string& argument);

// What the elements of the schema's Tensor[] are called, but for the number behind it.
std::string element_prefix(const OperatorSchema& schema, const std::string& list);

// The Python package: of the namespace and the name, so that it hides no module of Python's own.
std::string package_name(const OperatorSchema& schema);

}  // namespace opbridge::cli
