// Any text as the program of a `.pt2` archive that is converted, and behind a zero byte any text as the index
// of its weights. The archive around them is well-formed, since its checksums would keep every mutation from
// the JSON.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "frontend/exported_program.h"
#include "opbridge/convert.h"
#include "opbridge/error.h"
#include "zip_builder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto registry = opbridge::SymbolicRegistry::with_bundled();
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t zero = input.find('\0');
  const std::string_view index =
      zero == std::string_view::npos ? R"({"config": {}})" : input.substr(zero + 1);
  const std::vector<opbridge::ZipEntry> entries = {
      {"m/models/model.json", std::string(input.substr(0, zero))},
      {"m/data/weights/model_weights_config.json", std::string(index)},
      {"m/data/constants/model_constants_config.json", R"({"config": {}})"},
      {"m/data/weights/weight_0", std::string(4096, 'w')}};
  const auto bytes = std::make_shared<std::vector<std::byte>>(opbridge::ZipBuilder().build(entries));
  try {
    opbridge::ir::Graph graph = opbridge::read_exported_program(*bytes, bytes);
    opbridge::ir::print(graph);
    opbridge::to_onnx(std::move(graph), registry, {});
  } catch (const opbridge::Error& error) {
    if (error.code() == opbridge::ErrorCode::internal) throw;
  }
  return 0;
}
