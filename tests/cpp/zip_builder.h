// Builds zip archives byte by byte, well-formed or not.
#pragma once

#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace opbridge {

inline uint32_t checksum(std::string_view text) {
  return static_cast<uint32_t>(crc32_z(0, reinterpret_cast<const Bytef*>(text.data()), text.size()));
}

// One entry as it is written; a test changes fields to make it invalid.
struct ZipEntry {
  std::string name;
  std::string stored;             // the bytes in the archive
  uint64_t size = stored.size();  // as the directory declares it
  uint64_t stored_size = stored.size();
  uint32_t crc = checksum(stored);
  uint16_t method = 0;
  uint16_t flags = 0;
  std::string local_name = name;
  int64_t offset = -1;  // of the local header; -1 for the real one
  bool zip64 = false;   // keeps the sizes and the offset in the zip64 field
};

// A deflate stream of one uncompressed block (RFC 1951, section 3.2.4).
inline std::string deflated(std::string_view text) {
  const auto size = static_cast<uint16_t>(text.size());
  std::string stream = {1, static_cast<char>(size), static_cast<char>(size >> 8), static_cast<char>(~size),
                        static_cast<char>(~size >> 8)};
  return stream += text;
}

inline ZipEntry deflated_entry(std::string name, std::string_view text) {
  ZipEntry entry{std::move(name), deflated(text)};
  entry.size = text.size();
  entry.crc = checksum(text);
  entry.method = 8;
  return entry;
}

class ZipBuilder {
 public:
  // The whole archive; `zip64_end` adds the zip64 end of the central directory.
  std::vector<std::byte> build(std::span<const ZipEntry> entries, bool zip64_end = false,
                               std::string_view comment = {}) {
    bytes_.clear();
    std::vector<uint64_t> offsets;
    for (const ZipEntry& entry : entries) {
      offsets.push_back(bytes_.size());
      local_header(entry);
    }
    const uint64_t directory_at = bytes_.size();
    for (size_t i = 0; i < entries.size(); ++i) directory_entry(entries[i], offsets[i]);
    const uint64_t directory_size = bytes_.size() - directory_at;
    if (zip64_end) end64(entries.size(), directory_size, directory_at);
    put(0x06054b50, 4);
    put(0, 2);
    put(0, 2);
    put(zip64_end ? 0xFFFF : entries.size(), 2);
    put(zip64_end ? 0xFFFF : entries.size(), 2);
    put(zip64_end ? 0xFFFFFFFF : directory_size, 4);
    put(zip64_end ? 0xFFFFFFFF : directory_at, 4);
    put(comment.size(), 2);
    put(comment);
    return bytes_;
  }

 private:
  void local_header(const ZipEntry& entry) {
    put(0x04034b50, 4);
    put(45, 2);
    put(entry.flags, 2);
    put(entry.method, 2);
    put(0, 4);
    put(entry.crc, 4);
    put(entry.stored.size(), 4);
    put(entry.size, 4);
    put(entry.local_name.size(), 2);
    put(0, 2);
    put(entry.local_name);
    put(entry.stored);
  }

  void directory_entry(const ZipEntry& entry, uint64_t at) {
    const uint64_t offset = entry.offset < 0 ? at : static_cast<uint64_t>(entry.offset);
    put(0x02014b50, 4);
    put(45, 2);
    put(45, 2);
    put(entry.flags, 2);
    put(entry.method, 2);
    put(0, 4);
    put(entry.crc, 4);
    put(entry.zip64 ? 0xFFFFFFFF : entry.stored_size, 4);
    put(entry.zip64 ? 0xFFFFFFFF : entry.size, 4);
    put(entry.name.size(), 2);
    put(entry.zip64 ? 28 : 0, 2);
    put(0, 2);
    put(0, 2);
    put(0, 2);
    put(0, 4);
    put(entry.zip64 ? 0xFFFFFFFF : offset, 4);
    put(entry.name);
    if (!entry.zip64) return;
    put(1, 2);
    put(24, 2);
    put(entry.size, 8);
    put(entry.stored_size, 8);
    put(offset, 8);
  }

  void end64(uint64_t entries, uint64_t directory_size, uint64_t directory_at) {
    const uint64_t at = bytes_.size();
    put(0x06064b50, 4);
    put(44, 8);
    put(45, 2);
    put(45, 2);
    put(0, 4);
    put(0, 4);
    put(entries, 8);
    put(entries, 8);
    put(directory_size, 8);
    put(directory_at, 8);
    put(0x07064b50, 4);
    put(0, 4);
    put(at, 8);
    put(1, 4);
  }

  void put(uint64_t value, int size) {
    for (int i = 0; i < size; ++i) bytes_.push_back(static_cast<std::byte>(value >> 8 * i));
  }
  void put(std::string_view text) {
    for (char c : text) bytes_.push_back(static_cast<std::byte>(c));
  }

  std::vector<std::byte> bytes_;
};

}  // namespace opbridge
