#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

struct zip;

namespace opbridge {

// Decompresses the deflated entries of a zip archive that lies in memory, through libzip.
class Inflater {
 public:
  // Throws Error(invalid_file) where libzip cannot read the archive, which must outlive the object.
  explicit Inflater(std::span<const std::byte> archive);

  // The entry at `index` of the central directory; `size` is its uncompressed size. The checksum is compared.
  std::vector<std::byte> inflate(uint64_t index, uint64_t size);

 private:
  struct Close {
    void operator()(struct zip* archive) const;
  };
  std::unique_ptr<struct zip, Close> archive_;
};

}  // namespace opbridge
