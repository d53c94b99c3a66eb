#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace opbridge {

// The CRC-32 of zip archives (ISO 3309, polynomial 0xEDB88320 reflected).
uint32_t crc32(std::span<const std::byte> bytes);

}  // namespace opbridge
