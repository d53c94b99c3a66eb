#include <fmt/format.h>

#include <algorithm>

#include "opbridge/schema.h"

namespace opbridge {
namespace {

// Whether a call may give another number of results than the schema declares.
bool gives_lists(const OperatorSchema& schema) {
  return schema.more_returns ||
         std::ranges::any_of(schema.returns, [](const SchemaReturn& result) { return result.type.list; });
}

// Whether a list of integers has the declared length (int[2]). One integer stands for all, and int[1] accepts
// any length.
bool has_declared_size(const ir::AttributeValue& value, const SchemaType& type) {
  const auto fits = [&](size_t size) { return size <= 1 || size == static_cast<size_t>(type.fixed_size); };
  if (type.fixed_size <= 1) return true;
  if (const auto* integers = std::get_if<std::vector<int64_t>>(&value)) return fits(integers->size());
  if (const auto* dims = std::get_if<std::vector<Dim>>(&value)) return fits(dims->size());
  return true;
}

}  // namespace

std::vector<const ir::AttributeValue*> bind(const OperatorSchema& schema, const ir::Node& node) {
  const auto fail = [&](const std::string& what) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("a call of {} {}; its schema is\n  {}", node.op, what, schema.str()),
                node.source.line);
  };
  std::vector<const ir::AttributeValue*> values(schema.arguments.size());
  for (const ir::Attribute& attribute : node.attributes) {
    const auto argument = std::ranges::find(schema.arguments, attribute.name, &SchemaArgument::name);
    if (argument == schema.arguments.end()) fail(fmt::format("has the unknown argument {}", attribute.name));
    const ir::AttributeValue*& value = values[argument - schema.arguments.begin()];
    if (value != nullptr) fail(fmt::format("has the argument {} twice", attribute.name));
    if (!has_declared_size(attribute.value, argument->type))
      fail(fmt::format("has {} = {}", attribute.name, ir::str(attribute.value)));
    value = &attribute.value;
  }
  for (size_t i = 0; i < values.size(); ++i) {
    const SchemaArgument& argument = schema.arguments[i];
    if (values[i] != nullptr) continue;
    if (!argument.default_value) fail(fmt::format("lacks the argument {}", argument.name));
    values[i] = &*argument.default_value;
  }
  if (!gives_lists(schema) && node.outputs.size() != schema.returns.size())
    fail(fmt::format("has {} results", node.outputs.size()));
  return values;
}

}  // namespace opbridge
