#include "opbridge/ir.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "ir/complete.h"

namespace opbridge::ir {

bool TensorType::is_static() const {
  return ranked() && std::all_of(dims->begin(), dims->end(), [](const Dim& dim) { return dim.is_static(); });
}

std::string TensorType::str() const {
  std::string text(opbridge::name(element_type));
  if (!ranked()) return text + "[...]";
  text += '[';
  for (const Dim& dim : *dims) {
    if (text.back() != '[') text += ", ";
    text += dim.str();
  }
  return text + ']';
}

int64_t Weight::element_count() const {
  if (std::ranges::find(dims, 0) != dims.end()) return 0;
  int64_t count = 1;
  for (int64_t dim : dims) {
    if (dim < 0 || __builtin_mul_overflow(count, dim, &count)) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("no tensor has the dims [{}]", fmt::join(dims, ", ")));
    }
  }
  return count;
}

Weight Weight::of_strings(std::span<const std::string> values, std::vector<int64_t> dims) {
  auto bytes = std::make_shared<std::vector<std::byte>>();
  const auto append = [&](const void* data, size_t size) {
    const auto* first = static_cast<const std::byte*>(data);
    bytes->insert(bytes->end(), first, first + size);
  };
  for (const std::string& value : values) {
    const uint64_t size = value.size();
    append(&size, sizeof(size));
    append(value.data(), value.size());
  }
  return {ElementType::string, std::move(dims), *bytes, bytes};
}

namespace {

// Reads what of_strings wrote; nothing if the bytes are truncated.
std::optional<std::vector<std::string_view>> read_strings(std::span<const std::byte> bytes) {
  std::vector<std::string_view> result;
  while (!bytes.empty()) {
    uint64_t size = 0;
    if (bytes.size() < sizeof(size)) return std::nullopt;
    std::memcpy(&size, bytes.data(), sizeof(size));
    bytes = bytes.subspan(sizeof(size));
    if (size > bytes.size()) return std::nullopt;
    result.emplace_back(reinterpret_cast<const char*>(bytes.data()), size);
    bytes = bytes.subspan(size);
  }
  return result;
}

}  // namespace

std::vector<std::string_view> Weight::strings() const {
  std::optional<std::vector<std::string_view>> result;
  if (element_type == ElementType::string) result = read_strings(bytes);
  if (!result) throw Error(ErrorCode::internal, "a weight without strings is read as strings");
  return *std::move(result);
}

bool is_complete(const Weight& weight) {
  const auto count = static_cast<uint64_t>(weight.element_count());
  const unsigned bits = bits_of(weight.element_type);
  if (weight.element_type == ElementType::string) {
    const auto held = read_strings(weight.bytes);
    return held && held->size() == count;
  }
  if (bits == 0) return true;
  // The product of a count and a size may exceed 64 bits.
  return count <= std::numeric_limits<uint64_t>::max() / bits &&
         weight.bytes.size() == storage_bytes(weight.element_type, count);
}

void SparseTensor::check() const {
  const auto fail = [](const std::string& what) {
    throw Error(ErrorCode::invalid_argument, "a sparse tensor's " + what);
  };
  if (values.dims.size() != 1) fail("values are not one-dimensional");
  const int64_t count = values.dims[0];
  const auto rank = static_cast<int64_t>(dims.size());
  const bool linear = indices.dims == std::vector{count};
  if (!linear && indices.dims != std::vector{count, rank}) {
    fail(fmt::format("{} values have indices of dims [{}] instead of [{}] or [{}, {}]", count,
                     fmt::join(indices.dims, ", "), count, count, rank));
  }
  if (indices.element_type != ElementType::int64) fail("indices are not int64");
  if (!is_complete(indices)) fail("indices have too few or too many bytes");
  if (!is_complete(values)) fail("values have too few or too many bytes");
  const int64_t elements = Weight{ElementType::uint8, dims, {}, nullptr}.element_count();
  int64_t before = -1;
  for (int64_t i = 0; i < count; ++i) {
    int64_t position = 0;
    for (int64_t axis = 0; axis < (linear ? 1 : rank); ++axis) {
      int64_t index = 0;
      const size_t at = static_cast<size_t>(linear ? i : i * rank + axis) * sizeof(index);
      std::memcpy(&index, indices.bytes.data() + at, sizeof(index));
      const int64_t bound = linear ? elements : dims[axis];
      if (index < 0 || index >= bound) fail(fmt::format("index {} is not below {}", index, bound));
      position = linear ? index : position * bound + index;
    }
    if (position <= before) fail("indices are not in ascending order");
    before = position;
  }
}

const TensorType& Value::tensor_type() const {
  if (const auto* tensor = std::get_if<TensorType>(&type)) return *tensor;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("value %{} is a {}, not a tensor", name,
                          std::holds_alternative<ListType>(type) ? "list" : "number"));
}

const AttributeValue* Node::find(std::string_view attribute) const {
  for (const Attribute& candidate : attributes) {
    if (candidate.name == attribute) return &candidate.value;
  }
  return nullptr;
}

void Node::set(std::string_view attribute, AttributeValue value) {
  for (Attribute& candidate : attributes) {
    if (candidate.name == attribute) {
      candidate.value = std::move(value);
      return;
    }
  }
  attributes.push_back({std::string(attribute), std::move(value)});
}

void Node::for_each_use(const std::function<void(Value*&)>& visit) {
  const auto visit_all = [&](std::vector<Value*>& values) {
    for (Value*& value : values) {
      if (value != nullptr) visit(value);
    }
  };
  visit_all(inputs);
  for (Attribute& attribute : attributes) {
    if (auto* value = std::get_if<Value*>(&attribute.value); value != nullptr && *value != nullptr) {
      visit(*value);
    } else if (auto* values = std::get_if<std::vector<Value*>>(&attribute.value)) {
      visit_all(*values);
    }
  }
}

Value* Graph::add_value(std::string name, Type type) {
  Value& value = values_.emplace_back();
  value.name = std::move(name);
  value.type = std::move(type);
  return &value;
}

Value* Graph::add_input(std::string name, Type type) {
  return inputs.emplace_back(add_value(std::move(name), std::move(type)));
}

Value* Graph::add_initializer(std::string name, Weight weight) {
  const Weight& stored = weights_.emplace_back(std::move(weight));
  TensorType type{stored.element_type, std::vector<Dim>(stored.dims.begin(), stored.dims.end())};
  Value* value = add_value(std::move(name), std::move(type));
  value->weight = &stored;
  return initializers.emplace_back(value);
}

OpName::OpName(std::string_view op) : type(op) {
  if (const size_t colons = op.rfind("::"); colons != std::string_view::npos) {
    domain = op.substr(0, colons);
    type = op.substr(colons + 2);
  }
}

std::vector<GraphPtr> Node::bodies() const {
  std::vector<GraphPtr> result;
  for (const Attribute& attribute : attributes) {
    if (const auto* body = std::get_if<GraphPtr>(&attribute.value)) result.push_back(*body);
    if (const auto* list = std::get_if<std::vector<GraphPtr>>(&attribute.value)) {
      result.insert(result.end(), list->begin(), list->end());
    }
  }
  return result;
}

Node* Graph::make_node(std::string op) {
  Node& node = nodes_storage_.emplace_back();
  node.op = std::move(op);
  return &node;
}

Node* Graph::add_node(std::string op) { return nodes.emplace_back(make_node(std::move(op))); }

Value* Graph::add_output_of(Node* node, std::string name, Type type) {
  Value* value = add_value(std::move(name), std::move(type));
  value->producer = node;
  return node->outputs.emplace_back(value);
}

void for_each_node(Graph& graph, const std::function<void(Graph&, Node&)>& visit) {
  for (Node* node : graph.nodes) {
    visit(graph, *node);
    for (const GraphPtr& body : node->bodies()) for_each_node(*body, visit);
  }
}

}  // namespace opbridge::ir
