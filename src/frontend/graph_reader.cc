#include "frontend/graph_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "frontend/node_source.h"
#include "opbridge/error.h"
#include "torch/assertions.h"

namespace opbridge {
namespace {

constexpr std::string_view mutation_suffix = "_mutation";

[[noreturn]] void invalid(std::string what) { throw Error(ErrorCode::invalid_file, std::move(what)); }
[[noreturn]] void unsupported(std::string what) { throw Error(ErrorCode::unsupported, std::move(what)); }

std::string operator_name(std::string_view target) {
  if (target.empty()) invalid("a call without an operator");
  constexpr std::string_view torch_ops = "torch.ops.";
  if (!target.starts_with(torch_ops)) {
    // `_operator.add`, `math.trunc`, `torch.sym_max`; `#namespace:name` for operators of an extension
    const bool extension = target.starts_with('#');
    const size_t at = extension ? target.find(':') : target.rfind('.');
    if (at == std::string_view::npos) return std::string(target);
    return fmt::format("{}::{}", target.substr(extension ? 1 : 0, at - (extension ? 1 : 0)),
                       target.substr(at + 1));
  }
  target.remove_prefix(torch_ops.size());
  constexpr std::string_view default_overload = ".default";
  if (target.ends_with(default_overload)) target.remove_suffix(default_overload.size());
  const size_t dot = target.find('.');
  if (dot == std::string_view::npos) invalid("an operator without a namespace");
  return fmt::format("{}::{}", target.substr(0, dot), target.substr(dot + 1));
}

// Whether the call takes an effect token, which keeps calls in order, and returns nothing but the next one:
// it checks or prints something.
bool gives_token_alone(std::string_view op, json::Array outputs) {
  if (op != "higher_order::with_effects") return false;
  size_t results = 0;
  for (json::Element output : outputs) results += json::tagged(output).tag == "as_none" ? 0 : 1;
  return results == 1;
}

// Operators that call a body once and whose only other effects do not exist in ONNX.
std::optional<GraphReader::Region> region_of(std::string_view op) {
  constexpr std::string_view prefix = "higher_order::";
  if (!op.starts_with(prefix)) return std::nullopt;
  op.remove_prefix(prefix.size());
  if (op == "wrap_with_set_grad_enabled") return GraphReader::Region{1, 2};
  if (op == "wrap_with_autocast") return GraphReader::Region{4, 5};
  if (op == "invoke_subgraph") return GraphReader::Region{0, 2};
  if (op == "tag_activation_checkpoint" || op == "wrap_activation_checkpoint" || op == "wrap")
    return GraphReader::Region{0, 1};
  return std::nullopt;
}

// The tensors and scalars in a list of arguments, one by one.
std::vector<json::Tagged> flattened(json::Array arguments) {
  std::vector<json::Tagged> result;
  for (json::Element element : arguments) {
    const json::Tagged argument = json::tagged(element);
    if (argument.tag == "as_tensors") {
      for (json::Element tensor : json::as<json::Array>(argument.value))
        result.push_back({"as_tensor", tensor});
    } else {
      result.push_back(argument);
    }
  }
  return result;
}

// The name of the tensor or scalar that an argument refers to; empty for a constant.
std::string_view name_of(json::Tagged argument) {
  if (argument.tag == "as_tensor") return json::string_field(json::as<json::Object>(argument.value), "name");
  if (!argument.tag.starts_with("as_sym_")) return {};
  const json::Tagged number = json::tagged(argument.value);
  return number.tag == "as_name" ? json::as<std::string_view>(number.value) : std::string_view();
}

std::string_view text_of(json::Object metadata, std::string_view key) {
  std::string_view text;
  if (metadata.at_key(key).get(text) != simdjson::SUCCESS) return {};
  return text;
}

// Removes the nodes whose only result is an unused scalar: they computed operands of assertions.
void drop_unused_numbers(ir::Graph& graph) {
  std::unordered_set<const ir::Value*> used(graph.outputs.begin(), graph.outputs.end());
  for (auto slot = graph.nodes.rbegin(); slot != graph.nodes.rend(); ++slot) {
    ir::Node& node = **slot;
    const auto* number =
        node.outputs.size() == 1 ? std::get_if<ir::ScalarType>(&node.outputs[0]->type) : nullptr;
    if (number != nullptr && number->element_type != ElementType::int64 && !used.contains(node.outputs[0])) {
      *slot = nullptr;
      continue;
    }
    node.for_each_use([&](ir::Value*& value) {
      if (std::holds_alternative<ir::ScalarType>(value->type)) used.insert(value);
    });
  }
  std::erase(graph.nodes, nullptr);
}

}  // namespace

ir::Graph GraphReader::read(json::Object graph_module) {
  const json::Object signature = json::object_field(graph_module, "signature");
  ProgramBuilder builder;
  Scope scope = open(builder, json::object_field(graph_module, "graph"));
  read_inputs(scope, json::array_field(signature, "input_specs"));
  read_nodes(scope);
  read_outputs(scope, json::array_field(signature, "output_specs"));
  ir::Graph graph = std::move(builder).finish();
  drop_unused_numbers(graph);
  return graph;
}

GraphReader::Scope GraphReader::open(ProgramBuilder& builder, json::Object graph) {
  Scope scope{builder, graph};
  const json::Object tensors = json::object_field(graph, "tensor_values");
  scope.types.reserve(tensors.size());
  scope.names.reserve(tensors.size());
  for (const auto& [name, type] : tensors) scope.types.emplace(name, type);
  for (const char* kind : {"sym_int_values", "sym_bool_values", "sym_float_values"}) {
    json::Object numbers;
    if (graph.at_key(kind).get(numbers) != simdjson::SUCCESS) continue;
    for (const auto& [name, type] : numbers) scope.types.emplace(name, type);
  }
  return scope;
}

void GraphReader::read_inputs(Scope& scope, json::Array specs) {
  for (json::Element element : specs) {
    const auto [kind, value] = json::tagged(element);
    const auto spec = json::as<json::Object>(value);
    if (kind == "user_input") {
      bind_input(scope, json::tagged(json::field(spec, "arg")));
    } else if (kind == "parameter" || kind == "buffer" || kind == "tensor_constant") {
      const std::string_view placeholder = json::string_field(json::object_field(spec, "arg"), "name");
      const std::string_view name = json::string_field(spec, fmt::format("{}_name", kind));
      scope.names[placeholder] = StoredWeight{name};
      placeholders_[name] = placeholder;
    } else if (kind == "custom_obj") {
      scope.names[json::string_field(json::object_field(spec, "arg"), "name")] =
          Unusable{"an object of a custom class"};
    } else if (kind == "token") {
      scope.names[json::string_field(json::object_field(spec, "arg"), "name")] = Unusable{"an effect token"};
    } else if (kind != "constant_input") {  // the nodes contain its value
      unsupported(fmt::format("an input of kind '{}' is not supported", kind));
    }
  }
}

void GraphReader::bind_input(Scope& scope, json::Tagged argument) {
  if (argument.tag == "as_tensor") {
    const std::string_view name = json::string_field(json::as<json::Object>(argument.value), "name");
    ir::TensorType type = tensor_type(scope, name);
    for (const Dim& dim : *type.dims) symbols_.learn(dim);
    ir::Value* input = scope.builder.input(unique(name), std::move(type));
    scope.names[name] = input;
    note_layout(scope, name, input);
  } else if (argument.tag == "as_sym_int") {
    const auto [tag, value] = json::tagged(argument.value);
    if (tag != "as_name") return;
    const auto name = json::as<std::string_view>(value);
    const Dim dim = read_sym_int(type_of(scope, name));
    symbols_.learn(dim);
    scope.builder.input(unique(name), ir::ScalarType{ElementType::int64, dim});
    scope.names[name] = dim;
  } else if (argument.tag == "as_custom_obj") {
    scope.names[json::string_field(json::as<json::Object>(argument.value), "name")] =
        Unusable{"an object of a custom class"};
  }
  // The rest are constants, whose values the nodes contain.
}

void GraphReader::read_outputs(Scope& scope, json::Array specs) {
  std::vector<ir::Value*> returned;
  std::vector<json::Tagged> mutations;
  for (json::Element element : specs) {
    const json::Tagged spec = json::tagged(element);
    if (spec.tag == "user_output") {
      const json::Tagged argument = json::tagged(json::field(json::as<json::Object>(spec.value), "arg"));
      ir::AttributeValue value = read_argument(scope, argument);
      if (std::holds_alternative<std::monostate>(value)) continue;
      const std::string_view name = name_of(argument);
      returned.push_back(as_value(scope, std::move(value), name.empty() ? "output" : name));
    } else if (spec.tag == "loss_output") {
      const json::Object argument = json::object_field(json::as<json::Object>(spec.value), "arg");
      returned.push_back(tensor(scope, json::string_field(argument, "name")));
    } else if (spec.tag.ends_with(mutation_suffix)) {
      mutations.push_back(spec);
    } else if (spec.tag != "token") {
      unsupported(
          fmt::format("the program returns gradients ('{}'); export the forward pass alone", spec.tag));
    }
  }
  for (const json::Tagged& mutation : mutations) write_back(scope, mutation, returned);
  for (ir::Value* value : returned) scope.builder.output(value);
}

void GraphReader::write_back(Scope& scope, json::Tagged mutation, std::span<ir::Value* const> returned) {
  const auto spec = json::as<json::Object>(mutation.value);
  const std::string_view kind = mutation.tag.substr(0, mutation.tag.size() - mutation_suffix.size());
  std::string_view changed = json::string_field(spec, fmt::format("{}_name", kind));
  if (kind != "user_input") {
    const auto placeholder = placeholders_.find(changed);
    if (placeholder == placeholders_.end())
      invalid(fmt::format("it changes '{}', which does not exist", changed));
    changed = placeholder->second;
  }
  ir::Value* target = tensor(scope, changed);
  if (std::ranges::find(returned, target) != returned.end()) {
    unsupported(fmt::format("the program changes '{}' and returns its old content as well", target->name));
  }
  ir::Value* content = tensor(scope, json::string_field(json::object_field(spec, "arg"), "name"));
  ir::Node* copy = scope.builder.call("aten::copy_", {{"self", target}, {"src", content}});
  scope.builder.result(copy, unique(target->name), target->type);
}

void GraphReader::read_nodes(Scope& scope) {
  for (json::Element element : json::array_field(scope.graph, "nodes")) {
    const auto node = json::as<json::Object>(element);
    const std::string_view target = json::string_field(node, "target");
    try {
      read_node(scope, node);
    } catch (const Error& error) {
      std::string where = error.where();
      if (where.empty() && error.code() == ErrorCode::unsupported) {
        where = read_source({}, text_of(json::object_field(node, "metadata"), "stack_trace")).line;
      }
      throw Error(error.code(), fmt::format("{}: {}", target, error.message()), std::move(where));
    }
  }
}

void GraphReader::read_node(Scope& scope, json::Object node) {
  std::string op = operator_name(json::string_field(node, "target"));
  if (torch::is_assertion(op)) return;
  const json::Array outputs = json::array_field(node, "outputs");
  if (gives_token_alone(op, outputs)) {
    const json::Tagged token = json::tagged(json::item(outputs, 0));
    scope.names[json::string_field(json::as<json::Object>(token.value), "name")] =
        Unusable{"an effect token"};
    return;
  }
  if (outputs.size() == 1 && bind_known_number(scope, json::tagged(json::item(outputs, 0)))) return;
  if (op == "higher_order::wrap_with_autocast") {
    const json::Array inputs = json::array_field(node, "inputs");
    const json::Tagged enabled =
        json::tagged(json::field(json::as<json::Object>(json::item(inputs, 2)), "arg"));
    if (enabled.tag != "as_bool" || json::as<bool>(enabled.value)) {
      unsupported(
          "the casts of torch.autocast are not in the graph; save program.run_decompositions({}), which has "
          "them, or turn autocast off and convert the model by .to(dtype)");
    }
  }
  if (const std::optional<Region> region = region_of(op)) return inline_body(scope, node, *region);

  std::vector<ir::Attribute> arguments = read_arguments(scope, json::array_field(node, "inputs"));
  if (op.starts_with("aten::as_strided")) add_layout(scope, json::array_field(node, "inputs"), arguments);
  const json::Object metadata = json::object_field(node, "metadata");
  ir::Source source = read_source(text_of(metadata, "nn_module_stack"), text_of(metadata, "stack_trace"));
  ir::Node* call = scope.builder.call(std::move(op), std::move(arguments), std::move(source));
  std::string_view name;
  if (node.at_key("name").get(name) == simdjson::SUCCESS) call->name = name;
  for (const json::Tagged& output : flattened(outputs)) emit_result(scope, call, output);
}

// Integers that are computed from sizes and scalars of known value need no nodes.
bool GraphReader::bind_known_number(Scope& scope, json::Tagged output) {
  if (output.tag != "as_sym_int" && output.tag != "as_sym_float" && output.tag != "as_sym_bool") return false;
  const auto [tag, value] = json::tagged(output.value);
  if (tag != "as_name") return false;
  const auto name = json::as<std::string_view>(value);
  const json::Element& type = type_of(scope, name);
  if (output.tag == "as_sym_int") {
    const Dim dim = read_sym_int(type);
    if (!symbols_.known(dim)) return false;
    scope.names[name] = dim;
    return true;
  }
  const json::Tagged number = json::tagged(type);
  if (number.tag == "as_bool") {
    scope.names[name] = json::as<bool>(number.value);
  } else if (number.tag == "as_float") {
    scope.names[name] = json::as_number(number.value);
  } else {
    return false;
  }
  return true;
}

void GraphReader::emit_result(Scope& scope, ir::Node* node, json::Tagged output) {
  if (output.tag == "as_none") {
    scope.builder.result(node, unique(node->name + "_none"), ir::TensorType{});
    return;
  }
  if (output.tag == "as_tensor") {
    const std::string_view name = json::string_field(json::as<json::Object>(output.value), "name");
    ir::TensorType type = tensor_type(scope, name);
    for (const Dim& dim : *type.dims) symbols_.learn(dim);
    scope.names[name] = scope.builder.result(node, unique(name), std::move(type));
    return;
  }
  const auto [tag, value] = json::tagged(output.value);
  if (tag != "as_name") invalid("a result without a name");
  const auto name = json::as<std::string_view>(value);
  if (output.tag == "as_sym_int") {
    const Dim dim = read_sym_int(type_of(scope, name));
    symbols_.learn(dim);
    scope.builder.result(node, unique(name), ir::ScalarType{ElementType::int64, dim});
    scope.names[name] = dim;
  } else if (output.tag == "as_sym_float" || output.tag == "as_sym_bool") {
    const auto type = output.tag == "as_sym_bool" ? ElementType::boolean : ElementType::float64;
    scope.names[name] = scope.builder.result(node, unique(name), ir::ScalarType{type, {}});
  } else {
    unsupported(fmt::format("a result of kind '{}' is not supported", output.tag));
  }
}

void GraphReader::inline_body(Scope& scope, json::Object node, Region region) {
  const json::Array inputs = json::array_field(node, "inputs");
  const json::Tagged body =
      json::tagged(json::field(json::as<json::Object>(json::item(inputs, region.body)), "arg"));
  if (body.tag != "as_graph") invalid("its body is missing");
  Scope inner = open(scope.builder, json::object_field(json::as<json::Object>(body.value), "graph"));

  const json::Array parameters = json::array_field(inner.graph, "inputs");
  if (parameters.size() + region.operands != inputs.size())
    invalid("its body has the wrong number of inputs");
  auto parameter = parameters.begin();
  size_t index = 0;
  for (json::Element input : inputs) {
    if (index++ < region.operands) continue;
    const json::Tagged argument = json::tagged(json::field(json::as<json::Object>(input), "arg"));
    bind_name(inner, json::tagged(*parameter), read_argument(scope, argument));
    ++parameter;
  }
  read_nodes(inner);

  const std::vector<json::Tagged> results = flattened(json::array_field(inner.graph, "outputs"));
  const std::vector<json::Tagged> outputs = flattened(json::array_field(node, "outputs"));
  if (results.size() != outputs.size()) invalid("its body has the wrong number of outputs");
  for (size_t i = 0; i < outputs.size(); ++i) bind_name(scope, outputs[i], read_argument(inner, results[i]));
}

ir::GraphPtr GraphReader::read_body(json::Object argument) {
  const json::Object graph = json::object_field(argument, "graph");
  ProgramBuilder builder;
  Scope scope = open(builder, graph);
  for (json::Element input : json::array_field(graph, "inputs")) bind_input(scope, json::tagged(input));
  read_nodes(scope);
  for (json::Element output : json::array_field(graph, "outputs")) {
    const json::Tagged value = json::tagged(output);
    const std::string_view name = name_of(value);
    builder.output(as_value(scope, read_argument(scope, value), name.empty() ? "output" : name));
  }
  auto body = std::make_shared<ir::Graph>(std::move(builder).finish());
  body->name = json::string_field(argument, "name");
  drop_unused_numbers(*body);
  return body;
}

const GraphReader::Binding& GraphReader::lookup(Scope& scope, std::string_view name) const {
  const auto found = scope.names.find(name);
  if (found == scope.names.end()) invalid(fmt::format("'{}' is used before it is defined", name));
  if (const auto* unusable = std::get_if<Unusable>(&found->second)) {
    unsupported(fmt::format("'{}' is {}, which ONNX cannot represent", name, unusable->what));
  }
  return found->second;
}

void GraphReader::bind_name(Scope& scope, json::Tagged argument, ir::AttributeValue value) {
  const std::string_view name = name_of(argument);
  if (name.empty()) return;  // a constant
  if (const auto* made = std::get_if<ir::Value*>(&value)) {
    scope.names[name] = *made;
  } else if (const auto* dim = std::get_if<Dim>(&value)) {
    scope.names[name] = *dim;
  } else if (const auto* integer = std::get_if<int64_t>(&value)) {
    scope.names[name] = Dim(*integer);
  } else if (const auto* real = std::get_if<double>(&value)) {
    scope.names[name] = *real;
  } else if (const auto* truth = std::get_if<bool>(&value)) {
    scope.names[name] = *truth;
  } else {
    invalid(fmt::format("'{}' is neither a tensor nor a number", name));
  }
}

ir::Value* GraphReader::tensor(Scope& scope, std::string_view name) {
  const Binding& binding = lookup(scope, name);
  if (const auto* made = std::get_if<ir::Value*>(&binding)) return *made;
  const auto* stored = std::get_if<StoredWeight>(&binding);
  if (stored == nullptr) invalid(fmt::format("'{}' is not a tensor", name));
  ir::Value* weight = scope.builder.weight(unique(stored->name), tensors_.load(stored->name));
  scope.names[name] = weight;
  if (scope.types.contains(name)) note_layout(scope, name, weight);
  return weight;
}

std::string GraphReader::unique(std::string_view name) { return support::unique_name(taken_, name); }

}  // namespace opbridge
