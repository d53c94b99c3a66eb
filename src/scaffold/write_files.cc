#include "scaffold/write_files.h"

#include <system_error>
#include <vector>

#include "opbridge/error.h"
#include "scaffold/operator_project.h"
#include "support/output_file.h"

namespace opbridge::scaffold {

namespace fs = std::filesystem;

void write_new(const fs::path& file, const std::string& text) {
  if (fs::exists(file)) throw Error(ErrorCode::io, file.string() + " already exists; choose another name");
  std::error_code error;
  if (!file.parent_path().empty()) fs::create_directories(file.parent_path(), error);
  if (error) throw Error(ErrorCode::io, "cannot write " + file.string() + ": " + error.message());
  support::write_text(file, text);
}

void write_project(const fs::path& directory, const OperatorSchema& schema, const std::string& line) {
  const std::vector<ProjectFile> files = operator_project(schema, line);
  if (fs::exists(directory)) {
    throw Error(ErrorCode::io, directory.string() + " already exists; choose another folder");
  }
  try {
    for (const ProjectFile& file : files) write_new(directory / file.path, file.text);
  } catch (const Error&) {
    std::error_code ignored;
    fs::remove_all(directory, ignored);
    throw;
  }
}

}  // namespace opbridge::scaffold
