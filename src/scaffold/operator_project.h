// The project that `opbridge new-op` writes. Its operator builds, passes its tests and installs with pip
// before any edit.
#pragma once

#include <string>
#include <vector>

#include "opbridge/schema.h"

namespace opbridge::scaffold {

struct ProjectFile {
  std::string path;  // within the project
  std::string text;
};

// Why an operator of this schema has no project; empty if it has one. `line` is the schema as the user wrote
// it.
std::string why_no_project(const OperatorSchema& schema, const std::string& line);

// Throws Error(unsupported) for a schema that an operator cannot have.
std::vector<ProjectFile> operator_project(const OperatorSchema& schema, const std::string& line);

}  // namespace opbridge::scaffold
