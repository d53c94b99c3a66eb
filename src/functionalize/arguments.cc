#include "functionalize/arguments.h"

#include <fmt/format.h>

namespace opbridge::functionalization {
namespace {

[[noreturn]] void not_fixed(const ir::Node& node, std::string_view argument,
                            const ir::AttributeValue& value) {
  refuse(node, fmt::format("{}: {}={} must be a constant", node.op, argument, ir::str(value)));
}

int64_t integer_of(const ir::Node& node, std::string_view argument, const ir::AttributeValue& value) {
  if (const auto* number = std::get_if<int64_t>(&value)) return *number;
  if (const auto* dim = std::get_if<Dim>(&value); dim != nullptr && dim->is_static()) return dim->value();
  not_fixed(node, argument, value);
}

}  // namespace

void refuse(const ir::Node& node, const std::string& message) {
  throw Error(ErrorCode::unsupported, message,
              node.source.line.empty() ? node.source.scope : node.source.line);
}

ir::Value** subject(std::vector<ir::Attribute>& arguments) {
  ir::Value** first = nullptr;
  for (ir::Attribute& argument : arguments) {
    auto* value = std::get_if<ir::Value*>(&argument.value);
    if (value == nullptr || *value == nullptr || std::holds_alternative<ir::ScalarType>((*value)->type))
      continue;
    if (argument.name == "self") return value;
    if (first == nullptr) first = value;
  }
  return first;
}

ir::Value* subject(const ir::Node& node) {
  ir::Value** found = subject(const_cast<std::vector<ir::Attribute>&>(node.attributes));
  return found == nullptr ? nullptr : *found;
}

const ir::AttributeValue* given(const ir::Node& node, std::string_view argument) {
  const ir::AttributeValue* value = node.find(argument);
  return value == nullptr || std::holds_alternative<std::monostate>(*value) ? nullptr : value;
}

int64_t integer(const ir::Node& node, std::string_view argument, int64_t if_missing) {
  const ir::AttributeValue* value = given(node, argument);
  return value == nullptr ? if_missing : integer_of(node, argument, *value);
}

std::vector<int64_t> integers(const ir::Node& node, std::string_view argument) {
  const ir::AttributeValue* value = given(node, argument);
  if (value == nullptr) refuse(node, fmt::format("{} lacks its argument {}", node.op, argument));
  if (const auto* numbers = std::get_if<std::vector<int64_t>>(value)) return *numbers;
  if (const auto* dims = std::get_if<std::vector<Dim>>(value)) {
    std::vector<int64_t> numbers;
    for (const Dim& dim : *dims) numbers.push_back(integer_of(node, argument, dim));
    return numbers;
  }
  return {integer_of(node, argument, *value)};
}

bool flag(const ir::Node& node, std::string_view argument, bool if_missing) {
  const ir::AttributeValue* value = given(node, argument);
  if (value == nullptr) return if_missing;
  if (const auto* number = std::get_if<int64_t>(value)) return *number != 0;
  if (const auto* boolean = std::get_if<bool>(value)) return *boolean;
  not_fixed(node, argument, *value);
}

Dim size(const ir::Node& node, std::string_view argument) {
  const ir::AttributeValue* value = given(node, argument);
  if (value == nullptr) refuse(node, fmt::format("{} lacks its argument {}", node.op, argument));
  if (const auto* dim = std::get_if<Dim>(value)) return *dim;
  if (const auto* number = std::get_if<ir::Value*>(value); number != nullptr && *number != nullptr) {
    const auto* scalar = std::get_if<ir::ScalarType>(&(*number)->type);
    if (scalar != nullptr && scalar->element_type == ElementType::int64) return scalar->value;
  }
  return integer_of(node, argument, *value);
}

size_t axis(const ir::Node& node, int64_t number, size_t rank) {
  const auto count = static_cast<int64_t>(rank);
  if (number < -count || number >= count) {
    refuse(node, fmt::format("{}: a tensor of rank {} has no axis {}", node.op, rank, number));
  }
  return static_cast<size_t>(number < 0 ? number + count : number);
}

size_t axis(const ir::Node& node, std::string_view argument, int64_t if_missing, size_t rank) {
  return axis(node, integer(node, argument, if_missing), rank);
}

ir::AttributeValue sizes(const std::vector<Dim>& dims) {
  std::vector<int64_t> numbers;
  for (const Dim& dim : dims) {
    if (!dim.is_static()) return dims;
    numbers.push_back(dim.value());
  }
  return numbers;
}

void copy_argument(std::vector<ir::Attribute>& to, const ir::Node& from, std::string_view argument) {
  if (const ir::AttributeValue* value = given(from, argument)) to.push_back({std::string(argument), *value});
}

}  // namespace opbridge::functionalization
