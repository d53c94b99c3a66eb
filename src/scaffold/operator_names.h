// The names of an operator and its arguments in the project that `opbridge new-op` writes.
#pragma once

#include <string>

#include "opbridge/schema.h"

namespace opbridge::scaffold {

// The name of an argument, with a prefix if it is a keyword of C++ or Python or is used in the project.
std::string variable_name(const std::string& argument);

// The prefix of the names of a Tensor[] argument's elements; a number follows it.
std::string element_prefix(const OperatorSchema& schema, const std::string& list);

// The Python package's name: namespace and operator name, so that it does not shadow another module.
std::string package_name(const OperatorSchema& schema);

}  // namespace opbridge::scaffold
