#include "onnx/type_reader.h"

#include <fmt/format.h>

#include <cstdint>
#include <optional>

#include "onnx/field_reader.h"
#include "onnx/proto_fields.h"

namespace opbridge::onnx {
namespace {

// A longer dim_param is treated as a name.
constexpr size_t longest_expression = 256;

// A dim_param is an expression only if it has symbols and prints as it was written: `sequence-length` is a
// name, not a difference, and `7` is not a symbolic size.
Dim dim_from_param(std::string_view param) {
  const auto size = [](const std::string& symbol, auto) { return Dim::symbol(symbol); };
  if (param.size() <= longest_expression) {
    try {
      if (Dim dim = Dim::parse(param, size); !dim.is_static() && dim.str() == param) return dim;
    } catch (const Error&) {
    }
  }
  return Dim::symbol(std::string(param));
}

}  // namespace

Dim TypeReader::read_dim(std::string_view message) {
  std::optional<int64_t> value;
  std::string_view param;
  for (FieldReader<proto::Dimension> field(message); field.next();) {
    if (field.number() == proto::Dimension::dim_value) value = field.integer();
    if (field.number() == proto::Dimension::dim_param) param = field.bytes();
  }
  if (value && *value >= 0) return *value;
  if (param.empty()) return Dim::symbol(fmt::format("unknown_{}", ++unknown_dims_));
  return dim_from_param(param);
}

ir::TensorType TypeReader::read_tensor(std::string_view message) {
  ir::TensorType result;
  for (FieldReader<proto::TensorType> field(message); field.next();) {
    if (field.number() == proto::TensorType::elem_type) {
      const int64_t number = field.integer();
      if (number < 0 || number > UINT8_MAX) {
        throw Error(ErrorCode::invalid_file, fmt::format("there is no element type {}", number));
      }
      result.element_type = static_cast<ElementType>(number);
    } else if (field.number() == proto::TensorType::shape) {
      result.dims.emplace();
      for (FieldReader<proto::TensorShape> dim(field.bytes()); dim.next();) {
        if (dim.number() == proto::TensorShape::dim) result.dims->push_back(read_dim(dim.bytes()));
      }
    }
  }
  return result;
}

ir::Type TypeReader::read(std::string_view message) {
  for (FieldReader<proto::Type> field(message); field.next();) {
    if (field.number() == proto::Type::tensor_type) return read_tensor(field.bytes());
    if (field.number() != proto::Type::sequence_type) continue;
    for (FieldReader<proto::SequenceType> element(field.bytes()); element.next();) {
      if (element.number() != proto::SequenceType::elem_type) continue;
      for (FieldReader<proto::Type> type(element.bytes()); type.next();) {
        if (type.number() == proto::Type::tensor_type) return ir::ListType{{read_tensor(type.bytes())}};
      }
    }
  }
  return ir::TensorType{};
}

}  // namespace opbridge::onnx
