#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <vector>

#include "bindings.h"
#include "ir/uses.h"

namespace opbridge::python {
namespace {

std::vector<std::string> source_lines(const GraphHandle& self) {
  std::vector<std::string> lines;
  for (const ir::Node* node : self.get().nodes) lines.push_back(node->source.line);
  return lines;
}

std::vector<std::string> weight_names(const GraphHandle& self) {
  std::vector<std::string> names;
  for (const ir::Graph* graph : ir::all_graphs(self.get())) {
    for (const ir::Value* value : graph->initializers) names.push_back(value->name);
  }
  return names;
}

nb::dict weights(const GraphHandle& self) {
  nb::dict weights;
  for (const ir::Value* value : self.get().initializers) {
    const ir::Weight& weight = *value->weight;
    const nb::bytes bytes(weight.bytes.data(), weight.bytes.size());
    weights[value->name.c_str()] = nb::make_tuple(static_cast<int>(weight.element_type), weight.dims, bytes);
  }
  return weights;
}

}  // namespace

void bind_graph(nb::module_& module) {
  nb::class_<GraphHandle>(module, "Graph", "A captured program. Its text has one node per line.")
      .def("__str__", [](const GraphHandle& self) { return ir::print(self.get()); })
      .def("verify", [](const GraphHandle& self) { ir::verify(self.get()); })
      .def_prop_ro("weights", &weights, "Name: (element type, dims, a copy of the bytes).")
      .def_prop_ro("weight_names", &weight_names)
      .def_prop_ro("source_lines", &source_lines, "The line of the user's program of each node.")
      .def_prop_ro("node_count", [](const GraphHandle& self) { return self.get().nodes.size(); });
}

}  // namespace opbridge::python
