#include "onnx/external_locations.h"

#include "onnx/field_reader.h"
#include "onnx/proto_fields.h"
#include "support/mapped_file.h"

namespace opbridge::onnx {
namespace {

bool is_location(std::string_view entry, std::string_view location) {
  std::string_view key, value;
  for (FieldReader<proto::StringStringEntry> field(entry); field.next();) {
    if (field.number() == proto::StringStringEntry::key) key = field.bytes();
    if (field.number() == proto::StringStringEntry::value) value = field.bytes();
  }
  return key == "location" && value == location;
}

bool is_at(std::string_view tensor, std::string_view location) {
  for (FieldReader<proto::Tensor> field(tensor); field.next();) {
    if (field.number() == proto::Tensor::external_data && is_location(field.bytes(), location)) return true;
  }
  return false;
}

}  // namespace

bool refers_to(const std::filesystem::path& model, std::string_view location) {
  try {
    const support::MappedFile file(model);
    const std::string_view message(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
    for (FieldReader<proto::Model> field(message); field.next();) {
      if (field.number() != proto::Model::graph) continue;
      for (FieldReader<proto::Graph> part(field.bytes()); part.next();) {
        if (part.number() == proto::Graph::initializer && is_at(part.bytes(), location)) return true;
      }
    }
  } catch (const protozero::exception&) {
  } catch (const Error&) {
  }
  return false;
}

}  // namespace opbridge::onnx
