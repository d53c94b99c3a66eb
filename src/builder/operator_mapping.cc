// Operators written with opbridge/operator.h: the mapping that follows from the schema, and the lowerings of
// their libraries.
#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "builder/operator_lowering.h"
#include "opbridge/registry.h"
#include "support/operator_library.h"

namespace opbridge {
namespace {

// The list as operator libraries read it: one string in which each element is followed by a zero character.
std::string joined(const SymbolicCall& call, const std::string& name, const std::vector<std::string>& list) {
  std::string text;
  for (const std::string& element : list) {
    if (element.find('\0') != std::string::npos) {
      call.g.refuse(fmt::format("a string of the argument {} contains a zero character", name));
    }
    text += element + '\0';
  }
  return text;
}

// The attribute of an argument; nothing for None, devices and other values that a node does not hold.
std::optional<Attr> to_attribute(const SymbolicCall& call, const SchemaArgument& argument,
                                 const ir::AttributeValue& value) {
  const std::string& name = argument.name;
  const bool floating = argument.type.kind == SchemaType::Kind::floating;
  if (const bool* flag = std::get_if<bool>(&value)) return attr(name, static_cast<int64_t>(*flag));
  if (const int64_t* number = std::get_if<int64_t>(&value)) {
    if (floating) return attr(name, static_cast<double>(*number));
    return attr(name, *number);
  }
  if (const double* number = std::get_if<double>(&value)) return attr(name, *number);
  if (const std::string* text = std::get_if<std::string>(&value)) return attr(name, *text);
  if (const ElementType* type = std::get_if<ElementType>(&value)) return attr(name, *type);
  if (const auto* list = std::get_if<std::vector<int64_t>>(&value)) {
    if (floating) return attr(name, std::vector<double>(list->begin(), list->end()));
    // An empty list may be a list of strings too.
    if (argument.type.kind == SchemaType::Kind::string) return attr(name, joined(call, name, {}));
    return attr(name, *list);
  }
  if (const auto* list = std::get_if<std::vector<double>>(&value)) return attr(name, *list);
  if (const auto* list = std::get_if<std::vector<std::string>>(&value)) {
    return attr(name, joined(call, name, *list));
  }
  if (const auto* list = std::get_if<std::vector<bool>>(&value)) {
    return attr(name, std::vector<int64_t>(list->begin(), list->end()));
  }
  if (std::holds_alternative<std::monostate>(value) || std::holds_alternative<ir::Opaque>(value))
    return std::nullopt;
  call.g.refuse(fmt::format(
      "the argument {} is known only when the model runs, but an attribute must be a constant", name));
}

std::vector<Value> as_node(const OperatorSchema& schema, const SymbolicCall& call) {
  std::vector<Operand> operands;
  for (size_t i = 0; i < schema.arguments.size(); ++i) {
    const SchemaArgument& argument = schema.arguments[i];
    if (argument.type.kind != SchemaType::Kind::tensor) {
      if (std::optional<Attr> attribute = to_attribute(call, argument, *call.arguments[i]))
        operands.push_back(std::move(*attribute));
    } else if (argument.type.list) {
      operands.push_back(symbolic_detail::decode_values(call, i));
    } else {
      operands.push_back(symbolic_detail::decode_value(call, i));
    }
  }
  return call.g.op_list(schema.name, call.node.outputs.size(), std::move(operands));
}

Symbolic node_of(const OperatorSchema& schema) {
  return {schema.key(), schema, Since{1}, Origin::bundled,
          [schema](const SymbolicCall& call) { return as_node(schema, call); }};
}

struct OperatorLibrary {
  const opbridge_operator_table* table;
  builder::LowerFunction lower;
};

// Opens a library, which stays open unless it is refused: its registrations with PyTorch remain, and a
// registry may be copied.
OperatorLibrary open_library(const std::filesystem::path& name) {
  const std::filesystem::path path = support::operator_library(name);
  std::unique_ptr<void, int (*)(void*)> handle(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL), dlclose);
  if (handle == nullptr) {
    throw Error(ErrorCode::invalid_file, fmt::format("cannot open the operator library: {}", dlerror()));
  }
  const auto operators =
      reinterpret_cast<decltype(&opbridge_operators)>(dlsym(handle.get(), "opbridge_operators"));
  if (operators == nullptr) {
    throw Error(ErrorCode::invalid_file,
                fmt::format("{} is not an operator library of opbridge", path.string()));
  }
  const opbridge_operator_table* const table = operators();
  if (table->abi != OPBRIDGE_OPERATOR_ABI) {
    throw Error(ErrorCode::invalid_file,
                fmt::format("{} was built with another version of opbridge (ABI {}, not {}): rebuild it",
                            path.string(), table->abi, OPBRIDGE_OPERATOR_ABI));
  }
  return {table, reinterpret_cast<builder::LowerFunction>(dlsym(handle.release(), "opbridge_lower"))};
}

}  // namespace

void SymbolicRegistry::add_operators(const std::filesystem::path& path) {
  const OperatorLibrary library = open_library(path);
  for (int32_t i = 0; i < library.table->count; ++i) {
    const opbridge_operator& op = library.table->operators[i];
    const OperatorSchema schema = parse_schema(op.schema);
    add(node_of(schema));
    int& version = domain_versions_[schema.name.substr(0, schema.name.find("::"))];
    version = std::max(version, op.version);
    if (op.lowered_since == 0) continue;
    add(Symbolic{schema.key(), schema, Since{op.lowered_since}, Origin::bundled,
                 [schema, lower = library.lower, i](const SymbolicCall& call) {
                   std::optional<std::vector<Value>> made = builder::run_lowering(lower, i, schema, call);
                   return made ? *std::move(made) : as_node(schema, call);
                 }});
  }
}

int SymbolicRegistry::domain_version(std::string_view domain) const {
  const auto found = domain_versions_.find(domain);
  return found == domain_versions_.end() ? 1 : found->second;
}

void SymbolicRegistry::add_operator(std::string_view schema_line) { add(node_of(parse_schema(schema_line))); }

}  // namespace opbridge
