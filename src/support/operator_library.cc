#include "support/operator_library.h"

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "opbridge/error.h"
#include "support/path.h"

namespace opbridge::support {

OperatorLibraries operator_libraries(const std::filesystem::path& path) {
  check_path(path);
  std::string stem = path.filename();
  for (const std::string_view end : {".so", "_torch", "_ort"}) {
    if (stem.ends_with(end)) stem.resize(stem.size() - end.size());
  }
  const std::filesystem::path folder = path.parent_path();
  return {folder / (stem + "_torch.so"), folder / (stem + "_ort.so")};
}

std::filesystem::path operator_library(const std::filesystem::path& path) {
  const std::filesystem::path library = operator_libraries(path).ort;
  for (const std::filesystem::path& each : {path, library}) {
    if (std::filesystem::exists(each)) return std::filesystem::absolute(each);
  }
  throw Error(ErrorCode::invalid_file,
              fmt::format("cannot open the operator library {}: no such file, nor {}", path.string(),
                          library.filename().string()));
}

}  // namespace opbridge::support
