#include "lowering/skeleton.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <complex>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include "torch/traits.h"

namespace opbridge {
namespace {

using Kind = SchemaType::Kind;

SchemaType type_of(Kind kind, const char* name, bool list = false) {
  SchemaType type;
  type.kind = kind;
  type.name = name;
  type.list = list;
  return type;
}

// The type of an argument that is None in all calls.
constexpr const char* unknown_type = "NoneType";

// The schema type that a value reveals; nothing for None.
struct TypeOfValue {
  std::optional<SchemaType> operator()(std::monostate) const { return std::nullopt; }
  std::optional<SchemaType> operator()(bool) const { return type_of(Kind::boolean, "bool"); }
  std::optional<SchemaType> operator()(int64_t) const { return type_of(Kind::integer, "int"); }
  std::optional<SchemaType> operator()(double) const { return type_of(Kind::floating, "float"); }
  std::optional<SchemaType> operator()(const std::complex<double>&) const {
    return type_of(Kind::scalar, "Scalar");
  }
  std::optional<SchemaType> operator()(const std::string&) const { return type_of(Kind::string, "str"); }
  std::optional<SchemaType> operator()(const Dim&) const { return type_of(Kind::sym_int, "SymInt"); }
  std::optional<SchemaType> operator()(ElementType) const {
    return type_of(Kind::element_type, "ScalarType");
  }
  std::optional<SchemaType> operator()(ir::Value*) const { return type_of(Kind::tensor, "Tensor"); }
  std::optional<SchemaType> operator()(const std::vector<bool>&) const {
    return type_of(Kind::boolean, "bool", true);
  }
  std::optional<SchemaType> operator()(const std::vector<int64_t>&) const {
    return type_of(Kind::integer, "int", true);
  }
  std::optional<SchemaType> operator()(const std::vector<double>&) const {
    return type_of(Kind::floating, "float", true);
  }
  std::optional<SchemaType> operator()(const std::vector<std::string>&) const {
    return type_of(Kind::string, "str", true);
  }
  std::optional<SchemaType> operator()(const std::vector<Dim>&) const {
    return type_of(Kind::sym_int, "SymInt", true);
  }
  std::optional<SchemaType> operator()(const std::vector<ir::Value*>& values) const {
    SchemaType type = type_of(Kind::tensor, "Tensor", true);
    type.optional_elements = std::ranges::find(values, nullptr) != values.end();
    return type;
  }
  template <class Other>
  std::optional<SchemaType> operator()(const Other&) const {
    return type_of(Kind::opaque, "Any");
  }
};

// The wider of the types that two calls reveal.
SchemaType joined(const SchemaType& a, const SchemaType& b) {
  SchemaType type = a;
  if (a.kind == Kind::integer && (b.kind == Kind::floating || b.kind == Kind::sym_int)) type = b;
  if (a.name == unknown_type) type = b;
  type.optional = a.optional || b.optional;
  type.optional_elements = a.optional_elements || b.optional_elements;
  return type;
}

SchemaReturn result_of(const ir::Value& value) {
  if (std::holds_alternative<ir::ListType>(value.type)) return {"", type_of(Kind::tensor, "Tensor", true)};
  if (const auto* number = std::get_if<ir::ScalarType>(&value.type)) {
    if (number->element_type == ElementType::boolean) return {"", type_of(Kind::boolean, "bool")};
    if (number->element_type == ElementType::int64) return {"", type_of(Kind::integer, "int")};
    return {"", type_of(Kind::floating, "float")};
  }
  return {"", type_of(Kind::tensor, "Tensor")};
}

constexpr std::string_view words_of_python[] = {
    "False",    "None",  "True",   "and",  "as",    "assert", "async",    "await", "break",    "class",
    "continue", "def",   "del",    "elif", "else",  "except", "finally",  "for",   "from",     "g",
    "global",   "if",    "import", "in",   "is",    "lambda", "nonlocal", "not",   "opbridge", "or",
    "pass",     "raise", "return", "try",  "while", "with",   "yield"};

// A Python identifier for a parameter or a function.
std::string python_name(std::string_view name) {
  std::string result(name);
  std::ranges::replace_if(
      result, [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  const bool taken = std::ranges::find(words_of_python, result) != std::end(words_of_python);
  return taken || std::isdigit(static_cast<unsigned char>(result[0])) ? "arg_" + result : result;
}

// The suffix of an attribute of g.op.
char suffix_of(Kind kind) {
  switch (kind) {
    case Kind::scalar:
    case Kind::floating:
      return 'f';
    case Kind::string:
    case Kind::opaque:
      return 's';
    default:
      return 'i';
  }
}

}  // namespace

void learn_schema(OperatorSchema& schema, const ir::Node& call) {
  if (schema.name.empty()) {
    schema.name = torch::without_overload(call.op);
    if (call.op.size() > schema.name.size()) schema.overload = call.op.substr(schema.name.size() + 1);
    for (const ir::Value* output : call.outputs) schema.returns.push_back(result_of(*output));
  }
  for (const ir::Attribute& attribute : call.attributes) {
    const std::optional<SchemaType> shown =
        std::visit(TypeOfValue(), static_cast<const ir::AttributeVariant&>(attribute.value));
    SchemaType type = shown.value_or(type_of(Kind::opaque, unknown_type));
    type.optional = !shown.has_value();
    const auto known = std::ranges::find(schema.arguments, attribute.name, &SchemaArgument::name);
    if (known == schema.arguments.end()) {
      schema.arguments.push_back({attribute.name, type, std::nullopt, false});
    } else {
      known->type = joined(known->type, type);
    }
  }
}

MappingSkeleton mapping_skeleton(const OperatorSchema& schema, size_t results, int opset) {
  const std::string name = schema.name.substr(schema.name.find("::") + 2);
  const bool is_aten = schema.name.starts_with("aten::");
  std::vector<std::string> parameters{"g"}, inputs, attributes;
  for (const SchemaArgument& argument : schema.arguments) {
    const std::string parameter = python_name(argument.name);
    parameters.push_back(parameter);
    const SchemaType& type = argument.type;
    if (type.kind == Kind::tensor && type.list) {
      inputs.push_back(type.optional ? fmt::format("*({} or [])", parameter) : "*" + parameter);
    } else if (type.kind == Kind::tensor || type.name == unknown_type) {  // an input takes numbers too
      inputs.push_back(parameter);
    } else if (type.kind == Kind::sym_int) {  // may be computed when the model runs; an attribute cannot
      const std::string sizes =
          type.list ? fmt::format("g.sizes({})", parameter) : fmt::format("g.sizes([{}])", parameter);
      inputs.push_back(type.optional ? fmt::format("None if {} is None else {}", parameter, sizes) : sizes);
    } else {
      const std::string value = type.kind != Kind::opaque ? parameter
                                : type.optional ? fmt::format("None if {0} is None else str({0})", parameter)
                                                : fmt::format("str({})", parameter);
      attributes.push_back(fmt::format("{}_{}={}", parameter, suffix_of(type.kind), value));
    }
  }
  std::vector<std::string> arguments{is_aten ? fmt::format("\"my_domain::{}\"", python_name(name))
                                             : fmt::format("\"{}\"", schema.name)};
  arguments.insert(arguments.end(), inputs.begin(), inputs.end());
  if (results > 1) arguments.push_back(fmt::format("outputs={}", results));
  arguments.insert(arguments.end(), attributes.begin(), attributes.end());
  return {fmt::format("@opbridge.symbolic(\"{}\", opset={})", schema.key(), opset),
          fmt::format("def {}({}):", python_name(name), fmt::join(parameters, ", ")),
          fmt::format("g.op({})", fmt::join(arguments, ", "))};
}

}  // namespace opbridge
