// Finds the files to which a stored model refers.
#pragma once

#include <filesystem>
#include <string_view>

namespace opbridge::onnx {

// Whether an initializer of the model has its bytes in the file `location`, a path relative to the model's
// folder. False if the file is missing or is not a model.
bool refers_to(const std::filesystem::path& model, std::string_view location);

}  // namespace opbridge::onnx
