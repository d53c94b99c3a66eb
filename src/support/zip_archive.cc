#include "support/zip_archive.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <string>

#include "opbridge/error.h"
#include "support/inflater.h"

namespace opbridge::support {
namespace {

// The signatures of the records of a zip archive (PKWARE's APPNOTE.TXT, section 4.3), and the sizes of their
// fixed parts.
constexpr uint32_t local_header = 0x04034b50;
constexpr uint32_t directory_entry = 0x02014b50;
constexpr uint32_t directory_end = 0x06054b50;
constexpr uint32_t directory_end64 = 0x06064b50;
constexpr uint32_t directory_end64_locator = 0x07064b50;
constexpr size_t local_header_size = 30;
constexpr size_t directory_entry_size = 46;
constexpr size_t directory_end_size = 22;
constexpr size_t directory_end64_size = 56;
constexpr size_t directory_end64_locator_size = 20;
constexpr size_t longest_comment = 0xFFFF;

constexpr uint16_t method_stored = 0;
constexpr uint16_t method_deflated = 8;
constexpr uint16_t flag_encrypted = 1;
constexpr uint16_t extra_zip64 = 1;

[[noreturn]] void damaged(std::string what) {
  throw Error(ErrorCode::invalid_file, "damaged zip archive: " + std::move(what));
}

}  // namespace

// Reads little-endian numbers in sequence; never reads past the end.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : left_(bytes) {}

  size_t left() const { return left_.size(); }
  std::span<const std::byte> take(uint64_t count) {
    if (count > left_.size()) damaged("a record reaches past its end");
    const auto taken = left_.first(count);
    left_ = left_.subspan(count);
    return taken;
  }
  std::string_view text(size_t count) {
    const auto taken = take(count);
    return {reinterpret_cast<const char*>(taken.data()), taken.size()};
  }
  void skip(size_t count) { take(count); }
  uint16_t u16() { return static_cast<uint16_t>(number(2)); }
  uint32_t u32() { return static_cast<uint32_t>(number(4)); }
  uint64_t u64() { return number(8); }

 private:
  uint64_t number(size_t size) {
    uint64_t value = 0;
    size_t shift = 0;
    for (std::byte b : take(size)) {
      value |= static_cast<uint64_t>(b) << shift;
      shift += 8;
    }
    return value;
  }

  std::span<const std::byte> left_;
};

namespace {

struct Directory {
  uint64_t entries = 0;
  uint64_t size = 0;
  uint64_t offset = 0;
};

// The offset of the end-of-central-directory record: the last one whose comment ends with the archive.
std::optional<size_t> find_directory_end(std::span<const std::byte> archive) {
  if (archive.size() < directory_end_size) return std::nullopt;
  const size_t last = archive.size() - directory_end_size;
  const size_t first = last > longest_comment ? last - longest_comment : 0;
  for (size_t at = last + 1; at-- > first;) {
    if (archive[at] != std::byte{'P'}) continue;
    ByteReader record(archive.subspan(at));
    if (record.u32() != directory_end) continue;
    record.skip(16);
    if (record.u16() == last - at) return at;
  }
  return std::nullopt;
}

std::span<const std::byte> part(std::span<const std::byte> archive, uint64_t offset, uint64_t size) {
  if (offset > archive.size() || size > archive.size() - offset) damaged("a record lies outside the file");
  return archive.subspan(offset, size);
}

Directory read_directory_end64(std::span<const std::byte> archive, size_t locator_at) {
  ByteReader locator(archive.subspan(locator_at + 4));
  const uint32_t disk = locator.u32();
  const uint64_t end_at = locator.u64();
  if (disk != 0 || locator.u32() > 1) damaged("it is one part of a split archive");
  if (end_at > locator_at) damaged("a record lies outside the file");
  ByteReader record(part(archive.first(locator_at), end_at, directory_end64_size));
  if (record.u32() != directory_end64) damaged("the zip64 end of the central directory is missing");
  record.skip(8 + 2 + 2);
  if (record.u32() != 0 || record.u32() != 0) damaged("it is one part of a split archive");
  Directory directory;
  const uint64_t entries_here = record.u64();
  directory.entries = record.u64();
  directory.size = record.u64();
  directory.offset = record.u64();
  if (entries_here != directory.entries) damaged("it is one part of a split archive");
  part(archive.first(end_at), directory.offset, directory.size);
  return directory;
}

Directory find_directory(std::span<const std::byte> archive, std::string_view wanted) {
  const std::optional<size_t> end_at = find_directory_end(archive);
  if (!end_at) {
    if (begins_as_zip(archive))
      throw Error(ErrorCode::invalid_file, "a truncated zip archive: its end is missing");
    throw Error(ErrorCode::invalid_file, wanted.empty()
                                             ? "not a zip archive"
                                             : fmt::format("not a zip archive, as {} must be", wanted));
  }
  if (*end_at >= directory_end64_locator_size) {
    const size_t locator_at = *end_at - directory_end64_locator_size;
    if (ByteReader(archive.subspan(locator_at)).u32() == directory_end64_locator) {
      return read_directory_end64(archive, locator_at);
    }
  }
  ByteReader record(archive.subspan(*end_at + 4));
  if (record.u16() != 0 || record.u16() != 0) damaged("it is one part of a split archive");
  const uint16_t entries_here = record.u16();
  Directory directory;
  directory.entries = record.u16();
  directory.size = record.u32();
  directory.offset = record.u32();
  if (entries_here != directory.entries) damaged("it is one part of a split archive");
  part(archive.first(*end_at), directory.offset, directory.size);
  return directory;
}

}  // namespace

bool begins_as_zip(std::span<const std::byte> bytes) {
  return bytes.size() >= sizeof(local_header) && ByteReader(bytes).u32() == local_header;
}

bool is_zip(const std::filesystem::path& file) {
  char first[sizeof(local_header)] = {};
  std::ifstream(file, std::ios::binary).read(first, sizeof(first));
  return begins_as_zip(std::as_bytes(std::span(first)));
}

ZipArchive::ZipArchive(std::span<const std::byte> archive, std::shared_ptr<const void> owner,
                       std::string_view wanted)
    : archive_(archive), owner_(std::move(owner)) {
  const Directory directory = find_directory(archive, wanted);
  if (directory.entries > directory.size / directory_entry_size)
    damaged("it has fewer entries than it declares");
  entries_.reserve(directory.entries);
  by_name_.reserve(directory.entries);
  std::vector<uint64_t> begins;  // of each entry's local header
  begins.reserve(directory.entries);

  ByteReader records(part(archive, directory.offset, directory.size));
  for (uint64_t i = 0; i < directory.entries; ++i) read_entry(records, directory.offset, begins);
  if (records.left() != 0) damaged("it has more entries than it declares");

  std::vector<size_t> order(entries_.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::sort(order, {}, [&](size_t i) { return begins[i]; });
  for (size_t i = 1; i < order.size(); ++i) {
    const Entry& before = entries_[order[i - 1]];
    if (before.stored.data() + before.stored.size() > archive.data() + begins[order[i]]) {
      damaged(fmt::format("'{}' and '{}' overlap", before.name, entries_[order[i]].name));
    }
  }
}

void ZipArchive::read_entry(ByteReader& directory, uint64_t directory_offset, std::vector<uint64_t>& begins) {
  if (directory.u32() != directory_entry) damaged("an entry of the central directory is misplaced");
  Entry entry;
  directory.skip(2 + 2);
  const uint16_t flags = directory.u16();
  entry.method = directory.u16();
  directory.skip(2 + 2);
  entry.crc = directory.u32();
  const uint32_t stored_size32 = directory.u32();
  const uint32_t size32 = directory.u32();
  const uint16_t name_size = directory.u16();
  const uint16_t extra_size = directory.u16();
  const uint16_t comment_size = directory.u16();
  directory.skip(2 + 2 + 4);
  const uint32_t begin32 = directory.u32();
  entry.name = directory.text(name_size);
  ByteReader extra(directory.take(extra_size));
  directory.skip(comment_size);

  uint64_t stored_size = stored_size32;
  uint64_t begin = begin32;
  entry.size = size32;
  while (extra.left() >= 4) {
    const uint16_t kind = extra.u16();
    ByteReader field(extra.take(extra.u16()));
    if (kind != extra_zip64) continue;
    // The field holds only the numbers that did not fit into 32 bits, in this order.
    if (size32 == UINT32_MAX) entry.size = field.u64();
    if (stored_size32 == UINT32_MAX) stored_size = field.u64();
    if (begin32 == UINT32_MAX) begin = field.u64();
  }

  const auto body = archive_.first(directory_offset);
  ByteReader header(part(body, begin, local_header_size));
  if (header.u32() != local_header) damaged(fmt::format("'{}' has no local header", entry.name));
  header.skip(22);
  const uint16_t local_name_size = header.u16();
  const uint16_t local_extra_size = header.u16();
  const uint64_t name_at = begin + local_header_size;
  ByteReader local_name(part(body, name_at, local_name_size));
  if (local_name.text(local_name_size) != entry.name) {
    damaged(fmt::format("'{}' has another name in its local header", entry.name));
  }
  if (flags & flag_encrypted) damaged(fmt::format("'{}' is encrypted", entry.name));
  entry.stored = part(body, name_at + local_name_size + local_extra_size, stored_size);
  if (entry.method == method_stored && entry.size != stored_size) {
    damaged(fmt::format("'{}' is stored, but its sizes differ", entry.name));
  }
  if (!by_name_.emplace(entry.name, entries_.size()).second) {
    damaged(fmt::format("two entries are named '{}'", entry.name));
  }
  begins.push_back(begin);
  entries_.push_back(entry);
}

const ZipArchive::Entry* ZipArchive::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &entries_[found->second];
}

ZipArchive::Content ZipArchive::read(const Entry& entry) const {
  if (entry.method == method_stored) return {entry.stored, owner_};
  if (entry.method == method_deflated) return read_checked(entry);
  throw Error(ErrorCode::invalid_file,
              fmt::format("'{}' has the unsupported compression method {}; store or deflate it instead",
                          entry.name, entry.method));
}

ZipArchive::Content ZipArchive::read_checked(const Entry& entry) const {
  Content content;
  if (entry.method == method_deflated) {
    if (inflater_ == nullptr) inflater_ = std::make_shared<Inflater>(archive_);
    const auto index = static_cast<uint64_t>(&entry - entries_.data());
    const auto inflated = std::make_shared<std::vector<std::byte>>(inflater_->inflate(index, entry.size));
    content = {*inflated, inflated};
  } else {
    content = read(entry);
  }
  const auto* bytes = reinterpret_cast<const Bytef*>(content.bytes.data());
  if (crc32_z(0, bytes, content.bytes.size()) != entry.crc)
    damaged(fmt::format("the checksum of '{}' does not match", entry.name));
  return content;
}

}  // namespace opbridge::support
