#include "onnx/schema_table.h"

#include <algorithm>
#include <cmath>

#include "support/closest_names.h"

namespace opbridge::onnx {
namespace {

// All versions of one operator.
struct Operator {
  Text name_;
  Slice schemas;

  std::string_view name() const { return name_.view(); }
};

struct Domain {
  Text name_;
  std::uint16_t newest_opset;
  Slice operators;
  Slice ir_versions;  // one for each opset, from 1

  std::string_view name() const { return name_.view(); }
};

// The generated rows use unqualified enumerators.
using enum ParameterOption;
using enum AttributeKind;

#include "opbridge_onnx_schemas.inc"

static_assert(std::ranges::all_of(schemas_table,
                                  [](const OpSchema& s) { return s.types_.size <= OpSchema::most_types; }));

template <class T>
std::span<const T> part(std::span<const T> table, Slice slice) {
  return table.subspan(slice.begin, slice.size);
}

const Domain* find_domain(std::string_view name) {
  if (name == "ai.onnx") name = "";
  const auto* found = std::ranges::find(domains_table, name, &Domain::name);
  return found == std::end(domains_table) ? nullptr : found;
}

// The versions of an operator, oldest first; empty if it does not exist.
std::span<const OpSchema> versions_of(std::string_view domain_name, std::string_view name) {
  const Domain* domain = find_domain(domain_name);
  if (domain == nullptr) return {};
  const auto operators = part(std::span<const Operator>(operators_table), domain->operators);
  const auto found = std::ranges::lower_bound(operators, name, {}, &Operator::name);
  if (found == operators.end() || found->name() != name) return {};
  return part(std::span<const OpSchema>(schemas_table), found->schemas);
}

const OpSchema* in_force(std::span<const OpSchema> versions, int opset) {
  const auto after = std::ranges::upper_bound(versions, opset, {}, &OpSchema::since_version);
  return after == versions.begin() ? nullptr : &*(after - 1);
}

const FormalParameter* parameter_for(std::span<const FormalParameter> parameters, std::size_t index) {
  if (index < parameters.size()) return &parameters[index];
  if (!parameters.empty() && parameters.back().option == variadic) return &parameters.back();
  return nullptr;
}

bool in_range(std::size_t count, std::int32_t least, std::int32_t most) {
  return count >= static_cast<std::size_t>(least) && count <= static_cast<std::size_t>(most);
}

}  // namespace

std::string_view Text::view() const { return {text_bytes + begin, size}; }

std::span<const std::int64_t> AttributeSchema::default_ints() const {
  const bool fits = kind == int_ || kind == ints;
  return fits ? part(std::span<const std::int64_t>(ints_table), default_) : std::span<const std::int64_t>();
}

std::span<const float> AttributeSchema::default_floats() const {
  const bool fits = kind == float_ || kind == floats;
  return fits ? part(std::span<const float>(floats_table), default_) : std::span<const float>();
}

std::span<const Text> AttributeSchema::default_strings() const {
  const bool fits = kind == string || kind == strings;
  return fits ? part(std::span<const Text>(strings_table), default_) : std::span<const Text>();
}

std::string_view OpSchema::domain() const { return domains_table[domain_].name(); }

std::span<const FormalParameter> OpSchema::inputs() const {
  return part(std::span<const FormalParameter>(formals_table), inputs_);
}

std::span<const FormalParameter> OpSchema::outputs() const {
  return part(std::span<const FormalParameter>(formals_table), outputs_);
}

std::span<const TypeParameter> OpSchema::types() const {
  return part(std::span<const TypeParameter>(types_table), types_);
}

std::span<const AttributeSchema> OpSchema::attributes() const {
  return part(std::span<const AttributeSchema>(attributes_table), attributes_);
}

const FormalParameter* OpSchema::input(std::size_t index) const { return parameter_for(inputs(), index); }

const FormalParameter* OpSchema::output(std::size_t index) const { return parameter_for(outputs(), index); }

const AttributeSchema* OpSchema::attribute(std::string_view name) const {
  const auto rows = attributes();
  const auto found = std::ranges::lower_bound(rows, name, {}, &AttributeSchema::name);
  return found == rows.end() || found->name() != name ? nullptr : &*found;
}

bool OpSchema::accepts_inputs(std::size_t count) const { return in_range(count, min_inputs, max_inputs); }

bool OpSchema::accepts_outputs(std::size_t count) const { return in_range(count, min_outputs, max_outputs); }

const OpSchema* find_schema(std::string_view domain, std::string_view name, int opset) {
  return in_force(versions_of(domain, name), opset);
}

int first_version(std::string_view domain, std::string_view name) {
  const auto versions = versions_of(domain, name);
  return versions.empty() ? 0 : versions.front().since_version;
}

int newest_opset(std::string_view domain) {
  const Domain* found = find_domain(domain);
  return found == nullptr ? 0 : found->newest_opset;
}

int ir_version_for(int opset, std::string_view domain) {
  const Domain* found = find_domain(domain);
  if (found == nullptr) return 3;
  return ir_versions_table[found->ir_versions.begin + std::clamp<int>(opset, 1, found->newest_opset) - 1];
}

std::span<const OpSchema> all_schemas() { return schemas_table; }

std::string_view onnx_version() { return built_from; }

std::vector<std::string_view> suggest_names(std::string_view name, std::string_view domain, int opset) {
  std::vector<std::string_view> candidates;
  if (const Domain* found = find_domain(domain)) {
    for (const Operator& op : part(std::span<const Operator>(operators_table), found->operators)) {
      const OpSchema* schema = in_force(part(std::span<const OpSchema>(schemas_table), op.schemas), opset);
      if (schema != nullptr && !schema->deprecated) candidates.push_back(op.name());
    }
  }
  return support::closest_names(name, candidates);
}

}  // namespace opbridge::onnx
