// The project that `opbridge new-op` writes: one operator that builds, tests itself and installs with pip
// before a line of it is edited.
#pragma once

#include <string>
#include <vector>

#include "opbridge/schema.h"

namespace opbridge::cli {

struct ProjectFile {
  std::string path;  // within the project
  std::string text;
};

// Throws Error(unsupported) for a schema that operators cannot have.
std::vector<ProjectFile> operator_project(const OperatorSchema& schema, const std::string& line);

}  // namespace opbridge::cli
