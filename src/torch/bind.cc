#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "opbridge/schema.h"

namespace opbridge {
namespace {

// Operators whose last result is None in some calls: weights that are not wanted, memory for a gradient.
constexpr std::string_view last_may_be_none[] = {"aten::_native_multi_head_attention",
                                                 "aten::mkldnn_rnn_layer"};

// Whether the schema declares as many results as a call gives.
bool declares(const OperatorSchema& schema, size_t results) {
  const size_t declared = schema.returns.size();
  if (results == declared || schema.more_returns) return true;
  if (std::ranges::any_of(schema.returns, [](const SchemaReturn& result) { return result.type.list; }))
    return true;
  if (results + 1 == declared &&
      std::ranges::find(last_may_be_none, schema.name) != std::end(last_may_be_none))
    return true;
  // An output mask, such as bool[3] for three gradients, says which results are None.
  return results < declared && std::ranges::any_of(schema.arguments, [&](const SchemaArgument& argument) {
           const SchemaType& type = argument.type;
           return type.kind == SchemaType::Kind::boolean && type.list &&
                  type.fixed_size == std::ssize(schema.returns);
         });
}

// Whether a list of integers has the declared length (int[2]). One integer stands for all, and int[1] accepts
// any length.
bool has_declared_size(const ir::AttributeValue& value, const SchemaType& type) {
  const auto declared = static_cast<size_t>(type.fixed_size);
  const auto fits = [&](size_t size) { return size <= 1 || size == declared; };
  if (declared <= 1) return true;
  if (const auto* flags = std::get_if<std::vector<bool>>(&value)) return flags->size() == declared;
  if (const auto* integers = std::get_if<std::vector<int64_t>>(&value)) return fits(integers->size());
  if (const auto* dims = std::get_if<std::vector<Dim>>(&value)) return fits(dims->size());
  return true;
}

// Whether a list of tensors holds None where its type does not allow that.
bool lacks_tensor(const ir::AttributeValue& value, const SchemaType& type) {
  const auto* tensors = std::get_if<std::vector<ir::Value*>>(&value);
  return tensors != nullptr && !type.optional_elements &&
         std::ranges::find(*tensors, nullptr) != tensors->end();
}

// An argument that torch has renamed: a program has the name of the torch that made it.
struct RenamedArgument {
  std::string_view op;
  std::string_view before;
  std::string_view now;
};

constexpr RenamedArgument renamed_arguments[] = {
    {"aten::_cdist_backward", "grad", "grad_output"},  // in 2.14, as the next
    {"aten::_pdist_backward", "grad", "grad_output"},
};

auto find_argument(const OperatorSchema& schema, const std::string& op, std::string_view name) {
  const auto named = [&](std::string_view n) {
    return std::ranges::find(schema.arguments, n, &SchemaArgument::name);
  };
  const auto found = named(name);
  if (found != schema.arguments.end()) return found;
  for (const RenamedArgument& argument : renamed_arguments) {
    if (argument.op == op && argument.before == name) return named(argument.now);
    if (argument.op == op && argument.now == name) return named(argument.before);
  }
  return found;
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
    const auto argument = find_argument(schema, node.op, attribute.name);
    if (argument == schema.arguments.end()) fail(fmt::format("has the unknown argument {}", attribute.name));
    const ir::AttributeValue*& value = values[argument - schema.arguments.begin()];
    if (value != nullptr) fail(fmt::format("has the argument {} twice", attribute.name));
    if (!has_declared_size(attribute.value, argument->type) || lacks_tensor(attribute.value, argument->type))
      fail(fmt::format("has {} = {}", attribute.name, ir::str(attribute.value)));
    value = &attribute.value;
  }
  for (size_t i = 0; i < values.size(); ++i) {
    const SchemaArgument& argument = schema.arguments[i];
    if (values[i] != nullptr) continue;
    if (!argument.default_value) fail(fmt::format("lacks the argument {}", argument.name));
    values[i] = &*argument.default_value;
  }
  if (!declares(schema, node.outputs.size())) fail(fmt::format("has {} results", node.outputs.size()));
  return values;
}

}  // namespace opbridge
