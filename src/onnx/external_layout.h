// The layout of weights in an external data file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace opbridge::onnx {

inline constexpr uint64_t external_alignment = 64;

// The position of a weight that is not in the model's own file.
struct ExternalPlace {
  std::string location;  // the file's path relative to the model
  uint64_t offset;
};

// Weights are stored one after another, each aligned. Weights with the same bytes share one offset.
class ExternalLayout {
 public:
  // `location` is the file's path relative to the model, as stored in the model.
  explicit ExternalLayout(std::string location) : location_(std::move(location)) {}

  std::span<const std::span<const std::byte>> pieces() const { return pieces_; }
  uint64_t size() const { return size_; }

  // The position that the bytes will have. They must stay valid until the file is written.
  ExternalPlace add(std::span<const std::byte> bytes) {
    const auto [known, is_new] = offsets_.try_emplace({bytes.data(), bytes.size()}, 0);
    if (!is_new) return {location_, known->second};
    static constexpr std::byte zeros[external_alignment] = {};
    const uint64_t padding = (external_alignment - size_ % external_alignment) % external_alignment;
    pieces_.push_back(std::span(zeros).first(padding));
    pieces_.push_back(bytes);
    known->second = size_ + padding;
    size_ += padding + bytes.size();
    return {location_, known->second};
  }

 private:
  std::string location_;
  std::map<std::pair<const std::byte*, size_t>, uint64_t> offsets_;
  std::vector<std::span<const std::byte>> pieces_;
  uint64_t size_ = 0;
};

}  // namespace opbridge::onnx
