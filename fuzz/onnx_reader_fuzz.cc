// Reading any bytes as a file ends in an Error, or in a graph that satisfies the IR's invariants and can be
// drawn, written and read again.
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>

#include "inspect/graph_page.h"
#include "inspect/summary.h"
#include "onnx/model_reader.h"
#include "onnx/model_serializer.h"

namespace {

using namespace opbridge;

onnx::ModelFile parse(std::string bytes) {
  const auto owner = std::make_shared<std::string>(std::move(bytes));
  return onnx::parse_onnx(std::as_bytes(std::span(*owner)), owner);
}

std::string text_of(const onnx::Rope& rope) {
  std::string text;
  for (const std::span<const std::byte> piece : rope.pieces()) {
    text.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  }
  return text;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  onnx::ModelFile file;
  try {
    file = parse(std::string(reinterpret_cast<const char*>(data), size));
  } catch (const Error& error) {
    if (error.code() == ErrorCode::internal) std::abort();
    return 0;
  }
  ir::verify(file.model.graph);
  try {
    inspect::graph_page(file.model.graph, inspect::summarize(file), file.model.opset);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::invalid_file) std::abort();  // a function's body may be invalid
  }
  std::string written;
  try {
    written = text_of(onnx::serialize(file.model, true, {}));
  } catch (const Error&) {
    return 0;  // values that the reader emptied, or a domain that is not imported
  }
  const onnx::ModelFile again = parse(written);
  if (text_of(onnx::serialize(again.model, true, {})) != written) std::abort();
  return 0;
}
