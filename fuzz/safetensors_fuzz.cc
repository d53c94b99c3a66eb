// Any bytes as a `.safetensors` file, and any text as the header of one.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>

#include "opbridge/error.h"
#include "opbridge/frontend.h"

namespace {

// Reads the bytes of every tensor, so that a sanitizer notices those outside of the file.
void read(std::string_view content) {
  const opbridge::WeightFile file{"input", std::as_bytes(std::span(content)), nullptr};
  unsigned sum = 0;
  try {
    for (const auto& [name, tensor] : opbridge::read_safetensors(file)) {
      const opbridge::ir::Weight& weight = tensor.weight;
      for (const std::byte each : weight.bytes) sum += std::to_integer<unsigned>(each);
      if (weight.element_type == opbridge::ElementType::undefined) continue;
      const auto count = static_cast<uint64_t>(weight.element_count());
      if (weight.bytes.size() != storage_bytes(weight.element_type, count)) std::abort();
    }
  } catch (const opbridge::Error& error) {
    if (error.code() == opbridge::ErrorCode::internal) std::abort();
  }
  [[maybe_unused]] static volatile unsigned kept;  // so that the bytes are read
  kept = sum;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  read(text);
  std::string with_length;
  for (size_t i = 0; i < 8; ++i) with_length += static_cast<char>(size >> (8 * i));
  read(with_length + text);
  read(with_length + text + std::string(64, '\1'));
  return 0;
}
