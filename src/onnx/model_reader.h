// Reads an ONNX model into the IR.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "opbridge/convert.h"

namespace opbridge::onnx {

// A model, and what its file says about itself.
struct ModelFile {
  OnnxModel model;
  int64_t ir_version = 0;
  std::string producer_name;
  std::string producer_version;
  std::string doc_string;
  std::vector<std::pair<std::string, std::string>> metadata;
};

// Maps the file and borrows its weights, also those of external data, which must lie in the model's own
// folder or below. The bytes of a weight are as aligned as the file has them, which may be not at all.
//
// What the IR has no form for is kept visible but empty: values that are maps, optionals or sparse have an
// undefined element type, attributes that are such types become ir::Opaque, which write_onnx refuses. A
// sequence becomes a list of one element. An initializer that is also an input, as models before IR version 4
// have it, is an initializer only. An output that a node leaves out is a value without a name.
//
// Throws Error(invalid_file) for a missing, truncated or foreign file and for a model that breaks ONNX's
// rules, Error(unsupported) for sparse initializers and for overloaded functions.
ModelFile read_onnx(const std::filesystem::path& path);

// The same from memory, which `owner` keeps alive. External data is looked for in `folder`, and refused
// where that is empty.
ModelFile parse_onnx(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                     const std::filesystem::path& folder = {});

// The operators that a function's body calls, in order, named as ir::Node::op is. Those of subgraphs
// included.
std::vector<std::string> operators_of(const OnnxFunction& function);

}  // namespace opbridge::onnx
