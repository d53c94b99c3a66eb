#include <fmt/format.h>

#include <algorithm>

#include "opbridge/schema.h"

namespace opbridge {

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
    value = &attribute.value;
  }
  for (size_t i = 0; i < values.size(); ++i) {
    const SchemaArgument& argument = schema.arguments[i];
    if (values[i] != nullptr) continue;
    if (!argument.default_value) fail(fmt::format("lacks the argument {}", argument.name));
    values[i] = &*argument.default_value;
  }
  return values;
}

}  // namespace opbridge
