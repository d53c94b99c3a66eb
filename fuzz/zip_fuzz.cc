// Any bytes as a zip archive: every entry is read, or the archive is refused.
#include <cstddef>
#include <cstdint>
#include <span>

#include "opbridge/error.h"
#include "support/zip_archive.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const opbridge::support::ZipArchive archive(std::as_bytes(std::span(data, size)), nullptr);
    for (const auto& entry : archive.entries()) archive.read_checked(entry);
  } catch (const opbridge::Error&) {
  }
  return 0;
}
