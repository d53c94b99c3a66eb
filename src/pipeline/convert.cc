#include "opbridge/convert.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <tuple>

#include "lowering/diagnosis.h"
#include "lowering/missing.h"
#include "opbridge/frontend.h"
#include "runtimes/onnxruntime/legalize.h"
#include "runtimes/standard/legalize.h"

namespace opbridge {

namespace {

void check_count(std::string_view kind, size_t names, size_t values) {
  if (names <= values) return;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("{0} {1} names for a model with {2} {1}{3} (numbers and None are constants)", names,
                          kind, values, values == 1 ? "" : "s"));
}

// Names the inputs and checks the names of the outputs.
void apply_names(ir::Graph& graph, const ConvertOptions& options) {
  check_count("input", options.input_names.size(), graph.inputs.size());
  for (size_t i = 0; i < options.input_names.size(); ++i) graph.inputs[i]->name = options.input_names[i];
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

ir::Graph functionalize(ir::Graph graph, const SymbolicRegistry& registry, const ConvertOptions& options) {
  apply_names(graph, options);
  FunctionalizeOptions functionalizing;
  functionalizing.mutations_as_outputs = options.mutations_as_outputs;
  functionalizing.schema = [&](std::string_view op) {
    const Symbolic* symbolic = registry.find(op, options.opset);
    return symbolic != nullptr && symbolic->schema ? &*symbolic->schema : nullptr;
  };
  graph = functionalize(std::move(graph), functionalizing);
  check_count("output", options.output_names.size(), graph.outputs.size());
  return graph;
}

// The stage of the target. `refuse` is called for each node that the target does not take.
void legalize(OnnxModel& model, Target target, const Refuse& refuse) {
  switch (target) {
    case Target::onnxruntime:
      return onnxruntime::legalize(model.graph, model.opset, refuse);
    case Target::onnx:
      return standard::legalize(model, refuse);
  }
}

// Several nodes of one call are refused for one reason.
Refuse add_calls_to(MissingReport& report) {
  return [&report, known = std::set<std::tuple<std::string, std::string, std::string>>()](
             const ir::Node& node, const Error& error) mutable {
    if (known.emplace(error.message(), node.source.scope, node.source.line).second)
      report.add_refused(node, error);
  };
}

}  // namespace

Diagnosis diagnose(ir::Graph graph, const SymbolicRegistry& registry, const ConvertOptions& options) {
  const ir::Graph pure = functionalize(std::move(graph), registry, options);
  auto [log, model, report] = diagnose_lowering(pure, registry, options);
  const Refuse refuse = [&log = log, add = add_calls_to(report)](const ir::Node& node, const Error& error) {
    log.refuse(node);
    add(node, error);
  };
  legalize(model, options.target, refuse);
  return {log.operators(), report.empty() ? "" : report.error().message()};
}

OnnxModel to_onnx(ir::Graph graph, const SymbolicRegistry& registry, const ConvertOptions& options) {
  OnnxModel model = lower(functionalize(std::move(graph), registry, options), registry, options);
  if (model.graph.outputs.empty())
    throw Error(ErrorCode::unsupported, "the model returns no tensor, but an ONNX model needs outputs");
  if (options.simplify) simplify(model.graph, options.opset);
  MissingReport report(registry, options.opset);
  legalize(model, options.target, add_calls_to(report));
  if (!report.empty()) throw report.error();
  return model;
}

WriteReport convert(const std::filesystem::path& pt2, const std::filesystem::path& onnx,
                    const ConvertOptions& options) {
  return convert(pt2, onnx, options, SymbolicRegistry::with_bundled());
}

WriteReport convert(const std::filesystem::path& pt2, const std::filesystem::path& onnx,
                    const ConvertOptions& options, const SymbolicRegistry& registry) {
  return write_onnx(to_onnx(load_exported_program(pt2), registry, options), onnx, options);
}

}  // namespace opbridge
