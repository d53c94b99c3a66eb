// Writes scaffolds. Nothing that exists is overwritten: the user may have completed it.
#pragma once

#include <filesystem>
#include <string>

#include "opbridge/schema.h"

namespace opbridge::scaffold {

// Throws Error(io) if the file exists or cannot be written.
void write_new(const std::filesystem::path& file, const std::string& text);

// Writes the project of an operator into `directory`, all of it or nothing. `line` is the schema as the user
// wrote it. Throws Error(io) if the directory exists, and the errors of operator_project().
void write_project(const std::filesystem::path& directory, const OperatorSchema& schema,
                   const std::string& line);

}  // namespace opbridge::scaffold
