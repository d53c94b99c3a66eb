// From a captured graph to a file: the stages behind opbridge.export.
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "opbridge/convert.h"

namespace opbridge::python {
namespace {

ExternalData to_external_data(const std::string& text) {
  if (text == "always") return ExternalData::always;
  if (text == "never") return ExternalData::never;
  return ExternalData::automatic;
}

nb::tuple export_graph(GraphHandle& graph, const std::filesystem::path& path, nb::handle registry, int opset,
                       std::map<std::string, int> custom_opsets, const std::string& external_data,
                       bool source_lines, bool simplify, std::vector<std::string> input_names,
                       std::vector<std::string> output_names) {
  ConvertOptions options;
  options.opset = opset;
  options.custom_opsets = std::move(custom_opsets);
  options.external_data = to_external_data(external_data);
  options.source_lines = source_lines;
  options.simplify = simplify;
  options.input_names = std::move(input_names);
  options.output_names = std::move(output_names);
  const OnnxModel model = to_onnx(graph.take(), registry_of(registry), options);
  WriteReport report;
  {
    const nb::gil_scoped_release unlocked;
    report = write_onnx(model, path, options);
  }
  return nb::make_tuple(model.graph.nodes.size(), report.model_bytes, report.external_bytes,
                        report.external_file.empty() ? nb::none() : nb::cast(report.external_file.string()));
}

}  // namespace

void bind_pipeline(nb::module_& module) {
  using namespace nb::literals;
  module.def(
      "functionalize", [](GraphHandle& graph) { graph.put(functionalize(graph.take())); }, "graph"_a,
      "Makes in-place and view operators of the graph pure ones.");
  module.def(
      "export_graph", &export_graph, "graph"_a, "path"_a, "registry"_a, nb::kw_only(), "opset"_a,
      "custom_opsets"_a, "external_data"_a, "source_lines"_a, "simplify"_a, "input_names"_a, "output_names"_a,
      "Converts the graph, which is consumed, and writes the model. Returns the number of nodes, the bytes\n"
      "of the model, those of the external data and its file or None.");
}

}  // namespace opbridge::python
