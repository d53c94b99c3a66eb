#include "onnx/type_inference.h"

#include <fmt/format.h>

#include <algorithm>

namespace opbridge::onnx {
namespace {

// Determines an output's type that neither the inputs nor the type attribute determine: the attribute's
// default in the schema, another input, or a type that the operator's documentation names.
struct TypeRule {
  std::string_view op;
  std::string_view attribute;
  int as_input = -1;
  ElementType otherwise = ElementType::undefined;
  std::size_t output = 0;
};

constexpr TypeRule type_rules[] = {
    {.op = "Bernoulli", .attribute = "dtype", .as_input = 0},
    {.op = "BitCast", .attribute = "to"},
    {.op = "BlackmanWindow", .attribute = "output_datatype"},
    {.op = "Cast", .attribute = "to"},
    {.op = "Constant", .attribute = "value"},
    {.op = "ConstantOfShape", .attribute = "value", .otherwise = ElementType::float32},
    {.op = "DequantizeLinear", .attribute = "output_dtype", .as_input = 1},
    {.op = "EyeLike", .attribute = "dtype", .as_input = 0},
    {.op = "HammingWindow", .attribute = "output_datatype"},
    {.op = "HannWindow", .attribute = "output_datatype"},
    {.op = "LayerNormalization", .attribute = "stash_type", .output = 1},
    {.op = "MelWeightMatrix", .attribute = "output_datatype"},
    {.op = "Multinomial", .attribute = "dtype"},
    {.op = "QuantizeLinear", .attribute = "output_dtype", .otherwise = ElementType::uint8},
    {.op = "RandomNormal", .attribute = "dtype"},
    {.op = "RandomNormalLike", .attribute = "dtype", .as_input = 0},
    {.op = "RandomUniform", .attribute = "dtype"},
    {.op = "RandomUniformLike", .attribute = "dtype", .as_input = 0},
};

const TypeRule* rule_of(const OpSchema& schema) {
  if (!schema.domain().empty()) return nullptr;
  const auto* found = std::ranges::find(type_rules, schema.name(), &TypeRule::op);
  return found == std::end(type_rules) ? nullptr : found;
}

const AttributeSchema* attribute_of(const OpSchema& schema, const TypeRule& rule) {
  const AttributeSchema* attribute = schema.attribute(rule.attribute);
  const bool says_type = attribute != nullptr &&
                         (attribute->kind == AttributeKind::int_ || attribute->kind == AttributeKind::tensor);
  return says_type ? attribute : nullptr;
}

ElementType default_of(const OpSchema& schema, const TypeRule& rule) {
  const AttributeSchema* attribute = attribute_of(schema, rule);
  const auto values = attribute == nullptr ? std::span<const std::int64_t>() : attribute->default_ints();
  return values.empty() ? ElementType::undefined : static_cast<ElementType>(values.front());
}

}  // namespace

TypeResolution resolve(const OpSchema& schema, std::span<const std::optional<ElementType>> inputs,
                       std::optional<ElementType> type_attribute) {
  TypeResolution result(schema);
  std::array<std::optional<std::size_t>, OpSchema::most_types> bound_by;

  // Binds a type variable to the type of `input`, or to the type attribute if `input` is missing.
  const auto bind = [&](std::size_t variable, ElementType type, std::optional<std::size_t> input) {
    auto& bound = result.variables_.at(variable);
    const TypeSet allowed = schema.types()[variable].allowed;
    if (!allowed.contains(type)) {
      result.conflict_ = TypeConflict{variable, input, type, allowed, std::nullopt};
    } else if (bound && *bound != type) {
      result.conflict_ = TypeConflict{variable, input, type, TypeSet::of(*bound), bound_by.at(variable)};
    } else if (!bound) {
      bound = type;
      bound_by.at(variable) = input;
    }
    return !result.conflict_;
  };

  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const FormalParameter* formal = schema.input(i);
    if (formal == nullptr) break;
    if (!inputs[i]) continue;
    if (formal->option == ParameterOption::variadic && !formal->homogeneous) {
      const TypeSet allowed = schema.types()[formal->type].allowed;
      if (!allowed.contains(*inputs[i])) {
        result.conflict_ = TypeConflict{formal->type, i, *inputs[i], allowed, std::nullopt};
        return result;
      }
    } else if (!bind(formal->type, *inputs[i], i)) {
      return result;
    }
  }

  const TypeRule* rule = rule_of(schema);
  if (rule == nullptr) return result;
  const std::size_t variable = schema.output(rule->output)->type;
  if (type_attribute.value_or(ElementType::undefined) != ElementType::undefined) {
    bind(variable, *type_attribute, std::nullopt);
  } else if (!result.variables_.at(variable)) {
    const auto source = static_cast<std::size_t>(rule->as_input);
    if (rule->as_input >= 0) {
      if (source < inputs.size() && inputs[source]) bind(variable, *inputs[source], source);
    } else if (rule->otherwise != ElementType::undefined) {
      bind(variable, rule->otherwise, std::nullopt);
    } else if (const ElementType type = default_of(schema, *rule); type != ElementType::undefined) {
      bind(variable, type, std::nullopt);
    }
  }
  return result;
}

std::optional<ElementType> TypeResolution::output(std::size_t index) const {
  const FormalParameter* formal = schema_->output(index);
  if (formal == nullptr) return std::nullopt;
  const bool mixed = formal->option == ParameterOption::variadic && !formal->homogeneous;
  if (!mixed && variables_.at(formal->type)) return variables_.at(formal->type);
  return schema_->types()[formal->type].allowed.only();
}

std::string_view type_attribute_of(const OpSchema& schema) {
  const TypeRule* rule = rule_of(schema);
  const AttributeSchema* attribute = rule == nullptr ? nullptr : attribute_of(schema, *rule);
  return attribute == nullptr ? std::string_view() : attribute->name();
}

std::string describe(const OpSchema& schema, const TypeConflict& conflict) {
  const TypeParameter& variable = schema.types()[conflict.variable];
  const auto input_text = [&](std::size_t index) {
    return fmt::format("input {} ({})", index, schema.input(index)->name());
  };
  const std::string subject =
      conflict.input ? input_text(*conflict.input) : fmt::format("attribute {}", type_attribute_of(schema));
  const std::string found = fmt::format("{} is {}", subject, onnx_name(conflict.found));
  if (conflict.as_input) {
    return fmt::format("{}, but {} is {} as in {}", found, variable.name(), conflict.expected.str(),
                       input_text(*conflict.as_input));
  }
  const bool spelled_out = variable.name().find('(') != std::string_view::npos;
  return spelled_out
             ? fmt::format("{}, but must be {}", found, conflict.expected.str())
             : fmt::format("{}, but {} is one of {}", found, variable.name(), conflict.expected.str());
}

std::optional<ElementType> wider_type(TypeSet has, ElementType type) {
  using enum ElementType;
  const auto first_of = [&](std::initializer_list<ElementType> wider) -> std::optional<ElementType> {
    const auto found = std::ranges::find_if(wider, [&](ElementType t) { return has.contains(t); });
    return found == wider.end() ? std::nullopt : std::optional(*found);
  };
  if (has.contains(type)) return type;
  switch (type) {
    case float16:
    case bfloat16:
      return first_of({float32});
    case boolean:
    case int8:
    case int16:
      return first_of({int32, int64, float32});
    case uint8:
    case uint16:
      return first_of({int32, int64, uint32, float32});
    case int32:
    case uint32:
      return first_of({int64, float64});
    default:
      return std::nullopt;
  }
}

std::optional<ElementType> type_attribute(const OpSchema& schema, std::span<const ir::Attribute> attributes) {
  const std::string_view name = type_attribute_of(schema);
  for (const ir::Attribute& attribute : attributes) {
    if (name.empty() || attribute.name != name) continue;
    if (const int64_t* number = std::get_if<int64_t>(&attribute.value)) {
      // A number out of range is not a type, and fits nothing.
      return static_cast<ElementType>(*number >= 0 && *number < 256 ? *number : 255);
    }
    if (const auto* weight = std::get_if<std::shared_ptr<const ir::Weight>>(&attribute.value))
      return (*weight)->element_type;
  }
  return std::nullopt;
}

}  // namespace opbridge::onnx
