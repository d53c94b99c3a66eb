#pragma once

#include <filesystem>

namespace opbridge::runtime {

// Where ONNX Runtime's library is, in the order that OnnxRuntime's constructor tells; the bare name, for the
// dynamic loader to find, where it is in none of the places. Runs no program.
std::filesystem::path find_onnx_runtime();

}  // namespace opbridge::runtime
