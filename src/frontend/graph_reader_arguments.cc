// The arguments and types in the JSON of an exported program.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <complex>
#include <span>
#include <utility>

#include "frontend/graph_reader.h"
#include "opbridge/error.h"
#include "tensor/strides.h"

namespace opbridge {
namespace {

constexpr int64_t layout_strided = 7;  // torch/_export/serde/schema.py, Layout

[[noreturn]] void invalid(std::string what) { throw Error(ErrorCode::invalid_file, std::move(what)); }
[[noreturn]] void unsupported(std::string what) { throw Error(ErrorCode::unsupported, std::move(what)); }

template <class T>
std::vector<T> read_list(json::Element list) {
  std::vector<T> values;
  const auto elements = json::as<json::Array>(list);
  values.reserve(elements.size());
  for (json::Element element : elements) values.push_back(json::as<T>(element));
  return values;
}

// The enumerators of Layout and MemoryFormat in torch/_export/serde/schema.py, indexed by their values.
ir::Opaque read_layout(json::Element element) {
  constexpr std::array<const char*, 8> names = {"unknown",    "sparse_coo", "sparse_csr", "sparse_csc",
                                                "sparse_bsr", "sparse_bsc", "_mkldnn",    "strided"};
  const auto number = json::as<int64_t>(element);
  return {number >= 0 && number < 8 ? names[static_cast<size_t>(number)] : names[0]};
}

ir::Opaque read_memory_format(json::Element element) {
  constexpr std::array<const char*, 5> names = {"unknown", "contiguous_format", "channels_last",
                                                "channels_last_3d", "preserve_format"};
  const auto number = json::as<int64_t>(element);
  return {number >= 0 && number < 5 ? names[static_cast<size_t>(number)] : names[0]};
}

ir::Opaque read_device(json::Object device) {
  std::string text(json::string_field(device, "type"));
  int64_t index = 0;
  if (device.at_key("index").get(index) == simdjson::SUCCESS) text += fmt::format(":{}", index);
  return {std::move(text)};
}

ElementType read_element_type(json::Element element) {
  const auto number = json::as<int64_t>(element);
  const auto type = element_type_from_torch_export(number);
  if (!type) unsupported(fmt::format("an element type (ScalarType {}) that ONNX lacks", number));
  return *type;
}

}  // namespace

std::vector<ir::Attribute> GraphReader::read_arguments(Scope& scope, json::Array inputs) {
  std::vector<ir::Attribute> arguments;
  arguments.reserve(inputs.size());
  for (json::Element element : inputs) {
    const auto input = json::as<json::Object>(element);
    std::string name(json::string_field(input, "name"));
    if (name.empty()) name = fmt::format("arg{}", arguments.size());
    const json::Tagged argument = json::tagged(json::field(input, "arg"));
    arguments.push_back({std::move(name), read_argument(scope, argument)});
  }
  return arguments;
}

ir::AttributeValue GraphReader::read_argument(Scope& scope, json::Tagged argument) {
  const auto [tag, value] = argument;
  const auto name_of = [](json::Element tensor) {
    return json::string_field(json::as<json::Object>(tensor), "name");
  };

  if (tag == "as_tensor") return tensor(scope, name_of(value));
  if (tag == "as_int") return json::as<int64_t>(value);
  if (tag == "as_ints") return read_list<int64_t>(value);
  if (tag == "as_none") return std::monostate();
  if (tag == "as_bool") return json::as<bool>(value);
  if (tag == "as_bools") return read_list<bool>(value);
  if (tag == "as_float") return json::as_number(value);
  if (tag == "as_floats") {
    std::vector<double> values;
    for (json::Element element : json::as<json::Array>(value)) values.push_back(json::as_number(element));
    return values;
  }
  if (tag == "as_string") return std::string(json::as<std::string_view>(value));
  if (tag == "as_strings") {
    std::vector<std::string> values;
    for (json::Element element : json::as<json::Array>(value))
      values.emplace_back(json::as<std::string_view>(element));
    return values;
  }
  if (tag == "as_tensors") {
    std::vector<ir::Value*> values;
    for (json::Element element : json::as<json::Array>(value))
      values.push_back(tensor(scope, name_of(element)));
    return values;
  }
  if (tag == "as_optional_tensor") return read_argument(scope, json::tagged(value));
  if (tag == "as_optional_tensors") {
    std::vector<ir::Value*> values;
    for (json::Element element : json::as<json::Array>(value)) {
      const json::Tagged each = json::tagged(element);
      values.push_back(each.tag == "as_none" ? nullptr : tensor(scope, name_of(each.value)));
    }
    return values;
  }
  if (tag == "as_sym_int") {
    const Dim dim = read_integer(scope, value);
    if (dim.is_static()) return dim.value();
    return dim;
  }
  if (tag == "as_sym_ints") return read_integers(scope, json::as<json::Array>(value));
  if (tag == "as_sym_float" || tag == "as_sym_bool") return read_number(scope, value);
  if (tag == "as_sym_floats" || tag == "as_sym_bools")
    return read_numbers(scope, json::as<json::Array>(value));
  if (tag == "as_scalar_type") return read_element_type(value);
  if (tag == "as_layout") return read_layout(value);
  if (tag == "as_memory_format") return read_memory_format(value);
  if (tag == "as_device") return read_device(json::as<json::Object>(value));
  if (tag == "as_complex") {
    const auto number = json::as<json::Object>(value);
    return std::complex<double>(json::as_number(json::field(number, "real")),
                                json::as_number(json::field(number, "imag")));
  }
  if (tag == "as_graph") return read_body(json::as<json::Object>(value));
  if (tag == "as_custom_obj") unsupported("an argument is an object of a custom class");
  unsupported(fmt::format("an argument of kind '{}' is not supported", tag));
}

Dim GraphReader::read_integer(Scope& scope, json::Element element) {
  const auto [tag, value] = json::tagged(element);
  if (tag == "as_int") return json::as<int64_t>(value);
  if (tag != "as_name") json::wrong_kind();
  const auto name = json::as<std::string_view>(value);
  const auto* dim = std::get_if<Dim>(&lookup(scope, name));
  if (dim == nullptr) invalid(fmt::format("'{}' is not an integer", name));
  return *dim;
}

ir::AttributeValue GraphReader::read_integers(Scope& scope, json::Array list) {
  std::vector<Dim> dims;
  dims.reserve(list.size());
  for (json::Element element : list) dims.push_back(read_integer(scope, element));
  if (!std::ranges::all_of(dims, &Dim::is_static)) return dims;
  std::vector<int64_t> values;
  values.reserve(dims.size());
  for (const Dim& dim : dims) values.push_back(dim.value());
  return values;
}

ir::AttributeValue GraphReader::read_number(Scope& scope, json::Element element) {
  const auto [tag, value] = json::tagged(element);
  if (tag == "as_float") return json::as_number(value);
  if (tag == "as_bool") return json::as<bool>(value);
  if (tag != "as_name") json::wrong_kind();
  const auto name = json::as<std::string_view>(value);
  const Binding& binding = lookup(scope, name);
  if (const auto* made = std::get_if<ir::Value*>(&binding)) return *made;
  if (const auto* known = std::get_if<double>(&binding)) return *known;
  if (const auto* known = std::get_if<bool>(&binding)) return *known;
  invalid(fmt::format("'{}' is not a number of floating-point or boolean type", name));
}

ir::AttributeValue GraphReader::read_numbers(Scope& scope, json::Array list) {
  std::vector<ir::AttributeValue> numbers;
  for (json::Element element : list) numbers.push_back(read_number(scope, element));
  const auto all = [&]<class T>(T) {
    return std::ranges::all_of(numbers, [](const auto& each) { return std::holds_alternative<T>(each); });
  };
  if (all(double())) {
    std::vector<double> values;
    for (const auto& each : numbers) values.push_back(std::get<double>(each));
    return values;
  }
  if (all(bool())) {
    std::vector<bool> values;
    for (const auto& each : numbers) values.push_back(std::get<bool>(each));
    return values;
  }
  std::vector<ir::Value*> values;
  for (ir::AttributeValue& each : numbers) values.push_back(as_value(scope, std::move(each), "number"));
  return values;
}

ir::Value* GraphReader::as_value(Scope& scope, ir::AttributeValue value, std::string_view name) {
  if (const auto* made = std::get_if<ir::Value*>(&value)) return *made;
  ElementType type = ElementType::int64;
  if (std::holds_alternative<double>(value)) {
    type = ElementType::float32;  // torch's default
  } else if (std::holds_alternative<bool>(value)) {
    type = ElementType::boolean;
  } else if (!std::holds_alternative<Dim>(value) && !std::holds_alternative<int64_t>(value)) {
    unsupported("the program returns something that is neither a tensor nor a number");
  }
  ir::Node* node = scope.builder.call("aten::scalar_tensor", {{"s", std::move(value)}, {"dtype", type}});
  return scope.builder.result(node, unique(name), ir::TensorType{type, std::vector<Dim>()});
}

json::Element GraphReader::type_of(const Scope& scope, std::string_view name) const {
  const auto found = scope.types.find(name);
  if (found == scope.types.end()) invalid(fmt::format("'{}' has no type", name));
  return found->second;
}

// Keeps arithmetic on sizes far from overflow.
constexpr int64_t largest_size = int64_t{1} << 48;

ir::TensorType GraphReader::tensor_type(const Scope& scope, std::string_view name) {
  const auto meta = json::as<json::Object>(type_of(scope, name));
  if (json::int_field(meta, "layout") != layout_strided) {
    unsupported(fmt::format("'{}' is a sparse tensor; ONNX has only dense tensors", name));
  }
  ir::TensorType type{read_element_type(json::field(meta, "dtype")), std::vector<Dim>()};
  const json::Array sizes = json::array_field(meta, "sizes");
  type.dims->reserve(sizes.size());
  for (json::Element size : sizes) {
    type.dims->push_back(read_sym_int(size));
    const Dim& dim = type.dims->back();
    if (dim.is_static() && dim.value() < 0) invalid(fmt::format("'{}' has a negative size", name));
    if (dim.is_static() && dim.value() > largest_size)
      unsupported(fmt::format("'{}' has the impossible size {}", name, dim.value()));
  }
  return type;
}

void GraphReader::add_layout(const Scope& scope, json::Array inputs, std::vector<ir::Attribute>& arguments) {
  if (inputs.size() == 0) return;
  const json::Tagged self = json::tagged(json::field(json::as<json::Object>(json::item(inputs, 0)), "arg"));
  if (self.tag != "as_tensor") return;
  const auto name = json::string_field(json::as<json::Object>(self.value), "name");
  const auto meta = json::as<json::Object>(type_of(scope, name));
  arguments.push_back({"self_stride", strides_of(meta)});
  arguments.push_back({"self_offset", read_sym_int(json::field(meta, "storage_offset"))});
}

void GraphReader::note_layout(Scope& scope, std::string_view name, ir::Value* value) {
  const auto meta = json::as<json::Object>(type_of(scope, name));
  std::vector<Dim> strides = strides_of(meta);
  Dim offset = read_sym_int(json::field(meta, "storage_offset"));
  const std::vector<Dim>& dims = *value->tensor_type().dims;
  const bool empty = std::ranges::any_of(dims, [](const Dim& dim) { return dim.is(0); });
  const size_t rank = std::min(dims.size(), strides.size());  // a file may say anything
  std::vector<ir::Attribute> layout = {{"self", value}};
  if (!empty && !tensor::are_row_major(std::span(dims).first(rank), strides))
    layout.push_back({"self_stride", std::move(strides)});
  if (!offset.is(0)) layout.push_back({"self_offset", std::move(offset)});
  if (layout.size() > 1) scope.builder.call("opbridge::memory_layout", std::move(layout), {});
}

std::vector<Dim> GraphReader::strides_of(json::Object meta) {
  std::vector<Dim> strides;
  for (json::Element stride : json::array_field(meta, "strides")) strides.push_back(read_sym_int(stride));
  return strides;
}

Dim GraphReader::read_sym_int(json::Element element) {
  const auto [tag, value] = json::tagged(element);
  if (tag == "as_int") return json::as<int64_t>(value);
  if (tag != "as_expr") json::wrong_kind();
  return symbols_.read(json::string_field(json::as<json::Object>(value), "expr_str"));
}

}  // namespace opbridge
