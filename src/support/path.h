// Paths as callers give them.
#pragma once

#include <filesystem>

namespace opbridge {

// Throws Error(invalid_argument) for a path with a zero byte, at which the system would take it to end.
void check_path(const std::filesystem::path& path);

}  // namespace opbridge
