// parse_schema parses any line or throws Error; what it prints is parsed to an equal schema.
#include <cstdlib>
#include <string_view>

#include "opbridge/error.h"
#include "opbridge/schema.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  opbridge::OperatorSchema schema;
  try {
    schema = opbridge::parse_schema({reinterpret_cast<const char*>(data), size});
  } catch (const opbridge::Error&) {
    return 0;
  }
  const std::string line = schema.str();
  if (line.size() < (1 << 16) && opbridge::parse_schema(line).str() != line) std::abort();
  return 0;
}
