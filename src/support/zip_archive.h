// A reader of zip archives that hands out stored entries where they lie, without a copy.
//
// The central directory is read once and everything in it is checked: every entry lies inside the archive, no
// two overlap, no two have the same name, and the local header before the data agrees. Zip64 is read;
// archives in several parts and encrypted entries are not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace opbridge {

class ByteReader;
class Inflater;

class ZipArchive {
 public:
  struct Entry {
    std::string_view name;
    std::span<const std::byte> stored;  // as it lies in the archive, compressed or not
    uint64_t size = 0;                  // uncompressed, in bytes
    uint32_t crc = 0;                   // of the uncompressed bytes
    uint16_t method = 0;
  };

  struct Content {
    std::span<const std::byte> bytes;
    std::shared_ptr<const void> owner;  // keeps `bytes` alive
  };

  // Throws Error(invalid_file) where `archive` is no zip archive or a damaged one. `owner` keeps it alive.
  ZipArchive(std::span<const std::byte> archive, std::shared_ptr<const void> owner);

  std::span<const Entry> entries() const { return entries_; }
  const Entry* find(std::string_view name) const;  // null where missing

  // The bytes of a stored entry are borrowed from the archive and their checksum is left unread, for the sake
  // of gigabytes of weights; those of a deflated one are inflated into a buffer of their own and checked.
  Content read(const Entry& entry) const;
  // As read(), and the checksum is compared in any case.
  Content read_checked(const Entry& entry) const;

 private:
  void read_entry(ByteReader& directory, uint64_t directory_offset, std::vector<uint64_t>& begins);

  std::span<const std::byte> archive_;
  std::shared_ptr<const void> owner_;
  std::vector<Entry> entries_;
  std::unordered_map<std::string_view, size_t> by_name_;
  mutable std::shared_ptr<Inflater> inflater_;  // made for the first deflated entry
};

}  // namespace opbridge
