#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

struct zip;

namespace opbridge::support {

// Decompresses the deflated entries of a zip archive in memory, using libzip.
class Inflater {
 public:
  // Throws Error(invalid_file) if libzip cannot read the archive. The archive must outlive the object.
  explicit Inflater(std::span<const std::byte> archive);

  // Inflates the entry at `index` of the central directory and checks its checksum. `size` is its
  // uncompressed size.
  std::vector<std::byte> inflate(uint64_t index, uint64_t size);

 private:
  struct Close {
    void operator()(struct zip* archive) const;
  };
  std::unique_ptr<struct zip, Close> archive_;
};

}  // namespace opbridge::support
