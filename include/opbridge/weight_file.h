// Files that hold weights: `.pt2` and `.safetensors`. A model can borrow their bytes, and refer to them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

namespace opbridge {

struct WeightFile {
  std::filesystem::path path;
  std::span<const std::byte> bytes;   // of the whole file, mapped
  std::shared_ptr<const void> owner;  // keeps the bytes alive
};

// Maps a file. Writing to its bytes changes the process's copy, not the file. Throws Error(invalid_file)
// unless `path` is a regular file with content, and Error(io) if the system refuses.
WeightFile map_weight_file(const std::filesystem::path& path);

// Smaller tensors are always stored in the model: shape inference can read them there, and storing them
// elsewhere saves nothing.
inline constexpr size_t least_separate_bytes = 1024;

}  // namespace opbridge
