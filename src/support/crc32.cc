#include "support/crc32.h"

#include <array>

namespace opbridge {
namespace {

// table[k][b]: the CRC of byte b followed by k zero bytes, so that eight bytes go through in one step.
constexpr auto table = [] {
  std::array<std::array<uint32_t, 256>, 8> t{};
  for (uint32_t b = 0; b < 256; ++b) {
    uint32_t crc = b;
    for (int bit = 0; bit < 8; ++bit) crc = crc & 1 ? crc >> 1 ^ 0xEDB88320u : crc >> 1;
    t[0][b] = crc;
  }
  for (size_t k = 1; k < 8; ++k) {
    for (size_t b = 0; b < 256; ++b) t[k][b] = t[k - 1][b] >> 8 ^ t[0][t[k - 1][b] & 0xFF];
  }
  return t;
}();

}  // namespace

uint32_t crc32(std::span<const std::byte> bytes) {
  const auto* p = reinterpret_cast<const unsigned char*>(bytes.data());
  size_t left = bytes.size();
  uint32_t crc = ~0u;
  for (; left >= 8; p += 8, left -= 8) {
    crc ^= p[0] | p[1] << 8 | p[2] << 16 | static_cast<uint32_t>(p[3]) << 24;
    crc = table[7][crc & 0xFF] ^ table[6][crc >> 8 & 0xFF] ^ table[5][crc >> 16 & 0xFF] ^
          table[4][crc >> 24] ^ table[3][p[4]] ^ table[2][p[5]] ^ table[1][p[6]] ^ table[0][p[7]];
  }
  for (; left > 0; ++p, --left) crc = crc >> 8 ^ table[0][(crc ^ *p) & 0xFF];
  return ~crc;
}

}  // namespace opbridge
