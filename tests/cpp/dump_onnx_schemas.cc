// Prints the schema table as seen through its public functions, one JSON object a line, for
// tests/python/test_onnx_schemas.py to compare with the onnx package.
#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <vector>

#include "onnx/schema_table.h"

namespace {

using namespace opbridge::onnx;

std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + "\"";
}

std::string list(const std::vector<std::string>& items) { return fmt::format("[{}]", fmt::join(items, ",")); }

std::string parameters(const OpSchema& schema, std::span<const FormalParameter> formals) {
  std::vector<std::string> items;
  for (const FormalParameter& formal : formals) {
    const TypeParameter& type = schema.types()[formal.type];
    items.push_back(
        fmt::format(R"({{"name":{},"type":{},"allowed":{},"option":{},"homogeneous":{},"min_arity":{}}})",
                    quoted(formal.name()), quoted(type.name()), type.allowed.bits,
                    static_cast<int>(formal.option), formal.homogeneous, formal.min_arity));
  }
  return list(items);
}

std::string attributes(const OpSchema& schema) {
  std::vector<std::string> items;
  for (const AttributeSchema& attribute : schema.attributes()) {
    std::vector<std::string> values;
    for (const std::int64_t value : attribute.default_ints()) values.push_back(fmt::format("{}", value));
    for (const float value : attribute.default_floats()) values.push_back(fmt::format("{}", value));
    for (const Text value : attribute.default_strings()) values.push_back(quoted(value.view()));
    items.push_back(fmt::format(R"({{"name":{},"kind":{},"required":{},"has_default":{},"default":{}}})",
                                quoted(attribute.name()), static_cast<int>(attribute.kind),
                                attribute.required, attribute.has_default, list(values)));
  }
  return list(items);
}

// The version that find_schema returns at opset 0, 1, … and one beyond the newest, or 0.
std::string lookups(const OpSchema& schema) {
  std::vector<std::string> items;
  for (int opset = 0; opset <= newest_opset(schema.domain()) + 1; ++opset) {
    const OpSchema* found = find_schema(schema.domain(), schema.name(), opset);
    items.push_back(fmt::format("{}", found == nullptr ? 0 : found->since_version));
  }
  return list(items);
}

std::string ir_versions(std::string_view domain) {
  std::vector<std::string> items;
  for (int opset = 1; opset <= newest_opset(domain); ++opset) {
    items.push_back(fmt::format("{}", ir_version_for(opset, domain)));
  }
  return list(items);
}

}  // namespace

int main() {
  fmt::print(R"({{"onnx_version":{}}})"
             "\n",
             quoted(onnx_version()));
  for (const OpSchema& schema : all_schemas()) {
    fmt::print(
        R"({{"domain":{},"name":{},"since_version":{},"deprecated":{},"first_version":{},"lookups":{},)"
        R"("min_inputs":{},"max_inputs":{},"min_outputs":{},"max_outputs":{},"inputs":{},"outputs":{},)"
        R"("attributes":{},"newest_opset":{},"ir_versions":{}}})"
        "\n",
        quoted(schema.domain()), quoted(schema.name()), schema.since_version, schema.deprecated,
        first_version(schema.domain(), schema.name()), lookups(schema), schema.min_inputs, schema.max_inputs,
        schema.min_outputs, schema.max_outputs, parameters(schema, schema.inputs()),
        parameters(schema, schema.outputs()), attributes(schema), newest_opset(schema.domain()),
        ir_versions(schema.domain()));
  }
  return 0;
}
