// Human-readable text of the schema table.
#include <fmt/format.h>

#include <bit>

#include "onnx/schema_table.h"

namespace opbridge::onnx {
namespace {

std::string parameter(const OpSchema& schema, const FormalParameter& formal) {
  std::string text;
  if (formal.option == ParameterOption::optional) text = "optional ";
  if (formal.option == ParameterOption::variadic) text = formal.homogeneous ? "variadic " : "variadic mixed ";
  return fmt::format("{}{} {}", text, schema.types()[formal.type].name(), formal.name());
}

std::string parameters(const OpSchema& schema, std::span<const FormalParameter> formals) {
  std::vector<std::string> texts;
  for (const FormalParameter& formal : formals) texts.push_back(parameter(schema, formal));
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::string default_value(const AttributeSchema& attribute) {
  std::vector<std::string> texts;
  for (const std::int64_t value : attribute.default_ints()) texts.push_back(fmt::format("{}", value));
  for (const float value : attribute.default_floats()) texts.push_back(fmt::format("{}", value));
  for (const Text value : attribute.default_strings()) texts.push_back(fmt::format("\"{}\"", value.view()));
  const bool list = attribute.kind == AttributeKind::ints || attribute.kind == AttributeKind::floats ||
                    attribute.kind == AttributeKind::strings;
  const std::string values = fmt::format("{}", fmt::join(texts, ", "));
  return list ? "[" + values + "]" : values;
}

std::string attribute_text(const AttributeSchema& attribute) {
  std::string text = fmt::format("{} {}", name(attribute.kind), attribute.name());
  if (attribute.required) return text + " (required)";
  return attribute.has_default ? text + " = " + default_value(attribute) : text;
}

}  // namespace

std::optional<ElementType> TypeSet::only() const {
  if (!std::has_single_bit(bits) || std::countr_zero(bits) >= 60) return std::nullopt;
  return static_cast<ElementType>(std::countr_zero(bits));
}

std::string TypeSet::str() const {
  std::vector<std::string> names;
  for (unsigned i = 0; i < 60; ++i) {
    const auto type = static_cast<ElementType>(i);
    if (!contains(type)) continue;
    names.push_back(i < detail::element_type_count ? std::string(onnx_name(type))
                                                   : fmt::format("type {}", i));
  }
  if (has(sparse_tensor)) names.emplace_back("sparse_tensor");
  if (has(sequence)) names.emplace_back("sequence");
  if (has(optional)) names.emplace_back("optional");
  if (has(map)) names.emplace_back("map");
  return names.size() == 1 ? names.front() : fmt::format("{{{}}}", fmt::join(names, ", "));
}

std::string_view name(AttributeKind kind) {
  constexpr std::string_view names[] = {
      "undefined", "float",   "int",    "string",        "tensor",         "graph",      "floats",     "ints",
      "strings",   "tensors", "graphs", "sparse tensor", "sparse tensors", "type proto", "type protos"};
  const auto index = static_cast<std::size_t>(kind);
  return index < std::size(names) ? names[index] : "unknown";
}

std::string describe(const OpSchema& schema) {
  std::string text = schema.domain().empty() ? "" : std::string(schema.domain()) + "::";
  text += fmt::format("{}-{}({}) -> {}", schema.name(), schema.since_version,
                      parameters(schema, schema.inputs()), parameters(schema, schema.outputs()));
  for (const TypeParameter& type : schema.types()) {
    const bool variable = type.name().find('(') == std::string_view::npos;
    if (variable)
      text += fmt::format("; {} {} {}", type.name(), type.allowed.only() ? "=" : "in", type.allowed.str());
  }
  std::vector<std::string> attributes;
  for (const AttributeSchema& attribute : schema.attributes())
    attributes.push_back(attribute_text(attribute));
  text +=
      attributes.empty() ? "; no attributes" : fmt::format("; attributes: {}", fmt::join(attributes, ", "));
  if (schema.deprecated) text += fmt::format("; deprecated since opset {}", schema.since_version);
  return text;
}

}  // namespace opbridge::onnx
