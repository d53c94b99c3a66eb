// A reader of zip archives that returns stored entries without copying them.
//
// The central directory is read once and checked: every entry lies inside the archive, no two overlap, no two
// share a name, and each agrees with its local header. Zip64 is supported; split archives and encrypted
// entries are not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace opbridge::support {

class ByteReader;
class Inflater;

// Whether the bytes, or those of the file, begin like a zip archive.
bool begins_as_zip(std::span<const std::byte> bytes);
bool is_zip(const std::filesystem::path& file);

class ZipArchive {
 public:
  struct Entry {
    std::string_view name;
    std::span<const std::byte> stored;  // the bytes in the archive, compressed or not
    uint64_t size = 0;                  // uncompressed, in bytes
    uint32_t crc = 0;                   // checksum of the uncompressed bytes
    uint16_t method = 0;
  };

  struct Content {
    std::span<const std::byte> bytes;
    std::shared_ptr<const void> owner;  // keeps `bytes` alive
  };

  // Throws Error(invalid_file) if `archive` is not a zip archive or is damaged. `owner` keeps its bytes
  // alive. `wanted` is the kind of file for the error: "a .pt2 file".
  ZipArchive(std::span<const std::byte> archive, std::shared_ptr<const void> owner,
             std::string_view wanted = {});

  std::span<const Entry> entries() const { return entries_; }
  const Entry* find(std::string_view name) const;  // null where missing

  // The bytes of a stored entry are borrowed from the archive; their checksum is not compared, because that
  // would read gigabytes of weights. A deflated entry is inflated into a new buffer and checked.
  Content read(const Entry& entry) const;
  // Like read(), but always compares the checksum.
  Content read_checked(const Entry& entry) const;

 private:
  void read_entry(ByteReader& directory, uint64_t directory_offset, std::vector<uint64_t>& begins);

  std::span<const std::byte> archive_;
  std::shared_ptr<const void> owner_;
  std::vector<Entry> entries_;
  std::unordered_map<std::string_view, size_t> by_name_;
  mutable std::shared_ptr<Inflater> inflater_;  // made for the first deflated entry
};

}  // namespace opbridge::support
