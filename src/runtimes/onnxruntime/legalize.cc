#include "runtimes/onnxruntime/legalize.h"

#include "runtimes/onnxruntime/faults.h"

namespace opbridge::onnxruntime {

void legalize(ir::Graph& graph, int opset, const Refuse& refuse) {
  fit_element_types(graph, opset, refuse);
  mend_empty_products(graph, opset);
  spread_float64_scales(graph);
  cast_before_rotations(graph);
  keep_pads_before_pools(graph, opset);
}

}  // namespace opbridge::onnxruntime
