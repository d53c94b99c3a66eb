// Checks of paths that callers give.
#pragma once

#include <filesystem>

namespace opbridge::support {

// Throws Error(invalid_argument) for a path that contains a zero byte: the system would truncate the path
// there.
void check_path(const std::filesystem::path& path);

}  // namespace opbridge::support
