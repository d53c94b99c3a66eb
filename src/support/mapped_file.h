#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace opbridge::support {

// A memory-mapped file. If another program truncates the file meanwhile, reading it raises SIGBUS, as with
// every mapped file.
class MappedFile {
 public:
  enum class Access {
    read,
    copy_on_write,  // writing to the bytes is allowed, and changes only the process's copy
  };

  // Throws Error(invalid_file) unless `path` is a regular file with content, and Error(io) if the system
  // refuses.
  explicit MappedFile(const std::filesystem::path& path, Access access = Access::read);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

// Takes the pages of a mapped file out of the process's memory, and undoes writes to them. They are read
// again when they are used. The bytes must be of a MappedFile: others would be lost.
void release_pages(std::span<const std::byte> bytes);

}  // namespace opbridge::support
