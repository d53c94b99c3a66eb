#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace opbridge::support {

// A memory-mapped file. If another program truncates the file meanwhile, reading it raises SIGBUS, as with
// every mapped file.
class MappedFile {
 public:
  // Throws Error(invalid_file) unless `path` is a regular file with content, and Error(io) if the system
  // refuses.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace opbridge::support
