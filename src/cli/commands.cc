#include "cli/commands.h"

#include <cerrno>
#include <cstdio>
#include <string>
#include <system_error>

#include "opbridge/error.h"

namespace opbridge::cli {

void print(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    throw Error(ErrorCode::io, "cannot print: " + std::system_category().message(errno));
  }
}

SymbolicRegistry mappings(const std::vector<std::filesystem::path>& libraries) {
  SymbolicRegistry registry = SymbolicRegistry::with_bundled();
  for (const std::filesystem::path& library : libraries) registry.add_operators(library);
  return registry;
}

}  // namespace opbridge::cli
