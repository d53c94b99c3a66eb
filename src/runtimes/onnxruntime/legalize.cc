#include "runtimes/onnxruntime/legalize.h"

#include "runtimes/onnxruntime/faults.h"

namespace opbridge::onnxruntime {

void legalize(ir::Graph& graph, int opset, const Refuse& refuse) {
  replace_nodes(graph, opset, refuse);
  ir::Names names(graph);
  fit_element_types(graph, names, opset, refuse);
  mend_empty_products(graph, names, opset);
  spread_float64_scales(graph, names);
  cast_before_rotations(graph, names);
  keep_pads_before_pools(graph, names, opset);
}

}  // namespace opbridge::onnxruntime
