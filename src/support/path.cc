#include "support/path.h"

#include <fmt/format.h>

#include <string>

#include "opbridge/error.h"

namespace opbridge::support {

void check_path(const std::filesystem::path& path) {
  const size_t zero = path.native().find('\0');
  if (zero == std::string::npos) return;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("a path with a zero byte, after '{}'", path.native().substr(0, zero)));
}

}  // namespace opbridge::support
