#include "builder/version_hints.h"

#include <fmt/format.h>

#include <algorithm>

namespace opbridge::builder {
namespace {

bool has_input(const onnx::OpSchema& schema, std::string_view name) {
  return std::ranges::any_of(schema.inputs(), [&](const auto& input) { return input.name() == name; });
}

// The next version of the schema after `opset`; null if there is none.
const onnx::OpSchema* next_version(const onnx::OpSchema& schema, int opset) {
  for (int later = opset + 1; later <= onnx::newest_opset(); ++later) {
    const onnx::OpSchema* found = onnx::find_schema("", schema.name(), later);
    if (found != nullptr && found->since_version > opset) return found;
  }
  return nullptr;
}

}  // namespace

std::string missing_attribute_hint(const onnx::OpSchema& schema, std::string_view attribute, int opset) {
  int last = 0;
  for (int earlier = 1; earlier < opset; ++earlier) {
    const onnx::OpSchema* found = onnx::find_schema("", schema.name(), earlier);
    if (found != nullptr && found->attribute(attribute) != nullptr) last = earlier;
  }
  if (has_input(schema, attribute)) {
    return fmt::format("; it is an input{}", last == 0 ? "" : fmt::format(" since opset {}", last + 1));
  }
  if (last != 0) return fmt::format("; ONNX has it up to opset {}", last);
  for (const onnx::OpSchema* later = next_version(schema, opset); later != nullptr;
       later = next_version(schema, later->since_version)) {
    if (later->attribute(attribute) != nullptr) {
      return fmt::format("; ONNX has it since opset {}", later->since_version);
    }
  }
  return {};
}

std::string surplus_input_hint(const onnx::OpSchema& schema, size_t first_surplus, int opset) {
  for (const onnx::OpSchema* later = next_version(schema, opset); later != nullptr;
       later = next_version(schema, later->since_version)) {
    const onnx::FormalParameter* input = later->input(first_surplus);
    if (input == nullptr) continue;
    if (schema.attribute(input->name()) != nullptr) {
      return fmt::format("; {} is an attribute up to opset {}", input->name(), later->since_version - 1);
    }
    return fmt::format("; ONNX has input {} since opset {}", input->name(), later->since_version);
  }
  return {};
}

}  // namespace opbridge::builder
