// Converts a captured graph to a file: the stages behind opbridge.export.
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>
#include <nanobind/trampoline.h>

#include <optional>
#include <unordered_set>
#include <utility>

#include "bindings.h"
#include "inspect/diagnosis_report.h"
#include "inspect/graph_page.h"
#include "inspect/summary.h"
#include "onnx/model_reader.h"
#include "opbridge/convert.h"
#include "opbridge/progress.h"
#include "runtimes/standard/bodies.h"
#include "scaffold/repair.h"
#include "support/output_file.h"

namespace opbridge::python {
namespace {

// Calls the methods of a subclass in Python.
class ProgressInPython : public Progress {
 public:
  NB_TRAMPOLINE(Progress, 2);

  void begin(std::string_view step) override { NB_OVERRIDE_PURE(begin, step); }
  void advance(uint64_t done, uint64_t total) override { NB_OVERRIDE_PURE(advance, done, total); }
};

ExternalData to_external_data(const std::string& text) {
  if (text == "always") return ExternalData::always;
  if (text == "never") return ExternalData::never;
  if (text == "reference") return ExternalData::reference;
  return ExternalData::automatic;
}

Target to_target(const std::string& text) { return text == "onnx" ? Target::onnx : Target::onnxruntime; }

ParametersAs to_parameters_as(const std::string& text) {
  if (text == "defaults") return ParametersAs::defaults;
  if (text == "inputs") return ParametersAs::inputs;
  return ParametersAs::constants;
}

// The schema that torch has of an operator.
std::optional<OperatorSchema> schema_in_torch(const std::string& op) {
  const nb::object schema = nb::module_::import_("opbridge.symbolics.arguments").attr("schema_of_name")(op);
  if (schema.is_none()) return std::nullopt;
  return parse_schema(nb::str(schema).c_str());
}

nb::tuple as_tuple(size_t nodes, const WriteReport& report) {
  std::vector<std::string> referenced_files;
  for (const std::filesystem::path& file : report.referenced_files) referenced_files.push_back(file.string());
  return nb::make_tuple(nodes, report.model_bytes, report.external_bytes,
                        report.external_file.empty() ? nb::none() : nb::cast(report.external_file.string()),
                        report.referenced_bytes, referenced_files, report.write_seconds);
}

nb::tuple export_graph(GraphHandle& graph, const std::filesystem::path& path, nb::handle registry,
                       const std::string& target, int opset, std::map<std::string, int> custom_opsets,
                       const nb::dict& domain_versions, const std::string& external_data,
                       std::vector<WeightFile> weight_files, bool source_lines, bool simplify,
                       bool mutations_as_outputs, bool random, std::vector<std::string> parameters,
                       const std::string& parameters_as, std::vector<std::string> input_names,
                       std::vector<std::string> output_names, SizeNames output_sizes, Progress* progress,
                       nb::handle warn) {
  ConvertOptions options;
  options.target = to_target(target);
  options.opset = opset;
  options.custom_opsets = std::move(custom_opsets);
  options.external_data = to_external_data(external_data);
  options.weight_files = std::move(weight_files);
  options.source_lines = source_lines;
  options.simplify = simplify;
  options.mutations_as_outputs = mutations_as_outputs;
  options.random = random;
  options.parameters = std::move(parameters);
  options.parameters_as = to_parameters_as(parameters_as);
  options.input_names = std::move(input_names);
  options.output_names = std::move(output_names);
  options.output_sizes = std::move(output_sizes);
  options.progress = progress;
  options.schema_of = schema_in_torch;
  if (!warn.is_none()) options.warn = [warn](const std::string& what) { warn(what); };
  OnnxModel model = to_onnx(graph.take(), registry_of(registry), options);
  for (const auto& [domain, version] : nb::cast<std::map<std::string, int>>(domain_versions)) {
    const auto import = model.opset_imports.find(domain);
    if (import != model.opset_imports.end() && !options.custom_opsets.contains(domain))
      import->second = version;
  }
  WriteReport report;
  {
    const nb::gil_scoped_release unlocked;
    report = write_onnx(model, path, options);
  }
  return as_tuple(model.graph.nodes.size(), report);
}

// Writes the model of another file anew, with its weights stored in another way, and simplified if wanted.
nb::tuple rewrite_model(const std::filesystem::path& source, const std::filesystem::path& path,
                        const std::string& target, const std::string& external_data, bool simplify,
                        Progress* progress) {
  ConvertOptions options;
  options.progress = progress;
  options.target = to_target(target);
  options.external_data = to_external_data(external_data);
  options.simplify = simplify;
  const nb::gil_scoped_release unlocked;
  const OnnxModel model = read_written(source, options);
  const WriteReport report = write_onnx(model, path, options);
  const nb::gil_scoped_acquire locked;
  return as_tuple(model.graph.nodes.size(), report);
}

// The operators of a model and how often each occurs, bodies included.
std::map<std::string, int> operators_of(const std::filesystem::path& path) {
  std::map<std::string, int> counts;
  onnx::ModelFile file = onnx::read_onnx(path);
  ir::for_each_node(file.model.graph, [&](ir::Graph&, ir::Node& node) { ++counts[node.op]; });
  return counts;
}

// The name of the first node with the operator, and the line of the PyTorch program that made it. Both are
// empty if there is none.
std::pair<std::string, std::string> first_node_of(const std::filesystem::path& path, const std::string& op) {
  std::optional<std::pair<std::string, std::string>> found;
  onnx::ModelFile file = onnx::read_onnx(path);
  ir::for_each_node(file.model.graph, [&](ir::Graph&, ir::Node& node) {
    if (node.op == op && !found) found.emplace(node.name, node.source.line);
  });
  return found.value_or(std::pair<std::string, std::string>());
}

// Reports how each operator of the graph is converted, and writes what is missing. Returns whether no link is
// missing, the report, and what was written.
nb::tuple diagnose_graph(GraphHandle& graph, nb::handle registry, const std::string& name,
                         const std::string& target, int opset, bool json,
                         const std::filesystem::path& mappings, const std::filesystem::path& projects,
                         size_t width, bool bold, bool colours, bool random) {
  ConvertOptions options;
  options.random = random;
  options.target = to_target(target);
  options.opset = opset;
  options.mutations_as_outputs = true;
  options.schema_of = schema_in_torch;
  const Diagnosis diagnosis = diagnose(graph.take(), registry_of(registry), options);
  const std::string report =
      json ? inspect::to_json(diagnosis, name, options.target, opset)
           : inspect::to_text(diagnosis, name, options.target, opset, {width, bold, colours});
  const std::string written = scaffold::write_repair({mappings, projects}, diagnosis, name, opset);
  return nb::make_tuple(diagnosis.problems.empty(), report, written);
}

// Draws the model at `model` as a page, with what its export knows.
void write_page(const std::filesystem::path& model, const std::filesystem::path& page,
                std::vector<std::pair<std::string, double>> steps,
                const std::vector<std::tuple<std::string, double, double, std::string>>& errors,
                std::string verdict) {
  const nb::gil_scoped_release unlocked;
  inspect::ExportFacts facts{std::move(steps), {}, std::move(verdict)};
  for (const auto& [call, absolute, relative, mismatch] : errors)
    facts.errors.push_back({call, absolute, relative, mismatch});
  const onnx::ModelFile file = onnx::read_onnx(model);
  inspect::Summary summary = inspect::summarize(file);
  summary.file = model.filename();
  summary.format = "ONNX";
  summary.file_bytes = std::filesystem::file_size(model);
  support::write_text(page, inspect::graph_page(file.model.graph, summary, file.model.opset, facts));
}

// Functionalizes the graph and makes an output of every tensor that one node computes and another uses, so
// that values can be compared one by one. Returns (name, operator, source line) of each, in order.
nb::list expose_values(GraphHandle& handle) {
  ir::Graph graph = functionalize(handle.take());
  std::unordered_set<const ir::Value*> used(graph.outputs.begin(), graph.outputs.end());
  for (ir::Node* node : graph.nodes) {
    node->for_each_use([&](ir::Value*& value) { used.insert(value); });
  }
  nb::list exposed;
  graph.outputs.clear();
  for (ir::Node* node : graph.nodes) {
    for (ir::Value* output : node->outputs) {
      if (!used.contains(output) || !std::holds_alternative<ir::TensorType>(output->type)) continue;
      graph.outputs.push_back(output);
      exposed.append(nb::make_tuple(output->name, node->op, node->source.line));
    }
  }
  handle.put(std::move(graph));
  return exposed;
}

}  // namespace

void bind_pipeline(nb::module_& module) {
  using namespace nb::literals;
  module.def(
      "functionalize", [](GraphHandle& graph) { graph.put(functionalize(graph.take())); }, "graph"_a,
      "Replaces in-place and view operators of the graph by pure ones.");
  module.def(
      "write_page", &write_page, "model"_a, "page"_a, nb::kw_only(), "steps"_a, "errors"_a, "verdict"_a,
      "Draws the model as an HTML page. `steps` are the steps of its export with their seconds,\n"
      "`errors` the differences of the results of PyTorch's calls, `verdict` the verification's text.");
  module.def(
      "diagnose_graph", &diagnose_graph, "graph"_a, "registry"_a, nb::kw_only(), "name"_a, "target"_a,
      "opset"_a, "json"_a, "mappings"_a, "projects"_a, "width"_a = 0, "bold"_a = false, "colours"_a = false,
      "random"_a = false,
      "Reports how each operator of the graph, which is consumed, is converted. Returns whether no link is\n"
      "missing, the report, and lines that say what was written into `mappings` and `projects`. The report "
      "is\n"
      "for a terminal of `width` columns, or, if that is 0, for a file.");
  module.def("expose_values", &expose_values, "graph"_a,
             "Functionalizes the graph and makes an output of every computed tensor that is used. Returns\n"
             "tuples (name, operator, source line).");
  module.def(
      "opset_of", [](const std::filesystem::path& path) { return onnx::read_onnx(path).model.opset; },
      "path"_a, "The opset of ONNX's default domain in the model at `path`.");
  module.def(
      "standard_bodies",
      [] {
        std::vector<std::string> lines;
        for (const Symbolic* body : standard::bodies().all()) lines.push_back(body->schema->str());
        return lines;
      },
      "The schema lines of opbridge's operators for which target=\"onnx\" has bodies of standard operators.");
  nb::class_<Progress, ProgressInPython>(
      module, "Progress", "Receives the progress of a conversion, by calls of the methods of a subclass.")
      .def(nb::init<>())
      .def("begin", &Progress::begin, "step"_a)
      .def("advance", &Progress::advance, "done"_a, "total"_a);
  module.def(
      "export_graph", &export_graph, "graph"_a, "path"_a, "registry"_a, nb::kw_only(),
      "target"_a = "onnxruntime", "opset"_a, "custom_opsets"_a, "domain_versions"_a = nb::dict(),
      "external_data"_a, "weight_files"_a = std::vector<WeightFile>(), "source_lines"_a, "simplify"_a,
      "mutations_as_outputs"_a = false, "random"_a = false, "parameters"_a = std::vector<std::string>(),
      "parameters_as"_a = "constants", "input_names"_a, "output_names"_a, "output_sizes"_a = SizeNames(),
      "progress"_a.none() = nb::none(), "warn"_a.none() = nb::none(),
      "Converts the graph, which is consumed, and writes the model. Returns the number of nodes, the bytes\n"
      "of the model, those of the external data, its file or None, the bytes that the model refers to\n"
      "in other files, these files, and the seconds that the writing took.");
  module.def("operators_of", &operators_of, "path"_a,
             "The operators of the model at `path`, and how often each occurs.");
  module.def(
      "first_node_of", &first_node_of, "path"_a, "op"_a,
      "The name of the first node with the operator in the model at `path`, and the line of the PyTorch\n"
      "program that made it; empty if there is none.");
  module.def("rewrite_model", &rewrite_model, "source"_a, "path"_a, nb::kw_only(), "target"_a,
             "external_data"_a, "simplify"_a, "progress"_a.none() = nb::none(),
             "Reads the model at `source`, which opbridge wrote, and writes it to `path`. Returns what\n"
             "export_graph returns.");
}

}  // namespace opbridge::python
