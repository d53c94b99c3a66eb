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

// A model, and what its file states about itself.
struct ModelFile {
  OnnxModel model;
  int64_t ir_version = 0;
  std::string producer_name;
  std::string producer_version;
  std::string doc_string;
  std::vector<std::pair<std::string, std::string>> metadata;
  std::vector<std::string> overridable;      // the initializers that are also inputs, in order
  std::vector<std::filesystem::path> files;  // that were read: of external data, and the model's own
};

// Maps the file and borrows its weights, including external data, which must be in or below the model's
// folder. Weights may be unaligned, as they are in the file.
//
// What the IR cannot represent is kept without its content. Values that are maps, optionals or sparse have an
// undefined element type. Attributes of such types become ir::Opaque, which write_onnx refuses. A sequence
// becomes a list of one element. An initializer that is also an input, as in models before IR version 4,
// becomes an initializer only. An output that a node omits becomes a value without a name.
//
// Throws Error(invalid_file) for a missing, truncated or foreign file and for a model that violates ONNX's
// rules, and Error(unsupported) for sparse initializers and overloaded functions.
ModelFile read_onnx(const std::filesystem::path& path);

// Like read_onnx, but from memory that `owner` keeps alive. External data is searched in `folder`, and
// refused if `folder` is empty.
ModelFile parse_onnx(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                     const std::filesystem::path& folder = {});

// The operators that a function's body calls, in order, including those of its subgraphs. They are named as
// in ir::Node::op.
std::vector<std::string> operators_of(const OnnxFunction& function);

}  // namespace opbridge::onnx
