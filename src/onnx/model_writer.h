// Implements write_onnx.
#pragma once

#include <climits>
#include <cstdint>
#include <filesystem>

#include "opbridge/convert.h"

namespace opbridge::onnx {

// Protobuf implementations refuse larger messages.
inline constexpr uint64_t largest_message = INT_MAX;

// Like write_onnx, with a limit of `most_bytes` for the model's own file.
WriteReport write_model(const OnnxModel& model, const std::filesystem::path& path,
                        const ConvertOptions& options, uint64_t most_bytes = largest_message);

}  // namespace opbridge::onnx
