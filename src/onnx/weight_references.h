// Weights that stay where they are: in a file that the model points to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "onnx/external_layout.h"
#include "opbridge/weight_file.h"

namespace opbridge::onnx {

// The file that the bytes are borrowed from; null if they are elsewhere in memory.
const WeightFile* file_of(std::span<const std::byte> bytes, const std::vector<WeightFile>& files);

class WeightReferences {
 public:
  // For the model at `model`. Both arguments must outlive the object.
  WeightReferences(const std::vector<WeightFile>& files, const std::filesystem::path& model)
      : files_(files), model_(model) {}

  // The position of the bytes, if they are borrowed from one of the files. Throws Error(invalid_argument) if
  // that file is not in or below the model's folder.
  std::optional<ExternalPlace> find(std::span<const std::byte> bytes);

  // The size and the files of all weights that were found; weights with the same bytes count once.
  uint64_t bytes() const;
  std::vector<std::filesystem::path> files() const;

 private:
  std::string location_of(const WeightFile& file) const;

  const std::vector<WeightFile>& files_;
  const std::filesystem::path& model_;
  std::map<const WeightFile*, std::string> locations_;
  std::map<const std::byte*, uint64_t> sizes_;
};

}  // namespace opbridge::onnx
