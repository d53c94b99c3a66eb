#include "support/operator_library.h"

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "opbridge/error.h"
#include "support/path.h"

namespace opbridge::support {

std::filesystem::path operator_library(const std::filesystem::path& path) {
  check_path(path);
  if (std::filesystem::exists(path)) return std::filesystem::absolute(path);
  std::string name = path.filename();
  for (const std::string_view end : {".so", "_torch", "_ort"}) {
    if (name.ends_with(end)) name.resize(name.size() - end.size());
  }
  std::filesystem::path library = path.parent_path() / (name + "_ort.so");
  if (std::filesystem::exists(library)) return std::filesystem::absolute(library);
  throw Error(ErrorCode::invalid_file,
              fmt::format("cannot open the operator library {}: no such file, nor {}", path.string(),
                          library.filename().string()));
}

}  // namespace opbridge::support
