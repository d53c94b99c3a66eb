// The writer behind write_onnx.
#pragma once

#include <climits>
#include <cstdint>
#include <filesystem>

#include "opbridge/convert.h"

namespace opbridge::onnx {

// Protobuf implementations refuse messages that are larger.
inline constexpr uint64_t largest_message = INT_MAX;

// As write_onnx, where a model's own file holds `most_bytes` at most.
WriteReport write_model(const OnnxModel& model, const std::filesystem::path& path,
                        const ConvertOptions& options, uint64_t most_bytes = largest_message);

}  // namespace opbridge::onnx
