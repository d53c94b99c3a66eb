#pragma once

#include <filesystem>

namespace opbridge::runtime {

// The path of ONNX Runtime's library, searched in the order that OnnxRuntime's constructor documents. If it
// is not found, returns the bare name for the dynamic loader to search. Runs no program.
std::filesystem::path find_onnx_runtime();

}  // namespace opbridge::runtime
