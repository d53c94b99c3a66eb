#include "onnx/attribute_reader.h"

#include <fmt/format.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "onnx/attribute_kind.h"
#include "onnx/field_reader.h"
#include "onnx/proto_fields.h"

namespace opbridge::onnx {
namespace {

[[noreturn]] void fail(const std::string& what) { throw Error(ErrorCode::invalid_file, what); }

using Weights = std::vector<std::shared_ptr<const ir::Weight>>;
using SparseTensors = std::vector<std::shared_ptr<const ir::SparseTensor>>;

AttributeKind to_kind(int64_t number) {
  if (number < 0 || number > static_cast<int64_t>(AttributeKind::type_protos)) {
    fail(fmt::format("there is no attribute kind {}", number));
  }
  return static_cast<AttributeKind>(number);
}

void append_floats(std::string_view bytes, std::vector<double>& floats) {
  for (size_t at = 0; at + sizeof(float) <= bytes.size(); at += sizeof(float)) {
    float value = 0;
    bytes.copy(reinterpret_cast<char*>(&value), sizeof(value), at);
    floats.push_back(value);
  }
}

std::shared_ptr<const ir::SparseTensor> read_sparse_tensor(std::string_view message, TensorReader& tensors) {
  using proto::SparseTensor;
  auto result = std::make_shared<ir::SparseTensor>();
  for (FieldReader<SparseTensor> field(message); field.next();) {
    if (field.number() == SparseTensor::values) result->values = tensors.read(field.bytes()).weight;
    if (field.number() == SparseTensor::indices) result->indices = tensors.read(field.bytes()).weight;
    if (field.number() == SparseTensor::dims) {
      field.integers([&](int64_t dim) { result->dims.push_back(dim); });
    }
  }
  try {
    result->check();
  } catch (const Error& error) {
    fail(error.message());
  }
  return result;
}

// The fields of one message. The kind, which may be the last field, decides which of them holds the value.
class AttributeFields {
 public:
  AttributeFields(std::string_view message, TensorReader& tensors, TypeReader& types,
                  const std::function<ir::GraphPtr(std::string_view)>& read_graph) {
    using proto::Attribute;
    const auto read_tensor = [&](std::string_view bytes) {
      return std::make_shared<const ir::Weight>(tensors.read(bytes).weight);
    };
    for (FieldReader<Attribute> field(message); field.next();) {
      switch (field.number()) {
        case Attribute::name:
          name_ = field.bytes();
          break;
        case Attribute::type:
          kind_ = to_kind(field.integer());
          break;
        case Attribute::f:
          single_ = static_cast<double>(field.float32());
          break;
        case Attribute::i:
          single_ = field.integer();
          break;
        case Attribute::s:
          single_ = std::string(field.bytes());
          break;
        case Attribute::t:
          single_ = read_tensor(field.bytes());
          break;
        case Attribute::g:
          single_ = read_graph(field.bytes());
          break;
        case Attribute::tp:
          single_ = types.read(field.bytes());
          break;
        case Attribute::sparse_tensor:
          single_ = read_sparse_tensor(field.bytes(), tensors);
          break;
        case Attribute::floats:
          append_floats(field.fixed32s(), floats_);
          break;
        case Attribute::ints:
          field.integers([&](int64_t value) { ints_.push_back(value); });
          break;
        case Attribute::strings:
          strings_.emplace_back(field.bytes());
          break;
        case Attribute::tensors:
          tensors_.push_back(read_tensor(field.bytes()));
          break;
        case Attribute::graphs:
          graphs_.push_back(read_graph(field.bytes()));
          break;
        case Attribute::type_protos:
          types_.push_back(types.read(field.bytes()));
          break;
        case Attribute::sparse_tensors:
          sparse_tensors_.push_back(read_sparse_tensor(field.bytes(), tensors));
          break;
        default:
          break;
      }
    }
  }

  ir::Attribute take() && {
    ir::AttributeValue taken = value();
    const bool is_type =
        std::holds_alternative<ir::Type>(taken) || std::holds_alternative<std::vector<ir::Type>>(taken);
    if (is_type && kind_of(taken) == AttributeKind::undefined) {
      taken = ir::Opaque{std::string(onnx::name(kind_))};
    }
    return {std::move(name_), std::move(taken)};
  }

 private:
  ir::AttributeValue value() {
    switch (kind_) {
      case AttributeKind::float_:
        return single_or(0.0);
      case AttributeKind::int_:
        return single_or(int64_t{0});
      case AttributeKind::string:
        return single_or(std::string());
      case AttributeKind::tensor:
        return single<std::shared_ptr<const ir::Weight>>("tensor");
      case AttributeKind::graph:
        return single<ir::GraphPtr>("graph");
      case AttributeKind::sparse_tensor:
        return single<std::shared_ptr<const ir::SparseTensor>>("sparse tensor");
      case AttributeKind::type_proto:
        return single<ir::Type>("type");
      case AttributeKind::floats:
        return std::move(floats_);
      case AttributeKind::ints:
        return std::move(ints_);
      case AttributeKind::strings:
        return std::move(strings_);
      case AttributeKind::tensors:
        return std::move(tensors_);
      case AttributeKind::graphs:
        return std::move(graphs_);
      case AttributeKind::sparse_tensors:
        return std::move(sparse_tensors_);
      case AttributeKind::type_protos:
        return std::move(types_);
      case AttributeKind::undefined:
        break;
    }
    // Models of the first IR versions omit the kind.
    if (!std::holds_alternative<std::monostate>(single_)) return std::move(single_);
    if (!floats_.empty()) return std::move(floats_);
    if (!strings_.empty()) return std::move(strings_);
    return std::move(ints_);
  }

  // The file may omit a field that has its default value.
  template <class T>
  ir::AttributeValue single_or(T fallback) {
    if (std::holds_alternative<std::monostate>(single_)) return fallback;
    if (!std::holds_alternative<T>(single_)) {
      fail(fmt::format("attribute {} is not of its declared kind", name_));
    }
    return std::move(single_);
  }
  template <class T>
  ir::AttributeValue single(std::string_view what) {
    if (!std::holds_alternative<T>(single_)) fail(fmt::format("attribute {} has no {}", name_, what));
    return std::move(single_);
  }

  std::string name_;
  AttributeKind kind_ = AttributeKind::undefined;
  ir::AttributeValue single_;
  std::vector<double> floats_;
  std::vector<int64_t> ints_;
  std::vector<std::string> strings_;
  Weights tensors_;
  SparseTensors sparse_tensors_;
  std::vector<ir::GraphPtr> graphs_;
  std::vector<ir::Type> types_;
};

}  // namespace

ir::Attribute read_attribute(std::string_view message, TensorReader& tensors, TypeReader& types,
                             const std::function<ir::GraphPtr(std::string_view)>& read_graph) {
  return AttributeFields(message, tensors, types, read_graph).take();
}

}  // namespace opbridge::onnx
