#include "runtime/find_library.h"

#include <glob.h>
#include <unistd.h>

#include <cstdlib>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

namespace opbridge::runtime {
namespace {

namespace fs = std::filesystem;

// The prefixes that may hold `lib/python3.x`: of the Python that runs parts of the command, of that in which
// opbridge is installed, and of the one that the user would run.
std::vector<fs::path> python_prefixes() {
  std::vector<fs::path> prefixes;
  if (const char* chosen = std::getenv("OPBRIDGE_PYTHON"))
    prefixes.push_back(fs::path(chosen).parent_path().parent_path());
  std::error_code unknown;
  prefixes.push_back(fs::read_symlink("/proc/self/exe", unknown).parent_path().parent_path());
  if (const char* environment = std::getenv("VIRTUAL_ENV")) prefixes.emplace_back(environment);
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (access((fs::path(folder) / "python3").c_str(), X_OK) != 0) continue;
    prefixes.push_back(fs::path(folder).parent_path());
    break;
  }
  // The prefix of pip for Debian's own Python.
  prefixes.emplace_back("/usr/local");
  return prefixes;
}

fs::path first_match(const std::string& pattern) {
  glob_t found{};
  fs::path match;
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0) match = found.gl_pathv[0];
  globfree(&found);
  return match;
}

}  // namespace

fs::path find_onnx_runtime() {
  if (const char* chosen = std::getenv("OPBRIDGE_ONNXRUNTIME")) return chosen;
  for (const fs::path& prefix : python_prefixes()) {
    const std::string packages = (prefix / "lib/python3*/*-packages").string();
    const fs::path match = first_match(packages + "/onnxruntime/capi/libonnxruntime.so*");
    if (!match.empty()) return match;
  }
  return "libonnxruntime.so";
}

}  // namespace opbridge::runtime
