// Any text as the program of a `.pt2` archive and as the indices of its tensors; the archive is converted.
#include <cstddef>
#include <cstdint>

#include "convert_program.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  opbridge::fuzz::convert_program({reinterpret_cast<const char*>(data), size}, {});
  return 0;
}
