#include "opbridge/convert.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "ir/uses.h"
#include "lowering/diagnosis.h"
#include "lowering/missing.h"
#include "onnx/model_reader.h"
#include "onnx/proto_fields.h"
#include "opbridge/frontend.h"
#include "pipeline/choice.h"
#include "pipeline/size_names.h"
#include "runtimes/onnxruntime/legalize.h"
#include "runtimes/standard/legalize.h"
#include "torch/foreach.h"
#include "torch/prims.h"

namespace opbridge {

namespace {

void check_count(std::string_view kind, size_t names, size_t values) {
  if (names <= values) return;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("{0} {1} names for a model with {2} {1}{3} (numbers and None are constants)", names,
                          kind, values, values == 1 ? "" : "s"));
}

// The weights that are parameters, in the order of their names in the options.
std::vector<ir::Value*> parameters_of(const ir::Graph& graph, const ConvertOptions& options) {
  std::unordered_map<std::string_view, ir::Value*> by_name;
  for (ir::Value* weight : graph.initializers) by_name.emplace(weight->name, weight);
  std::vector<ir::Value*> result;
  for (const std::string& name : options.parameters) {
    if (const auto found = by_name.find(name); found != by_name.end()) result.push_back(found->second);
  }
  return result;
}

// The range of each symbol in the sizes of the inputs, as "2..9". Symbols that may be any number from 1 on
// are left out.
std::vector<std::pair<std::string, std::string>> size_ranges(const ir::Graph& graph) {
  std::map<std::string, std::string> ranges;
  const std::function<void(const Expr&)> visit = [&](const Expr& expr) {
    for (const ExprPtr& operand : expr.operands) visit(*operand);
    if (expr.kind != Expr::Kind::symbol || !expr.least || (*expr.least == 1 && !expr.most)) return;
    ranges[expr.name] =
        fmt::format("{}..{}", *expr.least, expr.most ? std::to_string(*expr.most) : std::string());
  };
  for (const ir::Value* input : graph.inputs) {
    const auto* tensor = std::get_if<ir::TensorType>(&input->type);
    if (tensor == nullptr || !tensor->dims) continue;
    for (const Dim& dim : *tensor->dims) {
      if (!dim.is_static()) visit(*dim.expr());
    }
  }
  std::vector<std::pair<std::string, std::string>> result;
  for (const auto& [name, range] : ranges) result.emplace_back(onnx::proto::size_range_key + name, range);
  return result;
}

// Makes the parameters the last inputs, unless they are constants, so that no stage relies on their values.
// Returns the values.
std::vector<ir::Weight> separate_parameters(ir::Graph& graph, const ConvertOptions& options) {
  std::vector<ir::Weight> values;
  if (options.parameters_as == ParametersAs::constants) return values;
  std::unordered_set<const ir::Value*> separated;
  for (ir::Value* parameter : parameters_of(graph, options)) {
    values.push_back(*std::exchange(parameter->weight, nullptr));
    graph.inputs.push_back(parameter);
    separated.insert(parameter);
  }
  std::erase_if(graph.initializers, [&](const ir::Value* value) { return separated.contains(value); });
  return values;
}

// Attaches the values to the last inputs as their defaults.
void attach_defaults(OnnxModel& model, size_t first, std::vector<ir::Weight> values) {
  for (size_t i = 0; i < values.size(); ++i) {
    const ir::Value& input = *model.graph.inputs[first + i];
    const ElementType type = input.tensor_type().element_type;
    if (is_complex(values[i].element_type) && !is_complex(type)) {
      values[i].element_type = type;  // its bytes are those of the pairs
      values[i].dims.push_back(2);
    }
    model.defaults.emplace_back(input.name, std::move(values[i]));
  }
}

// Names the inputs and checks the names of the outputs.
void apply_names(ir::Graph& graph, const ConvertOptions& options) {
  std::vector<ir::Value*> named = graph.inputs;
  if (options.input_names.size() > named.size() && options.parameters_as == ParametersAs::constants) {
    const std::vector<ir::Value*> parameters = parameters_of(graph, options);
    if (options.input_names.size() == named.size() + parameters.size())
      named.insert(named.end(), parameters.begin(), parameters.end());
  }
  check_count("input", options.input_names.size(), named.size());
  for (size_t i = 0; i < options.input_names.size(); ++i) named[i]->name = options.input_names[i];
  std::vector<std::string_view> names(options.output_names.begin(), options.output_names.end());
  for (const ir::Value* input : graph.inputs) names.push_back(input->name);
  std::ranges::sort(names);
  if (std::ranges::find(names, "") != names.end())
    throw Error(ErrorCode::invalid_argument, "the name of an input or an output is empty");
  if (const auto twice = std::ranges::adjacent_find(names); twice != names.end()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("two inputs or outputs share the name '{}'", *twice));
  }
}

// Dropout in training mode becomes opbridge::random_dropout, opbridge::random_alpha_dropout and so on.
void let_dropout_be_random(ir::Graph& graph) {
  ir::for_each_node(graph, [](ir::Graph&, ir::Node& node) {
    if (!node.op.starts_with("aten::") || !node.op.ends_with("dropout")) return;
    const ir::AttributeValue* train = node.find("train");
    if (train != nullptr && std::holds_alternative<bool>(*train) && std::get<bool>(*train))
      node.op = fmt::format("opbridge::random_{}", ir::OpName(node.op).type);
  });
}

ir::Graph functionalize(ir::Graph graph, const SymbolicRegistry& registry, const ConvertOptions& options) {
  apply_names(graph, options);
  torch::replace_prims(graph);
  torch::expand_foreach(graph);
  FunctionalizeOptions functionalizing;
  functionalizing.mutations_as_outputs = options.mutations_as_outputs;
  functionalizing.warn = options.warn;
  functionalizing.schema = [&](std::string_view op) {
    const Symbolic* symbolic = registry.find(op, options.opset);
    return symbolic != nullptr && symbolic->schema ? &*symbolic->schema : nullptr;
  };
  graph = functionalize(std::move(graph), functionalizing);
  if (options.random) let_dropout_be_random(graph);
  check_count("output", options.output_names.size(), graph.outputs.size());
  return graph;
}

// Makes the graph one that ONNX Runtime runs, and imports the domain of the operators that this adds.
void legalize_for_onnxruntime(OnnxModel& model, const runtimes::Refuse& refuse) {
  onnxruntime::legalize(model.graph, model.opset, refuse);
  ir::for_each_node(model.graph, [&](ir::Graph&, const ir::Node& node) {
    const std::string_view domain = ir::OpName(node.op).domain;
    if (domain == "opbridge" || domain == "com.microsoft")
      model.opset_imports.try_emplace(std::string(domain), 1);
  });
}

// The stage of the target. `refuse` is called for each node that the target does not take.
void legalize(OnnxModel& model, Target target, const runtimes::Refuse& refuse) {
  switch (target) {
    case Target::onnxruntime:
      return legalize_for_onnxruntime(model, refuse);
    case Target::onnx:
      return standard::legalize(model, refuse);
  }
}

// Several nodes of one call are refused for one reason.
runtimes::Refuse add_calls_to(MissingReport& report) {
  return [&report, known = std::set<std::tuple<std::string, std::string, std::string>>()](
             const ir::Node& node, const Error& error) mutable {
    if (known.emplace(error.message(), node.source.scope, node.source.line).second)
      report.add_refused(node, error);
  };
}

Error without_outputs() {
  return {ErrorCode::unsupported, "the model returns no tensor, but an ONNX model needs outputs"};
}

// Turns the initializers with these names into inputs, with their values as defaults.
void restore_defaults(OnnxModel& model, const std::vector<std::string>& names) {
  ir::Graph& graph = model.graph;
  for (const std::string& name : names) {
    const auto found = std::ranges::find(graph.initializers, name, &ir::Value::name);
    ir::Value* value = *found;
    graph.initializers.erase(found);
    graph.inputs.push_back(value);
    model.defaults.emplace_back(name, *std::exchange(value->weight, nullptr));
  }
}

// Copies the weights that are not aligned for their elements, as in a file.
void align_weights(ir::Graph& model) {
  for (ir::Graph* graph : ir::all_graphs(model)) {
    for (ir::Value* value : std::vector(graph->initializers)) {
      const ir::Weight& weight = *value->weight;
      if (reinterpret_cast<uintptr_t>(weight.bytes.data()) % alignof(std::max_align_t) == 0) continue;
      const auto copy = std::make_shared<std::vector<std::byte>>(weight.bytes.begin(), weight.bytes.end());
      const ir::Value* aligned =
          graph->add_initializer(value->name, {weight.element_type, weight.dims, *copy, copy});
      graph->initializers.pop_back();
      value->weight = aligned->weight;
    }
  }
}

// Puts the inputs after the first `count` into the order of the parameters.
void order_parameters(std::vector<ir::Value*>& inputs, size_t count,
                      const std::vector<std::string>& parameters) {
  std::ranges::stable_sort(
      inputs.begin() + static_cast<ptrdiff_t>(count), inputs.end(), {},
      [&](const ir::Value* input) { return std::ranges::find(parameters, input->name); });
}

// functionalize → lower → simplify (optional).
OnnxModel lower_and_simplify(ir::Graph graph, const SymbolicRegistry& registry,
                             const ConvertOptions& options) {
  const size_t inputs = graph.inputs.size();
  if (is_choice(graph)) {
    Choice choice = parts_of(std::move(graph));
    ConvertOptions of_condition = options;
    of_condition.output_names.clear();
    OnnxModel model = join(lower_and_simplify(std::move(choice.condition), registry, of_condition),
                           lower_and_simplify(std::move(choice.if_true), registry, options),
                           lower_and_simplify(std::move(choice.if_false), registry, options));
    order_parameters(model.graph.inputs, inputs, options.parameters);
    return model;
  }
  const size_t outputs = graph.outputs.size();
  std::vector<ir::Weight> parameters = separate_parameters(graph, options);
  const ir::Graph pure = functionalize(std::move(graph), registry, options);
  OnnxModel model = lower(pure, registry, options);
  for (const ir::Value* output : std::span(pure.outputs).subspan(outputs))
    model.changed.push_back(output->name);
  model.metadata = size_ranges(model.graph);
  if (model.graph.outputs.empty()) throw without_outputs();
  if (options.simplify) simplify(model.graph);
  if (options.parameters_as == ParametersAs::defaults) attach_defaults(model, inputs, std::move(parameters));
  return model;
}

}  // namespace

Diagnosis diagnose(ir::Graph graph, const SymbolicRegistry& registry, const ConvertOptions& options) {
  if (options.progress != nullptr) options.progress->begin("conversion");
  const ir::Graph pure = functionalize(std::move(graph), registry, options);
  auto [log, model, report] = diagnose_lowering(pure, registry, options);
  const runtimes::Refuse refuse = [&log = log, add = add_calls_to(report)](const ir::Node& node,
                                                                           const Error& error) {
    log.refuse(node);
    add(node, error);
  };
  legalize(model, options.target, refuse);
  std::string problems = report.empty() ? "" : report.error().message();
  if (pure.outputs.empty()) problems += (problems.empty() ? "" : "\n\n") + without_outputs().message();
  return {log.operators(), report.missing(), problems};
}

OnnxModel to_onnx(ir::Graph graph, const SymbolicRegistry& registry, const ConvertOptions& options) {
  if (options.progress != nullptr) options.progress->begin("conversion");
  OnnxModel model = lower_and_simplify(std::move(graph), registry, options);
  MissingReport report(registry, options);
  legalize(model, options.target, add_calls_to(report));
  if (!report.empty()) report.raise();
  name_sizes_of_outputs(model.graph, options.output_sizes);
  return model;
}

OnnxModel read_written(const std::filesystem::path& path, const ConvertOptions& options) {
  onnx::ModelFile file = onnx::read_onnx(path);
  OnnxModel model = std::move(file.model);
  model.metadata = std::move(file.metadata);
  restore_defaults(model, file.overridable);
  if (!options.simplify) return model;
  align_weights(model.graph);
  simplify(model.graph);
  if (options.target == Target::onnxruntime) {
    // Simplifications may restore what the target had rewritten.
    legalize_for_onnxruntime(model, [](const ir::Node&, const Error& error) { throw error; });
  }
  return model;
}

WriteReport convert(const std::filesystem::path& pt2, const std::filesystem::path& onnx,
                    const ConvertOptions& options) {
  return convert(pt2, onnx, options, SymbolicRegistry::with_bundled());
}

WriteReport convert(const std::filesystem::path& pt2, const std::filesystem::path& onnx,
                    const ConvertOptions& options, const SymbolicRegistry& registry) {
  if (options.progress != nullptr) options.progress->begin("reading");
  ConvertOptions with_file = options;
  with_file.weight_files.push_back(map_weight_file(pt2));
  const auto weights = options.external_data == ExternalData::reference ? WeightsOfProgram::in_place
                                                                        : WeightsOfProgram::readable;
  ir::Graph graph = load_exported_program(with_file.weight_files.back(), weights);
  return write_onnx(to_onnx(std::move(graph), registry, options), onnx, with_file);
}

}  // namespace opbridge
