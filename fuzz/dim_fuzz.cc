// Dim::parse parses any text or throws Error, and parses what it prints.
#include <cstdlib>
#include <string_view>

#include "opbridge/dim.h"
#include "opbridge/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  opbridge::Dim dim;
  try {
    dim = opbridge::Dim::parse({reinterpret_cast<const char*>(data), size});
  } catch (const opbridge::Error&) {
    return 0;
  }
  try {
    if (opbridge::Dim::parse(dim.str()) != dim) std::abort();
  } catch (const opbridge::Error&) {
    // The canonical text may exceed a limit of the parser that the original text did not.
  }
  return 0;
}
