#include "onnx/model_serializer.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#include "onnx/attribute_kind.h"
#include "onnx/function_writer.h"
#include "onnx/proto_fields.h"
#include "onnx/schema_table.h"

namespace opbridge::onnx {
namespace {

// The first IR version with functions, and the first with node metadata.
constexpr int ir_version_of_functions = 8;
constexpr int ir_version_of_node_metadata = 10;
// From IR version 4 on, initializers need not be inputs.
constexpr int least_ir_version = 4;

Message<proto::Type> tensor_type_message(const ir::TensorType& type) {
  Message<proto::TensorType> tensor;
  tensor.add_int(proto::TensorType::elem_type, static_cast<int64_t>(type.element_type));
  if (type.ranked()) {
    Message<proto::TensorShape> shape;
    for (const Dim& dim : *type.dims) {
      Message<proto::Dimension> dimension;
      if (dim.is_static()) {
        dimension.add_int(proto::Dimension::dim_value, dim.value());
      } else {
        dimension.add_string(proto::Dimension::dim_param, dim.str());
      }
      shape.add_message(proto::TensorShape::dim, dimension);
    }
    tensor.add_message(proto::TensorType::shape, shape);
  }
  Message<proto::Type> result;
  result.add_message(proto::Type::tensor_type, tensor);
  return result;
}

// All elements of a sequence have one element type. If their shapes differ, the sequence has none.
Message<proto::Type> sequence_type_message(const ir::ListType& type) {
  ir::TensorType common = type.elements.front();
  for (const ir::TensorType& element : type.elements) {
    if (element.dims != common.dims) common.dims.reset();
  }
  Message<proto::SequenceType> sequence;
  sequence.add_message(proto::SequenceType::elem_type, tensor_type_message(common));
  Message<proto::Type> result;
  result.add_message(proto::Type::sequence_type, sequence);
  return result;
}

// Missing if the element type is unknown.
std::optional<Message<proto::Type>> type_message(const ir::Type& type) {
  if (!has_type_proto(type)) return std::nullopt;
  if (const auto* tensor = std::get_if<ir::TensorType>(&type)) return tensor_type_message(*tensor);
  if (const auto* list = std::get_if<ir::ListType>(&type)) return sequence_type_message(*list);
  return tensor_type_message({std::get<ir::ScalarType>(type).element_type, std::vector<Dim>()});
}

Message<proto::ValueInfo> value_info(const ir::Value& value) {
  Message<proto::ValueInfo> result;
  result.add_string(proto::ValueInfo::name, value.name);
  if (const auto type = type_message(value.type)) result.add_message(proto::ValueInfo::type, *type);
  return result;
}

Message<proto::StringStringEntry> entry(std::string_view key, std::string_view value) {
  Message<proto::StringStringEntry> result;
  result.add_string(proto::StringStringEntry::key, key);
  result.add_string(proto::StringStringEntry::value, value);
  return result;
}

class ModelSerializer {
 public:
  ModelSerializer(const ir::Graph& graph, const std::map<std::string, int>& opset_imports, bool source_lines,
                  WeightPlaces places, std::span<const std::pair<std::string, ir::Weight>> defaults = {})
      : graph_(graph),
        opset_imports_(opset_imports),
        source_lines_(source_lines),
        places_(places),
        defaults_(defaults) {
    for (const auto& [domain, version] : opset_imports) {
      ir_version_ = std::max(ir_version_, ir_version_for(version, domain));
    }
  }

  Rope model(std::span<const OnnxFunction> functions,
             std::span<const std::pair<std::string, std::string>> metadata) {
    if (!functions.empty()) ir_version_ = std::max(ir_version_, ir_version_of_functions);
    Message<proto::Model> result;
    result.add_int(proto::Model::ir_version, ir_version_);
    result.add_string(proto::Model::producer_name, "opbridge");
    result.add_string(proto::Model::producer_version, OPBRIDGE_VERSION);
    result.add_message(proto::Model::graph, graph(graph_));
    for (const auto& [domain, version] : opset_imports_) {
      result.add_message(proto::Model::opset_import, opset_import(domain, version));
    }
    for (const auto& [key, value] : metadata) {
      result.add_message(proto::Model::metadata_props, entry(key, value));
    }
    for (const OnnxFunction& function : functions) {
      check_domain(function.domain, "function " + function.name);
      result.add_string(proto::Model::functions, function.bytes);
    }
    return std::move(result).take();
  }

  // The graph as a function.
  Rope function(const FunctionHead& head) {
    using Field = proto::Function;
    Message<Field> result;
    result.add_string(Field::name, head.name);
    for (const ir::Value* input : graph_.inputs) result.add_string(Field::input, input->name);
    for (const ir::Value* output : graph_.outputs) result.add_string(Field::output, output->name);
    for (const std::string& attribute : head.attributes) result.add_string(Field::attribute, attribute);
    for (const ir::Value* constant : graph_.initializers) {
      result.add_message(Field::node, constant_node(*constant));
    }
    for (const ir::Node* each : graph_.nodes) result.add_message(Field::node, node(*each));
    for (const auto& [domain, version] : opset_imports_) {
      result.add_message(Field::opset_import, opset_import(domain, version));
    }
    result.add_string(Field::domain, head.domain);
    return std::move(result).take();
  }

 private:
  static Message<proto::OperatorSetId> opset_import(std::string_view domain, int version) {
    Message<proto::OperatorSetId> result;
    result.add_string(proto::OperatorSetId::domain, domain);
    result.add_int(proto::OperatorSetId::version, version);
    return result;
  }

  static Message<proto::Node> constant_node(const ir::Value& constant) {
    using Field = proto::Attribute;
    Message<Field> value;
    value.add_string(Field::name, "value");
    value.add_message(Field::t, inline_tensor({}, *constant.weight));
    value.add_int(Field::type, static_cast<int64_t>(AttributeKind::tensor));
    Message<proto::Node> result;
    result.add_string(proto::Node::output, constant.name);
    result.add_string(proto::Node::op_type, "Constant");
    result.add_message(proto::Node::attribute, value);
    return result;
  }

  void check_domain(std::string_view domain, const std::string& user) const {
    if (opset_imports_.contains(std::string(domain))) return;
    throw Error(ErrorCode::internal,
                fmt::format("{} is of domain \"{}\", which opset_imports lacks", user, domain));
  }

  Message<proto::Graph> graph(const ir::Graph& graph) {
    Message<proto::Graph> result;
    for (const ir::Node* each : graph.nodes) result.add_message(proto::Graph::node, node(*each));
    result.add_string(proto::Graph::name, graph.name.empty() ? "main" : graph.name);
    for (const ir::Value* value : graph.initializers) {
      result.add_message(proto::Graph::initializer, initializer(value->name, *value->weight));
    }
    if (&graph == &graph_) {
      for (const auto& [name, weight] : defaults_)
        result.add_message(proto::Graph::initializer, initializer(name, weight));
    }
    for (const ir::Value* value : graph.inputs) {
      result.add_message(proto::Graph::input, value_info(*value));
    }
    for (const ir::Value* value : graph.outputs) {
      result.add_message(proto::Graph::output, value_info(*value));
    }
    const std::unordered_set<const ir::Value*> outputs(graph.outputs.begin(), graph.outputs.end());
    for (const ir::Node* each : graph.nodes) {
      for (const ir::Value* value : each->outputs) {
        if (value->name.empty() || outputs.contains(value) || !has_type_proto(value->type)) continue;
        result.add_message(proto::Graph::value_info, value_info(*value));
      }
    }
    return result;
  }

  Message<proto::Node> node(const ir::Node& node) {
    const ir::OpName name(node.op);
    check_domain(name.domain, node.op);
    Message<proto::Node> result;
    for (const ir::Value* input : node.inputs) {
      result.add_string(proto::Node::input, input == nullptr ? std::string_view() : input->name);
    }
    for (const ir::Value* output : node.outputs) result.add_string(proto::Node::output, output->name);
    if (!node.name.empty()) result.add_string(proto::Node::name, node.name);
    result.add_string(proto::Node::op_type, name.type);
    for (const ir::Attribute& each : node.attributes) {
      if (std::holds_alternative<std::monostate>(each.value)) continue;
      result.add_message(proto::Node::attribute, attribute(node, each));
    }
    const bool has_metadata = source_lines_ && ir_version_ >= ir_version_of_node_metadata;
    if (source_lines_ && !has_metadata && !node.source.line.empty()) {
      result.add_string(proto::Node::doc_string, node.source.line);
    }
    if (!name.domain.empty()) result.add_string(proto::Node::domain, name.domain);
    if (has_metadata) add_source(result, node.source);
    return result;
  }

  static void add_source(Message<proto::Node>& message, const ir::Source& source) {
    const auto add = [&](const char* key, const std::string& value) {
      if (!value.empty()) message.add_message(proto::Node::metadata_props, entry(key, value));
    };
    add(proto::source_line_key, source.line);
    add(proto::source_scope_key, source.scope);
    if (!source.op.empty() && !source.call.empty())
      add(proto::source_call_key, fmt::format("{} {}", source.call, source.op));
    add(proto::source_mapping_key, source.by_user ? "user" : "");
    add(proto::source_rewritten_key, source.rewritten);
  }

  // Adds a value to the message. A visitor for std::visit; handles the kinds that an attribute can have.
  struct AddValue {
    using Field = proto::Attribute;
    ModelSerializer& serializer;
    Message<Field>& message;

    void operator()(int64_t value) const { message.add_int(Field::i, value); }
    void operator()(bool value) const { message.add_int(Field::i, value); }
    void operator()(ElementType value) const { message.add_int(Field::i, static_cast<int64_t>(value)); }
    void operator()(const Dim& value) const { message.add_int(Field::i, value.value()); }
    void operator()(double value) const { message.add_float(Field::f, static_cast<float>(value)); }
    void operator()(const std::string& value) const { message.add_string(Field::s, value); }
    void operator()(const std::shared_ptr<const ir::Weight>& value) const {
      message.add_message(Field::t, inline_tensor({}, *value));
    }
    void operator()(const std::shared_ptr<const ir::SparseTensor>& value) const {
      message.add_message(Field::sparse_tensor, sparse_tensor(*value));
    }
    void operator()(const ir::GraphPtr& value) const {
      message.add_message(Field::g, serializer.graph(*value));
    }
    void operator()(const ir::Type& value) const { message.add_message(Field::tp, *type_message(value)); }

    void operator()(const std::vector<int64_t>& values) const {
      for (const int64_t value : values) message.add_int(Field::ints, value);
    }
    void operator()(const std::vector<bool>& values) const {
      for (const bool value : values) message.add_int(Field::ints, value);
    }
    void operator()(const std::vector<Dim>& values) const {
      for (const Dim& value : values) message.add_int(Field::ints, value.value());
    }
    void operator()(const std::vector<double>& values) const {
      for (const double value : values) message.add_float(Field::floats, static_cast<float>(value));
    }
    void operator()(const std::vector<std::string>& values) const {
      for (const std::string& value : values) message.add_string(Field::strings, value);
    }
    void operator()(const std::vector<std::shared_ptr<const ir::Weight>>& values) const {
      for (const auto& value : values) message.add_message(Field::tensors, inline_tensor({}, *value));
    }
    void operator()(const std::vector<std::shared_ptr<const ir::SparseTensor>>& values) const {
      for (const auto& value : values) message.add_message(Field::sparse_tensors, sparse_tensor(*value));
    }
    void operator()(const std::vector<ir::GraphPtr>& values) const {
      for (const auto& value : values) message.add_message(Field::graphs, serializer.graph(*value));
    }
    void operator()(const std::vector<ir::Type>& values) const {
      for (const ir::Type& value : values) message.add_message(Field::type_protos, *type_message(value));
    }

    template <class Other>
    void operator()(const Other&) const {
      throw Error(ErrorCode::internal, "an attribute's value has a kind that cannot be written");
    }
  };

  Message<proto::Attribute> attribute(const ir::Node& node, const ir::Attribute& attribute) {
    const AttributeKind kind = kind_of(attribute.value);
    if (kind == AttributeKind::undefined) {
      throw Error(ErrorCode::internal,
                  fmt::format("{}: attribute {} is {}, which no ONNX attribute can hold", node.op,
                              attribute.name, ir::str(attribute.value)),
                  node.source.line);
    }
    Message<proto::Attribute> result;
    result.add_string(proto::Attribute::name, attribute.name);
    // Fields are written in the order of their numbers.
    const bool type_first = kind == AttributeKind::sparse_tensor || kind == AttributeKind::sparse_tensors;
    if (!type_first) std::visit(AddValue{*this, result}, attribute.value);
    result.add_int(proto::Attribute::type, static_cast<int64_t>(kind));
    if (type_first) std::visit(AddValue{*this, result}, attribute.value);
    return result;
  }

  Message<proto::Tensor> initializer(std::string_view name, const ir::Weight& weight) {
    if (weight.bytes.size() < least_separate_bytes || weight.element_type == ElementType::string)
      return inline_tensor(name, weight);
    std::optional<ExternalPlace> place;
    if (places_.references != nullptr) place = places_.references->find(weight.bytes);
    if (!place && places_.external != nullptr) place = places_.external->add(weight.bytes);
    if (!place) return inline_tensor(name, weight);
    Message<proto::Tensor> result = tensor_header(name, weight);
    result.add_message(proto::Tensor::external_data, entry("location", place->location));
    result.add_message(proto::Tensor::external_data, entry("offset", std::to_string(place->offset)));
    result.add_message(proto::Tensor::external_data, entry("length", std::to_string(weight.bytes.size())));
    result.add_int(proto::Tensor::data_location, proto::data_location_external);
    return result;
  }

  static Message<proto::Tensor> inline_tensor(std::string_view name, const ir::Weight& weight) {
    Message<proto::Tensor> result = tensor_header(name, weight);
    if (weight.element_type == ElementType::string) return result;
    if (weight.bytes.size() < least_separate_bytes) {
      result.add_bytes(proto::Tensor::raw_data, weight.bytes);
    } else {
      result.add_borrowed_bytes(proto::Tensor::raw_data, weight.bytes);
    }
    return result;
  }

  static Message<proto::SparseTensor> sparse_tensor(const ir::SparseTensor& tensor) {
    Message<proto::SparseTensor> result;
    result.add_message(proto::SparseTensor::values, inline_tensor({}, tensor.values));
    result.add_message(proto::SparseTensor::indices, inline_tensor({}, tensor.indices));
    for (const int64_t dim : tensor.dims) result.add_int(proto::SparseTensor::dims, dim);
    return result;
  }

  // The tensor without raw data, which strings do not have.
  static Message<proto::Tensor> tensor_header(std::string_view name, const ir::Weight& weight) {
    const bool is_string = weight.element_type == ElementType::string;
    if (bits_of(weight.element_type) == 0 && !is_string) {
      throw Error(ErrorCode::unsupported, fmt::format("cannot write tensor {} of element type {}", name,
                                                      opbridge::name(weight.element_type)));
    }
    Message<proto::Tensor> result;
    for (const int64_t dim : weight.dims) result.add_int(proto::Tensor::dims, dim);
    result.add_int(proto::Tensor::data_type, static_cast<int64_t>(weight.element_type));
    if (is_string) {
      for (const std::string_view text : weight.strings())
        result.add_string(proto::Tensor::string_data, text);
    }
    if (!name.empty()) result.add_string(proto::Tensor::name, name);
    return result;
  }

  const ir::Graph& graph_;
  const std::map<std::string, int>& opset_imports_;
  const bool source_lines_;
  const WeightPlaces places_;
  const std::span<const std::pair<std::string, ir::Weight>> defaults_;
  int ir_version_ = least_ir_version;
};

}  // namespace

Rope serialize(const OnnxModel& model, bool source_lines, WeightPlaces places) {
  return ModelSerializer(model.graph, model.opset_imports, source_lines, places, model.defaults)
      .model(model.functions, model.metadata);
}

OnnxFunction make_function(const FunctionHead& head, const ir::Graph& body,
                           const std::map<std::string, int>& opset_imports) {
  OnnxFunction result{head.domain, head.name, head.version, {}};
  const Rope rope = ModelSerializer(body, opset_imports, false, {}).function(head);
  for (const std::span<const std::byte> piece : rope.pieces()) {
    result.bytes.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  }
  return result;
}

}  // namespace opbridge::onnx
