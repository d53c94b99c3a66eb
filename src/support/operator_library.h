// Finds the libraries of operators that users name.
#pragma once

#include <filesystem>

namespace opbridge::support {

// The two libraries of a set of operators.
struct OperatorLibraries {
  std::filesystem::path torch;
  std::filesystem::path ort;
};

// The libraries of the set that `path` names, by either library or by what both names begin with. libmy_ops,
// libmy_ops.so and libmy_ops_torch.so name libmy_ops_torch.so and libmy_ops_ort.so, which may not exist.
OperatorLibraries operator_libraries(const std::filesystem::path& path);

// The library for ONNX Runtime that `path` names: the file itself, or else that of the set. The path is
// absolute: the loader would search other folders for a bare name. Throws Error(invalid_file) if there is
// none.
std::filesystem::path operator_library(const std::filesystem::path& path);

}  // namespace opbridge::support
