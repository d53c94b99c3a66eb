#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace opbridge {

// A file whose bytes are read where the page cache holds them. A file that another program truncates while it
// is mapped ends this one with SIGBUS, as for every reader that maps files.
class MappedFile {
 public:
  // Throws Error(invalid_file) unless `path` is a regular file with content, Error(io) where the system
  // refuses.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace opbridge
