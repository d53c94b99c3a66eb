// Runs the program of a `.pt2` archive through the whole conversion, for targets that generate such programs.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/exported_program.h"
#include "onnx/model_serializer.h"
#include "opbridge/convert.h"
#include "opbridge/error.h"
#include "zip_builder.h"

namespace opbridge::fuzz {

// The program's JSON, the index of its weights and the index of its constants, separated by zero bytes. The
// last two may be missing.
inline std::vector<std::string> parts_of(std::string_view input) {
  std::vector<std::string> parts;
  while (true) {
    const size_t zero = input.find('\0');
    parts.emplace_back(input.substr(0, zero));
    if (zero == std::string_view::npos) return parts;
    input.remove_prefix(zero + 1);
  }
}

// Whether the program became a model. Throws only errors that no program may cause. The archive around the
// program is well-formed, because its checksums would reject every mutation of the JSON.
inline bool convert_program(std::string_view input, const ConvertOptions& options) {
  static const auto registry = SymbolicRegistry::with_bundled();
  std::vector<std::string> parts = parts_of(input);
  while (parts.size() < 3) parts.emplace_back(R"({"config": {}})");
  const std::vector<ZipEntry> entries = {{"m/models/model.json", parts[0]},
                                         {"m/data/weights/model_weights_config.json", parts[1]},
                                         {"m/data/constants/model_constants_config.json", parts[2]},
                                         {"m/data/weights/weight_0", std::string(4096, 'w')},
                                         {"m/data/constants/weight_0", std::string(4096, '\0')}};
  const auto bytes = std::make_shared<std::vector<std::byte>>(ZipBuilder().build(entries));
  try {
    ir::Graph graph = read_exported_program(*bytes, bytes);
    ir::print(graph);
    const OnnxModel model = to_onnx(std::move(graph), registry, options);
    ir::verify(model.graph);
    onnx::serialize(model, options.source_lines, {});
    return true;
  } catch (const Error& error) {
    if (error.code() == ErrorCode::internal) throw;
    return false;
  }
}

}  // namespace opbridge::fuzz
