#include "opbridge/weight_file.h"

#include <fmt/format.h>

#include "opbridge/error.h"
#include "support/mapped_file.h"

namespace opbridge {

WeightFile map_weight_file(const std::filesystem::path& path) {
  try {
    const auto file =
        std::make_shared<const support::MappedFile>(path, support::MappedFile::Access::copy_on_write);
    return {path, file->bytes(), file};
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("{}: {}", path.string(), error.message()));
  }
}

}  // namespace opbridge
