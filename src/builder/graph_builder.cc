#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "builder/attribute_types.h"
#include "builder/builder_state.h"
#include "builder/exact_floats.h"
#include "builder/older_forms.h"
#include "builder/shape_inference.h"
#include "builder/stage.h"
#include "builder/version_hints.h"
#include "onnx/attribute_kind.h"
#include "onnx/schema_table.h"
#include "onnx/type_inference.h"
#include "tensor/constants.h"

namespace opbridge {
namespace {

// Converts an int to the expected float, and an empty list to the expected kind.
void adapt_kind(ir::AttributeValue& value, onnx::AttributeKind expected) {
  using Kind = onnx::AttributeKind;
  const std::vector<int64_t>* ints = std::get_if<std::vector<int64_t>>(&value);
  if (expected == Kind::float_) {
    if (const int64_t* number = std::get_if<int64_t>(&value)) value = static_cast<double>(*number);
  } else if (expected == Kind::floats && ints) {
    value = std::vector<double>(ints->begin(), ints->end());
  } else if (ints && ints->empty()) {
    if (expected == Kind::strings) value = std::vector<std::string>();
    if (expected == Kind::tensors) value = std::vector<std::shared_ptr<const ir::Weight>>();
    if (expected == Kind::sparse_tensors) value = std::vector<std::shared_ptr<const ir::SparseTensor>>();
    if (expected == Kind::graphs) value = std::vector<ir::GraphPtr>();
    if (expected == Kind::type_protos) value = std::vector<ir::Type>();
  }
}

std::string count_text(int least, int most) {
  if (most == onnx::OpSchema::unbounded) return fmt::format("{} or more", least);
  return least == most ? fmt::format("{}", least) : fmt::format("{} to {}", least, most);
}

std::optional<ElementType> known_element_type(Value value) {
  if (!value || value.element_type() == ElementType::undefined) return std::nullopt;
  return value.element_type();
}

// Makes the node in wider types if this version of the operator does not take those of the inputs, as often
// for bfloat16 before opset 22; casts the results back. Returns nothing if wider types would not help.
std::optional<std::vector<Value>> in_wider_types(GraphBuilder& g, const onnx::OpSchema& schema,
                                                 size_t outputs, std::vector<Value> inputs,
                                                 const std::vector<ir::Attribute>& attributes) {
  if (schema.name() == "Cast") return std::nullopt;  // the wider type would be made by a Cast
  const auto is_body = [](const ir::Attribute& attribute) {
    return std::holds_alternative<ir::GraphPtr>(attribute.value);
  };
  if (std::ranges::any_of(attributes, is_body)) return std::nullopt;  // whose values have the given types
  std::array<ElementType, onnx::OpSchema::most_types> given{};
  bool cast = false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::optional<ElementType> type = known_element_type(inputs[i]);
    const size_t variable = schema.input(i)->type;
    const onnx::TypeSet allowed = schema.types()[variable].allowed;
    if (!type || allowed.contains(*type)) continue;
    const std::optional<ElementType> wider = onnx::wider_type(allowed, *type);
    if (!wider) return std::nullopt;
    inputs[i] = g.cast(inputs[i], *wider);
    given[variable] = *type;
    cast = true;
  }
  if (!cast) return std::nullopt;
  std::vector<Operand> operands(inputs.begin(), inputs.end());
  for (const ir::Attribute& attribute : attributes) operands.push_back(Attr{attribute.name, attribute.value});
  std::vector<Value> made = g.op_list(schema.name(), outputs, std::move(operands));
  for (size_t i = 0; i < made.size(); ++i) {
    const ElementType type = given[schema.output(i)->type];
    if (type != ElementType::undefined) made[i] = g.cast(made[i], type);
  }
  return made;
}

// Separates the inputs, without omitted ones at the end, from the attributes.
std::pair<std::vector<Value>, std::vector<ir::Attribute>> parted(const std::vector<Operand>& operands) {
  std::vector<Value> inputs;
  std::vector<ir::Attribute> attributes;
  for (const Operand& operand : operands) {
    if (const Value* value = std::get_if<Value>(&operand.item())) {
      inputs.push_back(*value);
    } else if (const auto* values = std::get_if<std::vector<Value>>(&operand.item())) {
      inputs.insert(inputs.end(), values->begin(), values->end());
    } else {
      const Attr& attribute = std::get<Attr>(operand.item());
      attributes.push_back({attribute.name, attribute.value});
    }
  }
  while (!inputs.empty() && !inputs.back()) inputs.pop_back();
  return {std::move(inputs), std::move(attributes)};
}

bool is_beyond_float32(double value) {
  return std::isfinite(value) && std::abs(value) > std::numeric_limits<float>::max();
}

}  // namespace

GraphBuilder::GraphBuilder(ir::Graph& graph, int opset)
    : graph_(&graph), opset_(opset), state_(std::make_shared<State>()) {
  state_->root = &graph;
}

GraphBuilder::GraphBuilder(GraphBuilder& parent, ir::Graph& body)
    : graph_(&body),
      parent_(&parent),
      opset_(parent.opset_),
      bundled_(parent.bundled_),
      call_(parent.call_),
      symbolic_(parent.symbolic_),
      state_(parent.state_) {}

std::vector<Value> GraphBuilder::op_list(std::string_view name, size_t outputs,
                                         std::vector<Operand> operands) {
  auto [inputs, attributes] = parted(operands);
  for (const std::string_view standard : {"onnx::", "ai.onnx::"}) {
    if (name.starts_with(standard)) name.remove_prefix(standard.size());
  }
  check_attributes(name, attributes);
  if (name.find("::") != std::string_view::npos) {
    if (bundled_)
      builder::add_exact_floats(attributes);  // a user's own mapping makes the attributes that it names
    return append(std::string(name), std::move(inputs), std::move(attributes),
                  std::vector<ir::TensorType>(outputs));
  }

  if (bundled_) {
    const auto is_complex_number = [](Value value) { return value && is_complex(value.element_type()); };
    if (std::ranges::any_of(inputs, is_complex_number))
      refuse("complex numbers have no counterpart in ONNX; compute with real and imaginary part");
    if (auto made = builder::in_older_form(*this, name, inputs, outputs, attributes)) return *std::move(made);
    if (const int later = builder::opset_that_adds(name, inputs.size(), outputs, attributes, opset_))
      refuse(
          fmt::format("it needs {} of opset {}; export with opset_version={} or later", name, later, later));
  }
  const onnx::OpSchema& schema = schema_of(name);
  fit_to(schema, inputs, outputs, attributes);
  const onnx::TypeResolution resolution = resolve_types(schema, inputs, attributes);
  if (resolution.conflict()) {
    if (bundled_) {
      if (auto made = in_wider_types(*this, schema, outputs, inputs, attributes)) return *std::move(made);
    }
    const int later = builder::opset_that_takes(name, inputs, attributes, opset_);
    if (bundled_ && later != 0) {
      refuse(fmt::format(
          "it needs {} of {}, which ONNX has since opset {}; export with opset_version={} or later", name,
          opbridge::name(resolution.conflict()->found), later, later));
    }
    const std::string hint = later == 0 ? "" : fmt::format("; ONNX takes it since opset {}", later);
    breaks(schema, onnx::describe(schema, *resolution.conflict()) + hint);
  }
  std::vector<ir::TensorType> output_types(outputs);
  for (size_t i = 0; i < outputs; ++i) {
    output_types[i].element_type = resolution.output(i).value_or(ElementType::undefined);
  }
  try {
    builder::infer_dims(name, inputs, attributes, output_types,
                        [&](Value value) { return known_sizes(value); });
  } catch (const Error& error) {
    breaks(schema, error.message());
  }
  const auto unknown = [&] { return unknown_size("size"); };
  builder::infer_found_dims(name, inputs, output_types, unknown);
  if (const auto problem = builder::apply_attributes({name, inputs, attributes}, output_types, unknown)) {
    breaks(schema, *problem);
  }
  return append(std::string(name), std::move(inputs), std::move(attributes), std::move(output_types));
}

const onnx::OpSchema& GraphBuilder::schema_of(std::string_view name) const {
  if (const onnx::OpSchema* schema = onnx::find_schema("", name, opset_)) {
    if (schema->deprecated) {
      breaks(*schema, fmt::format("ONNX deprecates it since opset {}", schema->since_version));
    }
    return *schema;
  }
  if (const int first = onnx::first_version("", name)) {
    invalid_node(name, fmt::format("ONNX has it since opset {}, but the target is opset {}", first, opset_));
  }
  std::string message = "ONNX has no operator of this name";
  const auto suggestions = onnx::suggest_names(name, "", opset_);
  if (!suggestions.empty()) message += fmt::format("; did you mean {}?", fmt::join(suggestions, " or "));
  invalid_node(name, message + " A custom operator is written with its namespace, \"my_domain::" +
                         std::string(name) + "\".");
}

void GraphBuilder::fit_to(const onnx::OpSchema& schema, std::span<const Value> inputs, size_t outputs,
                          std::span<ir::Attribute> attributes) const {
  if (!schema.accepts_inputs(inputs.size())) {
    const auto most = static_cast<size_t>(schema.max_inputs);
    const std::string hint = inputs.size() > most ? builder::surplus_input_hint(schema, most, opset_) : "";
    breaks(schema, fmt::format("{} inputs given, {} expected{}", inputs.size(),
                               count_text(schema.min_inputs, schema.max_inputs), hint));
  }
  if (!schema.accepts_outputs(outputs)) {
    breaks(schema, fmt::format("{} outputs requested, {} expected", outputs,
                               count_text(schema.min_outputs, schema.max_outputs)));
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i] && schema.input(i)->option != onnx::ParameterOption::optional) {
      breaks(schema, fmt::format("input {} ({}) is missing", i, schema.input(i)->name()));
    }
  }
  for (ir::Attribute& attribute : attributes) {
    const onnx::AttributeSchema* known = schema.attribute(attribute.name);
    if (!known) {
      breaks(schema, fmt::format("no attribute \"{}\"{}", attribute.name,
                                 builder::missing_attribute_hint(schema, attribute.name, opset_)));
    }
    adapt_kind(attribute.value, known->kind);
    const onnx::AttributeKind given = onnx::kind_of(attribute.value);
    if (given != known->kind) {
      breaks(schema, fmt::format("attribute \"{}\" must be {}, not {}", attribute.name,
                                 onnx::name(known->kind), onnx::name(given)));
    }
  }
  for (const onnx::AttributeSchema& known : schema.attributes()) {
    const bool given =
        std::ranges::any_of(attributes, [&](const ir::Attribute& a) { return a.name == known.name(); });
    if (known.required && !given) breaks(schema, fmt::format("attribute \"{}\" is missing", known.name()));
  }
}

onnx::TypeResolution GraphBuilder::resolve_types(const onnx::OpSchema& schema, std::span<Value> inputs,
                                                 std::span<const ir::Attribute> attributes) {
  std::vector<std::optional<ElementType>> types;
  for (Value input : inputs) types.push_back(known_element_type(input));
  // The type variables are resolved without Python numbers, which then take the resolved types.
  std::vector<std::optional<ElementType>> firm = types;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i] && is_number(inputs[i])) firm[i].reset();
  }
  const std::optional<ElementType> attribute_type = onnx::type_attribute(schema, attributes);
  const onnx::TypeResolution by_tensors = onnx::resolve(schema, firm, attribute_type);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!types[i] || firm[i]) continue;
    const std::optional<ElementType> wanted = by_tensors.variable(schema.input(i)->type);
    if (wanted && *wanted != *types[i] && tensor::converts_exactly(*inputs[i].weight(), *wanted)) {
      inputs[i] = number(*tensor::convert_weight(*inputs[i].weight(), *wanted));
      types[i] = wanted;
    }
  }
  return onnx::resolve(schema, types, attribute_type);
}

void GraphBuilder::check_attributes(std::string_view name, std::span<const ir::Attribute> attributes) {
  for (size_t i = 0; i < attributes.size(); ++i) {
    const ir::Attribute& attribute = attributes[i];
    const auto refuse_it = [&](std::string_view why) {
      invalid_node(name, fmt::format("attribute \"{}\" {}", attribute.name, why));
    };
    const auto rest = attributes.subspan(i + 1);
    if (std::ranges::find(rest, attribute.name, &ir::Attribute::name) != rest.end())
      refuse_it("is given twice");
    if (onnx::kind_of(attribute.value) == onnx::AttributeKind::undefined) {
      refuse_it("is " + ir::str(attribute.value) + ", which no ONNX attribute can hold");
    }
    const auto check_float = [&](double value) {
      if (!is_beyond_float32(value)) return;
      refuse(fmt::format("the attribute {} is {}, which exceeds float32", attribute.name, value));
    };
    if (const auto* value = std::get_if<double>(&attribute.value)) check_float(*value);
    if (const auto* values = std::get_if<std::vector<double>>(&attribute.value)) {
      std::ranges::for_each(*values, check_float);
    }
    const auto check_body = [&](const ir::GraphPtr& body) {
      if (!state_->used_bodies.insert(body.get()).second) {
        refuse_it("is a graph that another attribute holds already; build one for each");
      }
    };
    const auto check_sparse = [&](const std::shared_ptr<const ir::SparseTensor>& tensor) {
      try {
        tensor->check();
      } catch (const Error& error) {
        refuse_it("is not a sparse tensor: " + error.message());
      }
    };
    if (const auto* body = std::get_if<ir::GraphPtr>(&attribute.value)) check_body(*body);
    if (const auto* bodies = std::get_if<std::vector<ir::GraphPtr>>(&attribute.value)) {
      std::ranges::for_each(*bodies, check_body);
    }
    using SparseTensor = std::shared_ptr<const ir::SparseTensor>;
    if (const auto* tensor = std::get_if<SparseTensor>(&attribute.value)) check_sparse(*tensor);
    if (const auto* tensors = std::get_if<std::vector<SparseTensor>>(&attribute.value)) {
      std::ranges::for_each(*tensors, check_sparse);
    }
  }
}

std::vector<Value> GraphBuilder::append(std::string op, std::vector<Value> inputs,
                                        std::vector<ir::Attribute> attributes,
                                        std::vector<ir::TensorType> outputs) {
  const std::string type(ir::OpName(op).type);
  ir::Node* node = graph_->add_node(std::move(op));
  if (call_) {
    node->source = call_->source;
    node->source.op = call_->op;
    node->source.by_user = !bundled_;
    if (!call_->outputs.empty()) node->source.call = call_->outputs[0]->name;
  }
  node->name = unique_name(node->source.scope.empty() ? type : node->source.scope + "/" + type);
  for (Value input : inputs) node->inputs.push_back(input.get());
  node->attributes = std::move(attributes);
  std::vector<Value> made;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::string name =
        outputs.size() == 1 ? node->name + ":out" : fmt::format("{}:out{}", node->name, i);
    made.push_back(graph_->add_output_of(node, name, std::move(outputs[i])));
  }
  return made;
}

ir::GraphPtr GraphBuilder::subgraph(
    std::string name, std::vector<ir::TensorType> inputs,
    const std::function<std::vector<Value>(GraphBuilder&, std::vector<Value>)>& build) {
  auto body = std::make_shared<ir::Graph>();
  body->name = unique_name(name);
  GraphBuilder inner(*this, *body);
  std::vector<Value> parameters;
  for (ir::TensorType& type : inputs)
    parameters.push_back(body->add_input(unique_name(body->name + "/in"), std::move(type)));
  for (Value output : build(inner, parameters)) {
    // The outputs of a body must be made in the body, and must be different values.
    const bool own =
        output.get()->producer && std::ranges::find(body->nodes, output.get()->producer) != body->nodes.end();
    const bool taken = std::ranges::find(body->outputs, output.get()) != body->outputs.end();
    if (!own || taken) output = inner.op("Identity", output);
    body->outputs.push_back(output.get());
  }
  return body;
}

void GraphBuilder::add_function(OnnxFunction function) {
  for (const OnnxFunction& known : state_->functions) {
    if (known.domain == function.domain && known.name == function.name) {
      if (known.bytes != function.bytes)
        refuse(fmt::format("two ONNX functions are named {}::{}", known.domain, known.name));
      return;
    }
  }
  state_->functions.push_back(std::move(function));
}

const std::vector<OnnxFunction>& BuilderStage::functions() const { return g_.state_->functions; }

Value BuilderStage::converted(Value value, ElementType type, std::vector<int64_t> dims) const {
  const ir::Weight& from = *value.weight();
  if (from.element_type == type && from.dims == dims) return value;
  Value& made = g_.state_->converted_constants[{value.get(), type, dims}];
  if (made) return made;
  std::optional<ir::Weight> weight = tensor::convert_weight(from, type);
  if (!weight) g_.refuse("a constant of " + std::string(name(from.element_type)) + " cannot be converted");
  weight->dims = std::move(dims);
  made = g_.state_->root->add_initializer(g_.unique_name(value.get()->name + ":" + std::string(name(type))),
                                          *std::move(weight));
  return made;
}

Value GraphBuilder::constant(ir::Weight weight) {
  constexpr size_t most_shared_bytes = 64;
  std::string key;
  if (weight.bytes.size() <= most_shared_bytes) {
    key = fmt::format("{}[{}]", static_cast<int>(weight.element_type), fmt::join(weight.dims, ","));
    key.append(reinterpret_cast<const char*>(weight.bytes.data()), weight.bytes.size());
    auto found = state_->small_constants.find(key);
    if (found != state_->small_constants.end()) return found->second;
  }
  Value made = state_->root->add_initializer(unique_name("constant"), std::move(weight));
  if (!key.empty()) state_->small_constants.emplace(std::move(key), made);
  return made;
}

Value GraphBuilder::scalar(const Scalar& value, ElementType type) {
  if (const Dim* dim = std::get_if<Dim>(&value.get())) return cast(size(*dim), type);
  if (const Value* tensor = std::get_if<Value>(&value.get())) return cast(*tensor, type);
  return constant(tensor::scalar_weight(value, type));
}

Value GraphBuilder::number(const Scalar& value) {
  if (const Dim* dim = std::get_if<Dim>(&value.get())) return size(*dim);
  if (const Value* tensor = std::get_if<Value>(&value.get())) return *tensor;
  const ElementType type = value.is_bool()       ? ElementType::boolean
                           : value.is_integral() ? ElementType::int64
                           : value.is_complex()  ? ElementType::complex128
                                                 : ElementType::float64;
  return number(tensor::scalar_weight(value, type));
}

Value GraphBuilder::number(ir::Weight weight) {
  // Not shared with other constants of the same bytes, whose element type is fixed.
  Value made = state_->root->add_initializer(unique_name("number"), std::move(weight));
  state_->numbers.insert(made.get());
  return made;
}

bool GraphBuilder::is_number(Value value) const { return state_->numbers.contains(value.get()); }

Value GraphBuilder::ints(std::span<const int64_t> values) {
  return constant(ir::Weight::of(values, {static_cast<int64_t>(values.size())}));
}

size_t GraphBuilder::result_count() const { return call_ ? call_->outputs.size() : 0; }

const ir::TensorType& GraphBuilder::result(size_t index) const {
  if (index >= result_count())
    throw Error(ErrorCode::invalid_argument, fmt::format("{} has no result {}", symbolic_, index), where());
  return call_->outputs[index]->tensor_type();
}

void GraphBuilder::refuse(const std::string& reason) const {
  throw Error(ErrorCode::unsupported, (call_ ? call_->op : symbolic_) + ": " + reason, where());
}

void GraphBuilder::invalid_node(std::string_view name, const std::string& what) const {
  const std::string by = symbolic_.empty() ? "" : fmt::format(" (in the symbolic function {})", symbolic_);
  throw Error(ErrorCode::invalid_node, fmt::format("g.op(\"{}\"){}: {}", name, by, what), where());
}

void GraphBuilder::breaks(const onnx::OpSchema& schema, const std::string& what) const {
  invalid_node(schema.name(), what + "\n  ONNX expects " + onnx::describe(schema));
}

std::string GraphBuilder::where() const {
  if (!call_) return {};
  return call_->source.line.empty() ? call_->source.scope : call_->source.line;
}

void BuilderStage::set_call(const ir::Node* call, std::string symbolic, bool bundled) const {
  g_.call_ = call;
  g_.symbolic_ = std::move(symbolic);
  g_.bundled_ = bundled;
}

void BuilderStage::reserve_name(const std::string& name) const { g_.state_->used_names.try_emplace(name, 0); }

std::string GraphBuilder::unique_name(const std::string& stem) {
  return support::unique_name(state_->used_names, stem);
}

void BuilderStage::reserve_symbol(const std::string& name) const {
  g_.state_->used_symbols.try_emplace(name, 0);
}

Dim GraphBuilder::unknown_size(const std::string& stem, int64_t least) {
  return Dim::symbol(support::unique_name(state_->used_symbols, stem), least);
}

}  // namespace opbridge
