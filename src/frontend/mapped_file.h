// A file's bytes, without reading them.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>

namespace opbridge {

// The bytes stay valid as long as `owner` lives, even where the file is replaced or removed meanwhile.
struct MappedFile {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;  // null where the file is empty
};

// Throws Error(invalid_file) where the file is missing, unreadable or not a regular file.
MappedFile map_file(const std::filesystem::path& path);

}  // namespace opbridge
