#include "onnx/weight_references.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <system_error>

#include "opbridge/error.h"

namespace opbridge::onnx {

namespace fs = std::filesystem;

const WeightFile* file_of(std::span<const std::byte> bytes, const std::vector<WeightFile>& files) {
  constexpr std::less_equal<> no_later;  // defined for pointers into different objects, unlike <=
  for (const WeightFile& file : files) {
    const std::byte* const begin = file.bytes.data();
    if (no_later(begin, bytes.data()) && no_later(bytes.data() + bytes.size(), begin + file.bytes.size()))
      return &file;
  }
  return nullptr;
}

std::optional<ExternalPlace> WeightReferences::find(std::span<const std::byte> bytes) {
  const WeightFile* const file = file_of(bytes, files_);
  if (file == nullptr) return std::nullopt;
  const auto [location, is_new] = locations_.try_emplace(file);
  if (is_new) location->second = location_of(*file);
  uint64_t& size = sizes_[bytes.data()];
  size = std::max<uint64_t>(size, bytes.size());
  return ExternalPlace{location->second, static_cast<uint64_t>(bytes.data() - file->bytes.data())};
}

uint64_t WeightReferences::bytes() const {
  uint64_t sum = 0;
  for (const auto& [begin, size] : sizes_) sum += size;
  return sum;
}

std::vector<fs::path> WeightReferences::files() const {
  std::vector<fs::path> paths;
  for (const WeightFile& file : files_) {
    if (locations_.contains(&file)) paths.push_back(file.path);
  }
  return paths;
}

std::string WeightReferences::location_of(const WeightFile& file) const {
  const fs::path folder = model_.has_parent_path() ? model_.parent_path() : ".";
  std::error_code error;
  const fs::path from = fs::canonical(folder, error);
  if (error) throw Error(ErrorCode::io, fmt::format("cannot write {}: {}", model_.string(), error.message()));
  const fs::path target = fs::canonical(file.path, error);
  if (error) throw Error(ErrorCode::io, fmt::format("{}: {}", file.path.string(), error.message()));
  // Runtimes follow links before they compare, so a link in the folder to a file elsewhere does not help.
  const fs::path relative = target.lexically_relative(from);
  if (!relative.empty() && *relative.begin() != "..") return relative.generic_string();
  throw Error(ErrorCode::invalid_argument,
              fmt::format("{} cannot refer to {}, which is outside of its folder: runtimes refuse such data; "
                          "write the model beside it, or move or hard-link the file into the model's folder",
                          model_.string(), target.string()));
}

}  // namespace opbridge::onnx
