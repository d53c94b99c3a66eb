// Finds the libraries of operators that users name.
#pragma once

#include <filesystem>

namespace opbridge::support {

// The library for ONNX Runtime that `path` names: the file itself, or, as in opbridge.load_operators, the
// other library of the set or what both names begin with. libmy_ops, libmy_ops.so and libmy_ops_torch.so name
// libmy_ops_ort.so. The path is absolute: the loader would search other folders for a bare name. Throws
// Error(invalid_file) if there is none.
std::filesystem::path operator_library(const std::filesystem::path& path);

}  // namespace opbridge::support
