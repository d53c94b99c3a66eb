#include "onnx/model_reader.h"

#include <fmt/format.h>

#include <climits>
#include <string_view>

#include "onnx/field_reader.h"
#include "onnx/graph_reader.h"
#include "onnx/proto_fields.h"
#include "onnx/tensor_reader.h"
#include "support/mapped_file.h"
#include "support/zip_archive.h"

namespace opbridge::onnx {
namespace {

[[noreturn]] void fail(const std::string& what) { throw Error(ErrorCode::invalid_file, what); }

OnnxFunction read_function(std::string_view message) {
  OnnxFunction result;
  result.bytes = message;
  for (FieldReader<proto::Function> field(message); field.next();) {
    if (field.number() == proto::Function::name) result.name = field.bytes();
    if (field.number() == proto::Function::domain) result.domain = normalized_domain(field.bytes());
  }
  return result;
}

ModelFile read_model(std::string_view message, TensorReader& tensors) {
  using proto::Model;
  ModelFile file;
  bool has_graph = false;
  for (FieldReader<Model> field(message); field.next();) {
    switch (field.number()) {
      case Model::ir_version:
        file.ir_version = field.integer();
        break;
      case Model::producer_name:
        file.producer_name = field.bytes();
        break;
      case Model::producer_version:
        file.producer_version = field.bytes();
        break;
      case Model::doc_string:
        file.doc_string = field.bytes();
        break;
      case Model::graph:
        if (has_graph) fail("it has two graphs");
        file.model.graph = read_graph(field.bytes(), tensors, file.overridable);
        has_graph = true;
        break;
      case Model::opset_import: {
        std::string_view domain;
        int64_t version = 0;
        for (FieldReader<proto::OperatorSetId> id(field.bytes()); id.next();) {
          if (id.number() == proto::OperatorSetId::domain) domain = normalized_domain(id.bytes());
          if (id.number() == proto::OperatorSetId::version) version = id.integer();
        }
        if (version < 0 || version > INT_MAX) fail(fmt::format("there is no opset {}", version));
        file.model.opset_imports.insert_or_assign(std::string(domain), static_cast<int>(version));
        break;
      }
      case Model::metadata_props: {
        auto& [key, value] = file.metadata.emplace_back();
        for (FieldReader<proto::StringStringEntry> entry(field.bytes()); entry.next();) {
          if (entry.number() == proto::StringStringEntry::key) key = entry.bytes();
          if (entry.number() == proto::StringStringEntry::value) value = entry.bytes();
        }
        break;
      }
      case Model::functions:
        file.model.functions.push_back(read_function(field.bytes()));
        break;
      default:
        break;
    }
  }
  for (OnnxFunction& function : file.model.functions) {
    const auto import = file.model.opset_imports.find(function.domain);
    if (import != file.model.opset_imports.end()) function.version = import->second;
  }
  if (file.ir_version <= 0 || !has_graph) fail("it has no IR version or no graph");
  if (const auto opset = file.model.opset_imports.find(""); opset != file.model.opset_imports.end()) {
    file.model.opset = opset->second;
  }
  return file;
}

void collect_operators(std::string_view node, std::vector<std::string>& operators, int nesting) {
  if (nesting > most_nesting) fail("graphs are nested too deeply");
  using proto::Node;
  std::string_view op_type;
  std::string_view domain;
  std::vector<std::string_view> graphs;
  for (FieldReader<Node> field(node); field.next();) {
    if (field.number() == Node::op_type) op_type = field.bytes();
    if (field.number() == Node::domain) domain = normalized_domain(field.bytes());
    if (field.number() != Node::attribute) continue;
    for (FieldReader<proto::Attribute> attribute(field.bytes()); attribute.next();) {
      const bool is_graph = attribute.number() == proto::Attribute::g;
      if (is_graph || attribute.number() == proto::Attribute::graphs) graphs.push_back(attribute.bytes());
    }
  }
  operators.push_back(qualified_name(domain, op_type));
  for (const std::string_view graph : graphs) {
    for (FieldReader<proto::Graph> field(graph); field.next();) {
      if (field.number() == proto::Graph::node) collect_operators(field.bytes(), operators, nesting + 1);
    }
  }
}

// Runs `read`. An exception of protozero means that the file is invalid.
template <class F>
auto guarded(const F& read) {
  try {
    return read();
  } catch (const protozero::exception& error) {
    fail(fmt::format("it is truncated or not a protobuf message ({})", error.what()));
  }
}

}  // namespace

ModelFile parse_onnx(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                     const std::filesystem::path& folder) {
  if (bytes.size() > INT_MAX) fail("it is larger than 2 GB, the limit of an ONNX file");
  TensorReader tensors(std::move(owner), folder);
  const std::string_view message(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  // No model begins like this: it would be a field that ONNX does not have.
  if (support::begins_as_zip(bytes)) fail("it is a zip archive, like a .pt2 file, and not an ONNX model");
  ModelFile file = guarded([&] { return read_model(message, tensors); });
  file.files = tensors.external_files();
  return file;
}

ModelFile read_onnx(const std::filesystem::path& path) {
  try {
    const auto content = std::make_shared<const support::MappedFile>(path);
    const std::filesystem::path folder = path.parent_path();
    ModelFile file = parse_onnx(content->bytes(), content, folder.empty() ? "." : folder);
    file.files.push_back(path);
    return file;
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("cannot read {}: {}", path.string(), error.message()),
                error.where());
  }
}

std::vector<std::string> operators_of(const OnnxFunction& function) {
  return guarded([&] {
    std::vector<std::string> operators;
    for (FieldReader<proto::Function> field(function.bytes); field.next();) {
      if (field.number() == proto::Function::node) collect_operators(field.bytes(), operators, 0);
    }
    return operators;
  });
}

}  // namespace opbridge::onnx
