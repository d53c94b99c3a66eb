// Writes what a program lacks: mappings for the user to complete, and projects of operators.
#pragma once

#include <filesystem>
#include <string>

#include "opbridge/convert.h"

namespace opbridge::scaffold {

// The Python file with a mapping of each operator. It can be imported as it is; a mapping whose body is not
// written refuses the calls.
std::string mapping_file(const std::vector<MissingOperator>& missing, const std::string& model, int opset);

struct Repair {
  std::filesystem::path mappings;  // the Python file
  std::filesystem::path projects;  // the folder for the projects of operators outside aten
};

// Writes those of `repair` that are not empty. An operator with a project gets its mapping there, so the file
// omits it. Returns lines that say what was written.
std::string write_repair(const Repair& repair, const Diagnosis& diagnosis, const std::string& model,
                         int opset);

}  // namespace opbridge::scaffold
